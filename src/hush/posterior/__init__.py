"""Posterior samples: what they say, whether to trust them, and how far they are from the truth."""

from hush.posterior import calibration, wasserstein
from hush.posterior.calibration import is_classifier, labels, probabilities, reliability, scores, scores_of
from hush.posterior.reference import energy, reference_posterior
from hush.posterior.samples import Posterior

__all__ = [
    "Posterior",
    "calibration",
    "energy",
    "is_classifier",
    "labels",
    "probabilities",
    "reference_posterior",
    "reliability",
    "scores",
    "scores_of",
    "wasserstein",
]

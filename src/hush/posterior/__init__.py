"""Posterior samples: what they say, whether to trust them, and how far they are from the truth."""

from hush.posterior import prediction, wasserstein
from hush.posterior.prediction import is_classifier, labels, probabilities, reliability, scores, scores_of
from hush.posterior.reference import energy, reference_posterior
from hush.posterior.samples import Posterior

__all__ = [
    "Posterior",
    "energy",
    "is_classifier",
    "labels",
    "prediction",
    "probabilities",
    "reference_posterior",
    "reliability",
    "scores",
    "scores_of",
    "wasserstein",
]

"""What the papers prove: constants of a problem and a setting in, a bound out. A file or more for each paper."""

from hush.theory import (
    alignment,
    alignment_region,
    clipping,
    clipping_limits,
    clipping_privacy,
    fedpaq,
    fedpaq_privacy,
    langevin,
    langevin_gaussian,
    langevin_participation,
    langevin_privacy,
)
from hush.theory.constants import Constants, estimate

__all__ = [
    "Constants",
    "alignment",
    "alignment_region",
    "clipping",
    "clipping_limits",
    "clipping_privacy",
    "estimate",
    "fedpaq",
    "fedpaq_privacy",
    "langevin",
    "langevin_gaussian",
    "langevin_participation",
    "langevin_privacy",
]

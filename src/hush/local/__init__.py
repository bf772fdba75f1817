"""What a client computes: (key, broadcast, state, data) -> message, info; then commit(sent) -> state."""

from hush.core.contract import LocalRule
from hush.local.batches import BATCHES, Batches, Full, Replacement, Shuffled, Subset, batches
from hush.local.directions import (
    DIRECTIONS,
    ControlVariate,
    Direction,
    GradientCorrection,
    Proximal,
    WeightDecay,
    full_gradient,
)
from hush.local.scaffold import Scaffold
from hush.local.sgd import Gradient, LocalSGD, MeanGradient, Oracle

LOCAL_RULES: dict[str, type[LocalRule]] = {"gradient": Gradient, "sgd": LocalSGD, "scaffold": Scaffold}
ORACLES: dict[str, type[Oracle]] = {"mean": MeanGradient}

__all__ = [
    "BATCHES",
    "DIRECTIONS",
    "LOCAL_RULES",
    "ORACLES",
    "Batches",
    "ControlVariate",
    "Direction",
    "Full",
    "Gradient",
    "GradientCorrection",
    "LocalSGD",
    "MeanGradient",
    "Oracle",
    "Proximal",
    "Replacement",
    "Scaffold",
    "Shuffled",
    "Subset",
    "WeightDecay",
    "batches",
    "full_gradient",
]

"""What a client computes: (key, broadcast, state, data) -> message, info; then commit(sent) -> state."""

from hush.core.contract import LocalRule
from hush.local.adaptive import ClippedToBroadcast
from hush.local.batches import BATCHES, Batches, Fresh, Full, Replacement, Shuffled, Subset, batches
from hush.local.clipped import ClippedPerExample
from hush.local.directions import (
    DIRECTIONS,
    ControlVariate,
    Direction,
    GradientCorrection,
    Proximal,
    WeightDecay,
    full_gradient,
)
from hush.local.perturbed import Perturbed, output_sensitivity
from hush.local.scaffold import Scaffold
from hush.local.sgd import Gradient, LocalSGD, MeanGradient, Oracle

LOCAL_RULES: dict[str, type[LocalRule]] = {
    "gradient": Gradient,
    "sgd": LocalSGD,
    "scaffold": Scaffold,
    "perturbed": Perturbed,
    "clipped_to_broadcast": ClippedToBroadcast,
}
ORACLES: dict[str, type[Oracle]] = {"mean": MeanGradient, "clipped_per_example": ClippedPerExample}

__all__ = [
    "BATCHES",
    "DIRECTIONS",
    "LOCAL_RULES",
    "ORACLES",
    "Batches",
    "ClippedPerExample",
    "ClippedToBroadcast",
    "ControlVariate",
    "Direction",
    "Fresh",
    "Full",
    "Gradient",
    "GradientCorrection",
    "LocalSGD",
    "MeanGradient",
    "Oracle",
    "Perturbed",
    "Proximal",
    "Replacement",
    "Scaffold",
    "Shuffled",
    "Subset",
    "WeightDecay",
    "batches",
    "full_gradient",
    "output_sensitivity",
]

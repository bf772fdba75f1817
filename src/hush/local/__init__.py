"""What a client computes: (key, broadcast, state, data) -> message, info; then commit(sent) -> state."""

from hush.core.contract import LocalRule
from hush.local.adaptive import ClippedToBroadcast
from hush.local.batches import BATCHES, Batches, Fresh, Full, Replacement, Shuffled, Subset, batches
from hush.local.clipped import ClippedPerExample
from hush.local.directions import (
    ControlVariate,
    Direction,
    GradientCorrection,
    Proximal,
    Step,
    WeightDecay,
    full_gradient,
)
from hush.local.langevin import Langevin
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
DIRECTIONS: dict[str, type[Direction]] = {
    "weight_decay": WeightDecay,
    "proximal": Proximal,
    "control_variate": ControlVariate,
    "gradient_correction": GradientCorrection,
    "langevin": Langevin,
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
    "Langevin",
    "LocalSGD",
    "MeanGradient",
    "Oracle",
    "Perturbed",
    "Proximal",
    "Replacement",
    "Scaffold",
    "Shuffled",
    "Step",
    "Subset",
    "WeightDecay",
    "batches",
    "full_gradient",
    "output_sensitivity",
]

"""What a client computes: (key, broadcast, memory, data) -> message, memory, info; then commit(sent) -> memory."""

from hush.core.contract import LocalRule
from hush.core.optimisers import LocalOptimiser
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
from hush.local.dynamic import Dynamic, LinearPenalty
from hush.local.langevin import Langevin
from hush.local.normalised import Normalised
from hush.local.personal import Beside, PersonalPart
from hush.local.perturbed import Perturbed, output_sensitivity
from hush.local.scaffold import Scaffold
from hush.local.sgd import Gradient, LocalSGD, MeanGradient, Oracle
from hush.local.weighted import Weighted

LOCAL_RULES: dict[str, type[LocalRule]] = {
    "gradient": Gradient,
    "sgd": LocalSGD,
    "scaffold": Scaffold,
    "perturbed": Perturbed,
    "normalised": Normalised,
    "dynamic": Dynamic,
    "beside": Beside,
    "personal_part": PersonalPart,
    "clipped_to_broadcast": ClippedToBroadcast,
    "weighted": Weighted,
}
DIRECTIONS: dict[str, type[Direction]] = {
    "weight_decay": WeightDecay,
    "proximal": Proximal,
    "control_variate": ControlVariate,
    "gradient_correction": GradientCorrection,
    "linear_penalty": LinearPenalty,
    "langevin": Langevin,
}
ORACLES: dict[str, type[Oracle]] = {"mean": MeanGradient, "clipped_per_example": ClippedPerExample}

__all__ = [
    "BATCHES",
    "DIRECTIONS",
    "LOCAL_RULES",
    "ORACLES",
    "Batches",
    "Beside",
    "ClippedPerExample",
    "ClippedToBroadcast",
    "ControlVariate",
    "Direction",
    "Dynamic",
    "Fresh",
    "Full",
    "Gradient",
    "GradientCorrection",
    "Langevin",
    "LinearPenalty",
    "LocalOptimiser",
    "LocalSGD",
    "MeanGradient",
    "Normalised",
    "Oracle",
    "PersonalPart",
    "Perturbed",
    "Proximal",
    "Replacement",
    "Scaffold",
    "Shuffled",
    "Step",
    "Subset",
    "WeightDecay",
    "Weighted",
    "batches",
    "full_gradient",
    "output_sensitivity",
]

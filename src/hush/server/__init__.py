"""How the model moves: (key, state, received, coverage) -> state."""

from hush.core.contract import ServerRule
from hush.core.plain import Add
from hush.server.corrected import AddDynamic, AddNormalised, AddToShared
from hush.server.private import AdaptingClip, CorrelatedNoise
from hush.server.robust import Krum, Median, TrimmedMean
from hush.server.rules import AddWithControl, Gather, Optimiser, Replace

SERVER_RULES: dict[str, type[ServerRule]] = {
    "add": Add,
    "replace": Replace,
    "add_with_control": AddWithControl,
    "add_normalised": AddNormalised,
    "add_dynamic": AddDynamic,
    "add_to_shared": AddToShared,
    "gather": Gather,
    "optimiser": Optimiser,
    "adapting_clip": AdaptingClip,
    "correlated_noise": CorrelatedNoise,
    "median": Median,
    "trimmed_mean": TrimmedMean,
    "krum": Krum,
}

__all__ = [
    "SERVER_RULES",
    "AdaptingClip",
    "Add",
    "AddDynamic",
    "AddNormalised",
    "AddToShared",
    "AddWithControl",
    "CorrelatedNoise",
    "Gather",
    "Krum",
    "Median",
    "Optimiser",
    "Replace",
    "TrimmedMean",
]

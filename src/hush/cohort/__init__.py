"""Who takes part in a round: (key, population) -> ids, weights, active, coverage."""

from hush.cohort.cohorts import ByWeight, Cyclic, Everyone, Poisson, SchemeI, SchemeII, Uniform
from hush.core.contract import Cohort

COHORTS: dict[str, type[Cohort]] = {
    "everyone": Everyone,
    "uniform": Uniform,
    "cyclic": Cyclic,
    "poisson": Poisson,
    "by_weight": ByWeight,
    "scheme_i": SchemeI,
    "scheme_ii": SchemeII,
}

__all__ = ["COHORTS", "ByWeight", "Cyclic", "Everyone", "Poisson", "SchemeI", "SchemeII", "Uniform"]

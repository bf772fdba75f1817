"""How messages meet: received = Σ_k a_k · message_k + noise."""

from hush.channel.fading import (
    Constant,
    Correlated,
    Estimated,
    Fading,
    Gains,
    GaussianReal,
    Groups,
    PathLoss,
    PerClient,
    Rayleigh,
    Rician,
    from_decibel,
)
from hush.channel.noisy import Noisy
from hush.channel.optimal import LeastSquares
from hush.channel.over_the_air import OverTheAir
from hush.channel.power import (
    Alignment,
    BestBound,
    Divisor,
    FullPower,
    Given,
    Largest,
    PowerRule,
    Scaling,
    Total,
    TruncatedInversion,
)
from hush.core.contract import Channel
from hush.core.plain import Digital

CHANNELS: dict[str, type[Channel]] = {"digital": Digital, "noisy": Noisy, "over_the_air": OverTheAir}
FADINGS: dict[str, type[Fading]] = {
    "constant": Constant,
    "gaussian_real": GaussianReal,
    "rayleigh": Rayleigh,
    "rician": Rician,
    "correlated": Correlated,
    "path_loss": PathLoss,
    "groups": Groups,
    "per_client": PerClient,
    "estimated": Estimated,
}
POWER_RULES: dict[str, type[PowerRule]] = {
    "alignment": Alignment,
    "truncated_inversion": TruncatedInversion,
    "full_power": FullPower,
    "least_squares": LeastSquares,
}
DIVISORS: dict[str, type[Divisor]] = {
    "total": Total,
    "largest": Largest,
    "given": Given,
    "best_bound": BestBound,
}

__all__ = [
    "CHANNELS",
    "DIVISORS",
    "FADINGS",
    "POWER_RULES",
    "Alignment",
    "BestBound",
    "Constant",
    "Correlated",
    "Digital",
    "Divisor",
    "Estimated",
    "Fading",
    "FullPower",
    "Gains",
    "GaussianReal",
    "Given",
    "Groups",
    "Largest",
    "LeastSquares",
    "Noisy",
    "OverTheAir",
    "PathLoss",
    "PerClient",
    "PowerRule",
    "Rayleigh",
    "Rician",
    "Scaling",
    "Total",
    "TruncatedInversion",
    "from_decibel",
]

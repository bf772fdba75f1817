"""How messages meet: received = Σ_k a_k · message_k + noise, or every message by itself."""

from hush.channel.each import Each
from hush.channel.fading import (
    FADINGS,
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
    DIVISORS,
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
from hush.channel.secure_sum import SecureSum
from hush.core.contract import Channel
from hush.core.plain import Digital

CHANNELS: dict[str, type[Channel]] = {
    "digital": Digital,
    "noisy": Noisy,
    "over_the_air": OverTheAir,
    "each": Each,
    "secure_sum": SecureSum,
}
POWER_RULES: dict[str, type[PowerRule]] = {
    "alignment": Alignment,
    "truncated_inversion": TruncatedInversion,
    "full_power": FullPower,
    "least_squares": LeastSquares,
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
    "Each",
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
    "SecureSum",
    "Total",
    "TruncatedInversion",
    "from_decibel",
]

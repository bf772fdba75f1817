"""What is done to a message before it is sent: a chain of stages, of which a coder says what is left in few bits."""

from hush.core.contract import Code, Coder, Stage
from hush.core.laws import DiscreteGaussian, IntegerNoise, Skellam
from hush.uplink.clip import Clip
from hush.uplink.compressor import Compressor
from hush.uplink.feedback import ErrorFeedback
from hush.uplink.fitting import fitted
from hush.uplink.grid import GridGaussian
from hush.uplink.levels import QSGD, TernGrad
from hush.uplink.modular import Modular
from hush.uplink.noise import Gaussian
from hush.uplink.rotation import Rotated
from hush.uplink.rounding import BFloat16
from hush.uplink.sign import Sign
from hush.uplink.sparsify import RandomK, TopK

STAGES: dict[str, type[Stage]] = {
    "clip": Clip,
    "gaussian": Gaussian,
    "grid_gaussian": GridGaussian,
    "qsgd": QSGD,
    "terngrad": TernGrad,
    "sign": Sign,
    "top_k": TopK,
    "random_k": RandomK,
    "bfloat16": BFloat16,
    "rotated": Rotated,
    "error_feedback": ErrorFeedback,
    "modular": Modular,
}
INTEGER_NOISES: dict[str, type[IntegerNoise]] = {"discrete_gaussian": DiscreteGaussian, "skellam": Skellam}

__all__ = [
    "INTEGER_NOISES",
    "QSGD",
    "STAGES",
    "BFloat16",
    "Clip",
    "Code",
    "Coder",
    "Compressor",
    "DiscreteGaussian",
    "ErrorFeedback",
    "Gaussian",
    "GridGaussian",
    "IntegerNoise",
    "Modular",
    "RandomK",
    "Rotated",
    "Sign",
    "Skellam",
    "TernGrad",
    "TopK",
    "fitted",
]

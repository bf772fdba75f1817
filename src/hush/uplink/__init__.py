"""What is done to a message before it is sent: a chain of stages, of which a coder says what is left in few bits."""

from hush.core.contract import Code, Coder, Stage
from hush.uplink.clip import Clip
from hush.uplink.compressor import Compressor
from hush.uplink.feedback import ErrorFeedback
from hush.uplink.grid import GridGaussian
from hush.uplink.levels import QSGD, TernGrad
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
}

__all__ = [
    "QSGD",
    "STAGES",
    "BFloat16",
    "Clip",
    "Code",
    "Coder",
    "Compressor",
    "ErrorFeedback",
    "Gaussian",
    "GridGaussian",
    "RandomK",
    "Rotated",
    "Sign",
    "TernGrad",
    "TopK",
]

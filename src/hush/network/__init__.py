"""The same round between machines: what a device checks, keeps and answers.

Names are loaded when they are first used: who only enrols devices need not wait for JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hush.network.device import device_step
    from hush.network.guard import Guard, Refused

_HOMES = {
    "Guard": "hush.network.guard",
    "Refused": "hush.network.guard",
    "device_step": "hush.network.device",
}

__all__ = ["Guard", "Refused", "device_step"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'hush.network' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

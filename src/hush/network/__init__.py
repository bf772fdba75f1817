"""The same round between machines: a coordinator, devices, what they agree to, and what carries their messages.

Names are loaded when they are first used: who only enrols devices need not wait for JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hush.network.agreement import Agreement, agree
    from hush.network.coordinator import Coordinator
    from hush.network.credentials import Authority, DeviceCredential, ServerCredential
    from hush.network.desk import Desk
    from hush.network.device import Device, device_step
    from hush.network.federation import Federation
    from hush.network.guard import Guard, Refused
    from hush.network.joining import join
    from hush.network.serving import serve, through_bytes

_HOMES = {
    "Agreement": "agreement",
    "Authority": "credentials",
    "Coordinator": "coordinator",
    "Desk": "desk",
    "Device": "device",
    "DeviceCredential": "credentials",
    "Federation": "federation",
    "Guard": "guard",
    "Refused": "guard",
    "ServerCredential": "credentials",
    "agree": "agreement",
    "device_step": "device",
    "join": "joining",
    "serve": "serving",
    "through_bytes": "serving",
}

__all__ = [
    "Agreement",
    "Authority",
    "Coordinator",
    "Desk",
    "Device",
    "DeviceCredential",
    "Federation",
    "Guard",
    "Refused",
    "ServerCredential",
    "agree",
    "device_step",
    "join",
    "serve",
    "through_bytes",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"hush.network.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'hush.network' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

"""The same round between machines: a coordinator, devices, what they agree to, and what carries their messages."""

from hush.network.agreement import Agreement, agree
from hush.network.coordinator import Coordinator
from hush.network.desk import Desk
from hush.network.device import Device, device_step
from hush.network.federation import Federation
from hush.network.guard import Guard, Refused
from hush.network.serve import serve, through_bytes

__all__ = [
    "Agreement",
    "Coordinator",
    "Desk",
    "Device",
    "Federation",
    "Guard",
    "Refused",
    "agree",
    "device_step",
    "serve",
    "through_bytes",
]

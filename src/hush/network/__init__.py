"""The same round between machines: what a device checks, keeps and answers."""

from hush.network.device import device_step
from hush.network.guard import Guard, Refused

__all__ = ["Guard", "Refused", "device_step"]

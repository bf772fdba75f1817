"""One client's part of a round on a real device."""

from collections.abc import Mapping
from typing import Any

from hush.core import keys
from hush.core.contract import Info, Message, State
from hush.core.problem import ClientData
from hush.core.round import client_step
from hush.network.guard import Guard


def device_step(
    guard: Guard, told: Mapping[str, Any], state: State, data: ClientData, phase: int = 0
) -> tuple[Message, State, Info]:
    """`client_step` on a device: admitted by its guard, its noise on a grid and from the operating system.

    Batches, too, come from 64 bits of the operating system's that only this device has seen.
    """
    guard.admit(dict(told), phase)
    return client_step(guard.algorithm.phases[phase], keys.system(), told, state, data)

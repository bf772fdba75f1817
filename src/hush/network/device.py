"""One client's part of a round on a real device."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from hush.core import keys
from hush.core.contract import Info, State
from hush.core.problem import ClientData
from hush.core.round import answer, pack
from hush.network.guard import Guard


def device_step(
    guard: Guard, told: Mapping[str, Any], state: State, data: ClientData, phase: int = 0
) -> tuple[dict[str, bytes], State, Info]:
    """`client_step` on a device: admitted by its guard, its noise on a grid and from the operating system.

    What comes back are the bytes to send, by the message's name, what the device remembers, and info. Batches, too,
    come from 64 bits of the operating system's that only this device has seen.
    """
    guard.admit(dict(told), phase)
    running = guard.algorithm.phases[phase]
    made = answer(running, keys.system(), told, state, data)
    payloads = pack(running, made.codes, jnp.zeros(guard.dimension))
    sent, counted = 8 * sum(map(len, payloads.values())), int(made.info["bits"])
    if sent != counted:
        raise ValueError(f"the uplink counts {counted:,} bits and sends {sent:,}: a stage has bits that no Coder packs")
    return payloads, made.state, made.info

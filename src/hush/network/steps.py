"""The steps of a secure sum as they travel: which sum and step, and what `secure_sum` makes of it.

asked     the server's word in a step; in the first, who is in the sum and what a round tells its clients
stepped   a member's answer
"""

import struct
from typing import NamedTuple

import numpy as np

from hush.core.floats import WireError
from hush.network.messages import RUN_BYTES, body_of, framed

ASKED, STEPPED = 7, 8  # kinds of messages, beside those of `messages`
_STEP = struct.Struct(f"<{RUN_BYTES}siBB")
_COUNT = struct.Struct("<I")
HEADER = 64  # bytes, more than a step has beside what it carries


class Step(NamedTuple):
    """One step of one sum."""

    run: bytes
    number: int
    phase: int
    step: int
    body: bytes


def write_step(kind: int, step: Step) -> bytes:
    """A step of either side."""
    return framed(kind, _STEP.pack(*step[:-1]) + step.body)


def read_step(kind: int, data: bytes) -> Step:
    """The reverse of `write_step`."""
    body = body_of(data, kind)
    if len(body) < _STEP.size:
        raise WireError(f"a step of a sum is cut short: {len(body)} bytes")
    run, number, phase, step = _STEP.unpack_from(body)
    return Step(run, number, phase, step, body[_STEP.size :])


def write_opening(clients: tuple[int, ...], told: bytes) -> bytes:
    """What the first step says: who is in the sum, and the message that tells the round."""
    return _COUNT.pack(len(clients)) + np.asarray(clients, "<u4").tobytes() + told


def read_opening(body: bytes) -> tuple[tuple[int, ...], bytes]:
    """The reverse of `write_opening`."""
    if len(body) < _COUNT.size:
        raise WireError("the opening of a sum is cut short")
    (count,) = _COUNT.unpack_from(body)
    end = _COUNT.size + 4 * count
    if len(body) < end:
        raise WireError(f"the opening of a sum names {count} members, and has no room for them")
    return tuple(np.frombuffer(body[_COUNT.size : end], "<u4").tolist()), body[end:]

"""The uplink as a chain: transforms, then at most one code that is sent, then what the receiver can do by itself.

`encode` is the client's half and `decode` the server's; `common` is a key that all clients of the round share. A
simulation fuses the two; a device packs in between. Where no stage is a `Coder`, the numbers are sent as they are, 32
bits each.
"""

from typing import NamedTuple

import jax.numpy as jnp

from hush.core.contract import Code, Coder, Info, Stage, State
from hush.core.counts import count
from hush.core.floats import WireError, float_bytes, floats_of
from hush.core.keys import Key, at, root
from hush.core.problem import Vector

BITS_PER_NUMBER = 32


class Chain(NamedTuple):
    """An uplink's stages in three parts; a coder before the last one is a transform like others."""

    before: tuple[Stage, ...]
    coder: Coder | None
    after: tuple[Stage, ...]


def parts(stages: tuple[Stage, ...]) -> Chain:
    """The stages before the code that is sent, the coder that makes it, and what follows."""
    place = max((j for j, stage in enumerate(stages) if isinstance(stage, Coder)), default=None)
    if place is None:
        return Chain(stages, None, ())
    coder: Coder = stages[place]  # type: ignore[assignment]  # as was asked above
    return Chain(stages[:place], coder, stages[place + 1 :])


def check_chain(stages: tuple[Stage, ...]) -> None:
    """Refuse a stage that would change a vector whose code has been sent."""
    _, coder, after = parts(stages)
    for stage in after:
        if not stage.after_code:
            raise ValueError(
                f"{type(coder).__name__} makes the code that is sent, and {type(stage).__name__} after it would send "
                "something else; after a code only Clip may stand, which the receiver does: put it before"
            )


def encode(
    stages: tuple[Stage, ...], key: Key, vector: Vector, states: tuple[State, ...], common: Key
) -> tuple[Code, tuple[State, ...], Info]:
    """The client's half: the code that is sent, what every stage remembers, and info with the exact `bits` it costs."""
    before, coder, _ = parts(stages)
    info: Info = {"bits": BITS_PER_NUMBER * vector.size}
    remembered = []
    for j, stage in enumerate(before):
        vector, state, seen = stage(at(key, j), vector, states[j])
        info |= seen
        remembered.append(state)
    if coder is None:
        return {"numbers": vector}, tuple(remembered), info | {"bits": count(info["bits"])}
    place = len(before)
    code, state, seen = coder.encode_in(at(key, place), common, vector, states[place])
    kept = (*remembered, state, *states[place + 1 :])
    return code, kept, info | seen | {"bits": count(coder.bits(code, vector.size))}


def decode(stages: tuple[Stage, ...], code: Code, dimension: int, common: Key) -> tuple[Vector, Info]:
    """The server's half: the vector [dimension] that arrives, and what the stages after the code say of it."""
    _, coder, after = parts(stages)
    vector = code["numbers"] if coder is None else coder.decode_in(code, dimension, common)
    info: Info = {}
    for stage in after:
        vector, _, seen = stage(root(0), vector, {})  # it draws nothing
        info |= seen
    return vector, info


def pack(stages: tuple[Stage, ...], code: Code, dimension: int) -> bytes:
    """A code as it travels: the bytes whose bits `encode` has counted."""
    coder = parts(stages).coder
    return float_bytes(code["numbers"]) if coder is None else coder.pack(code, dimension)


def unpack(stages: tuple[Stage, ...], data: bytes, dimension: int) -> Code:
    """The reverse of `pack`; a `WireError` where bytes cannot be a code of these stages."""
    coder = parts(stages).coder
    if coder is not None:
        return coder.unpack(data, dimension)
    if len(data) != 4 * dimension:
        raise WireError(f"{dimension} numbers of 32 bits are {4 * dimension} bytes, found {len(data)}")
    return {"numbers": jnp.asarray(floats_of(data, dimension)[0])}

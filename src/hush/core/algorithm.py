"""An algorithm fills the five slots; `InTurn` lets several share a round. And one step of a client, and of the server.

`client_step` and `server_step` are all of federated learning; the engine only calls them many times, and a device in
the field calls the first of them once.
"""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from hush.core.check import scalar, shown, unknown_yet
from hush.core.contract import (
    Channel,
    ClientData,
    Cohort,
    Info,
    LocalRule,
    Message,
    ServerRule,
    Stage,
    State,
    Vector,
)
from hush.core.counts import count
from hush.core.keys import Key, at
from hush.core.norms import norm, power_of_two, reciprocal
from hush.core.plain import Add, Digital

BITS_PER_NUMBER = 32


class Algorithm(eqx.Module):
    """One way to fill the five slots."""

    cohort: Cohort
    local: LocalRule
    uplink: tuple[Stage, ...] = ()
    channel: Channel = Digital()
    server: ServerRule = Add()

    def __check_init__(self) -> None:
        if not isinstance(self.uplink, tuple):
            raise ValueError(f"the uplink must be a tuple of Stages, such as (Clip(1.0),), found {shown(self.uplink)}")
        slots: tuple[tuple[str, Any, type], ...] = (
            ("cohort", self.cohort, Cohort),
            ("local", self.local, LocalRule),
            ("channel", self.channel, Channel),
            ("server", self.server, ServerRule),
            *((f"uplink[{j}]", stage, Stage) for j, stage in enumerate(self.uplink)),
        )
        for name, piece, kind in slots:
            if not isinstance(piece, kind):
                raise ValueError(f"the slot {name} takes a {kind.__name__}, found {type(piece).__name__}: {piece!r}")
        missing = set(self.server.receives) - set(self.local.sends)
        if missing:
            raise ValueError(
                f"server {type(self.server).__name__} works from {sorted(missing)}, "
                f"which local {type(self.local).__name__} does not send; it sends {list(self.local.sends)}"
            )
        _check_bound(self.channel.message_bound, self.uplink)
        if self.cohort.with_replacement and jax.tree.leaves(init_client(self, jnp.zeros(1))):
            raise ValueError(
                f"cohort {type(self.cohort).__name__} may draw a client twice in a round, but its clients carry state "
                f"(local {type(self.local).__name__}); use a cohort without replacement"
            )

    @property
    def phases(self) -> tuple["Algorithm", ...]:
        """What happens in a round, in order."""
        return (self,)


def _check_bound(bound: Any, uplink: tuple[Stage, ...]) -> None:
    """Refuse messages that could be longer than a channel allows."""
    if bound is None:
        return
    bound, kept = scalar(bound), scalar(uplink[-1].norm_bound if uplink else None)
    # Inside a compiled program neither is known: they have been judged before, as plain numbers.
    if kept is None or not (unknown_yet(bound) or unknown_yet(kept) or kept <= bound):
        found = "nothing" if kept is None else f"a bound of {kept}"
        raise ValueError(f"the channel takes messages of norm {bound} at most; put Clip({bound}) last, found {found}")


class InTurn(eqx.Module):
    """Several algorithms in every round, one after the other, on one server state: each with a cohort of its own."""

    phases: tuple[Algorithm, ...]

    def __check_init__(self) -> None:
        if not self.phases or not all(isinstance(phase, Algorithm) for phase in self.phases):
            raise ValueError(f"InTurn takes one or more Algorithms, found {self.phases!r}")
        kept = [name for phase in self.phases for name in phase.server.keeps_to_itself]
        if len(set(kept)) < len(kept):
            raise ValueError(
                f"the phases of a round share one server state, in which only one may keep {sorted(set(kept))}, found "
                f"{', '.join(type(phase.server).__name__ for phase in self.phases)}"
            )


def check(algorithm: Algorithm | InTurn) -> None:
    """Refuse an algorithm in which a client needs what no server piece provides."""
    provided = {name for phase in algorithm.phases for name in phase.server.provides}
    for phase in algorithm.phases:
        missing = set(phase.local.needs) - provided
        if missing:
            raise ValueError(
                f"local {type(phase.local).__name__} needs {sorted(missing)} from the server, which provides "
                f"{sorted(provided)}; a control variate, for instance, needs the server AddWithControl"
            )


def init_server(algorithm: Algorithm | InTurn, model: Vector) -> State:
    """The server's state before the first round."""
    state: State = {"round": jnp.int32(0)}
    for phase in reversed(algorithm.phases):
        state |= phase.server.init(model)
    return state


def init_client(phase: Algorithm, model: Vector) -> State:
    """One client's state before its first round: the local rule's, and each stage's for each message."""
    template = phase.local.template(model)
    stages = {name: tuple(stage.init(vector) for stage in phase.uplink) for name, vector in template.items()}
    return {"local": phase.local.init(model), "uplink": stages}


def broadcast(phase: Algorithm, state: State, common: Key | None = None) -> dict[str, Any]:
    """What the server tells the cohort: the number of the round, and the vectors that the local rule needs.

    `common` is a key that all clients of the round are told, to draw the same from it; a new one for every round.
    """
    shared = {} if common is None else {"common": common}
    return {"round": state["round"]} | shared | {name: state[name] for name in phase.local.needs}


def client_step(
    phase: Algorithm,
    key: Key,
    told: Mapping[str, Any],
    state: State,
    data: ClientData,
    towards: Vector | None = None,
) -> tuple[Message, State, Info]:
    """One client's part of a round: what it sends, what it remembers, and info with the exact `bits` it cost.

    A simulation maps it. It believes what it is told; a device calls `hush.network.device_step`, which does not.

    The bits are a `Count`, of which `int` makes a number. With a vector to look `towards`, info has the update's length
    before the uplink and its cosine to that vector.
    """
    message, info = phase.local(at(key, "local"), told, state["local"], data)
    if towards is not None:
        info |= _watched(message["update"], towards)
    sent: Message = {}
    remembered = {}
    bits = count(0)
    for name, vector in message.items():
        cost: Any = BITS_PER_NUMBER * vector.size
        states = []
        for j, stage in enumerate(phase.uplink):
            vector, stage_state, seen = stage(at(key, "uplink", name, j), vector, state["uplink"][name][j])
            cost = seen.pop("bits", cost)
            info |= seen if name == "update" else {f"{name}_{key_}": value for key_, value in seen.items()}
            states.append(stage_state)
        sent[name], remembered[name] = vector, tuple(states)
        bits += cost
        info[f"{name}_norm"] = norm(vector)
    state = {"local": phase.local.commit(told, state["local"], sent), "uplink": remembered}
    return sent, state, info | {"bits": bits}


def _watched(update: Vector, towards: Vector) -> Info:
    """Paper 002, section 2.2: the magnitude of a client's update and its angle to the last global one."""
    length, other = norm(update), norm(towards)
    # Both at a length of about one, where no product leaves the range of floats.
    scale, other_scale = (reciprocal(power_of_two(each)) for each in (length, other))
    product = jnp.dot(scale * update, other_scale * towards, precision="highest")
    lengths = jnp.maximum((scale * length) * (other_scale * other), jnp.finfo(jnp.float32).tiny)
    return {"local_norm": length, "cosine": product / lengths}


def server_step(phase: Algorithm, key: Key, state: State, received: Message, share: jax.Array) -> State:
    """The server's part of a phase: the same names, moved by what was received."""
    return state | phase.server(key, state, received, share)

"""A round, as pure functions: who takes part, what they are told, what they answer, how it is put together.

    draw ──> broadcast ──> client_step ──> mix, combine ──> server_step
                           local_step
                           encode ─ decode

A simulation maps these over clients; between machines they are called one by one, with bytes between `encode` and
`decode`. All draws of a phase but the channel's come from addresses below one key, which the functions here know.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import random

from hush.core import coding
from hush.core.algorithm import Algorithm
from hush.core.contract import Code, Draw, Info, Message, Mixing, Received, Stacked, State, Statistics
from hush.core.counts import count
from hush.core.keys import Key, at, root
from hush.core.norms import norm
from hush.core.once import once
from hush.core.problem import ClientData, Population, Vector
from hush.core.summing import INTEGERS, summable

States = TypeVar("States")
_decode = eqx.filter_jit(coding.decode)  # of one answer after the other: each operation by itself takes longer


class Answer(NamedTuple):
    """What one client does in a round."""

    codes: dict[str, Code]  # what travels, by the message's name
    sent: Message  # the vectors that arrive
    state: State
    info: Info


def phase_key(run: Key, number: int | jax.Array, phase: int) -> Key:
    """The key of one phase of a round: all its draws but the channel's lie below it."""
    return at(run, "round", number, "phase", phase)


def channel_key(run: Key, phase: int) -> Key:
    """The channel's key, the same in every round: fading goes on over rounds."""
    return at(run, "phase", phase, "channel")


def client_key(key: Key, client: int | jax.Array) -> Key:
    """The key of one client's part of a phase."""
    return at(key, "client", client)


def draw(
    phase: Algorithm, key: Key, population: Population, number: int | jax.Array, left: jax.Array | None = None
) -> Draw:
    """Who takes part in the `number`-th round; of those drawn, where there is `left`, only who has rounds left."""
    drawn = phase.cohort(at(key, "cohort"), population, number)
    return drawn if left is None else retire(drawn, left, share=not phase.cohort.independent)


def retire(drawn: Draw, left: jax.Array, share: bool = True) -> Draw:
    """Who has no rounds left [N] declines, and what it would have weighed goes to the rest, or to nobody.

    Who is drawn several times takes as many places as it has rounds left.
    """
    found = without(drawn, left[drawn.ids] > _earlier(drawn.ids), share)
    order = jnp.argsort(~found.active, stable=True)
    return Draw(found.ids[order], found.weights[order], found.active[order], found.coverage)


def _earlier(ids: jax.Array) -> jax.Array:
    """How many places before each [K] are the same client's."""
    order = jnp.argsort(ids, stable=True)
    together = ids[order]
    nth = jnp.arange(ids.size) - jnp.searchsorted(together, together)
    return jnp.zeros_like(ids).at[order].set(nth.astype(ids.dtype))


def without(drawn: Draw, here: jax.Array, share: bool = True) -> Draw:
    """Only who is `here` [K], each in its place; what the others would have weighed goes to these, or to nobody."""
    active = drawn.active & here
    weights = jnp.where(active, drawn.weights, 0)
    if share:
        weights *= jnp.sum(drawn.weights * drawn.active) / jnp.maximum(jnp.sum(weights), jnp.finfo(jnp.float32).tiny)
    return Draw(drawn.ids, weights, active, drawn.coverage)


def broadcast(phase: Algorithm, state: State, common: Key | None = None) -> dict[str, Any]:
    """What the server tells the cohort: the number of the round, and the vectors that the local rule needs.

    `common` is a key that all clients of the round are told, to draw the same from it; a new one for every round.
    """
    shared = {} if common is None else {"common": common}
    return {"round": state["round"]} | shared | {name: state[name] for name in phase.local.needs}


def broadcast_of_round(phase: Algorithm, key: Key, state: State) -> dict[str, Any]:
    """`broadcast` with the common key of this round and phase."""
    return broadcast(phase, state, at(key, "common"))


def local_step(
    phase: Algorithm, key: Key, broadcast: Mapping[str, Any], memory: State, data: ClientData
) -> tuple[Message, State, Info]:
    """What a client computes: the message before the uplink, its memory, and info. Held to what the rule declares."""
    rule = phase.local
    message, memory, info = rule(at(key, "local"), broadcast, memory, data)
    if set(message) != set(rule.sends):
        raise ValueError(
            f"local ({type(rule).__name__}) declares that it sends {sorted(rule.sends)}, found {sorted(message)}"
        )
    if missing := set(rule.reports) - set(info):
        raise ValueError(
            f"local ({type(rule).__name__}) declares that it reports {sorted(missing)}, found {sorted(info)}"
        )
    return message, memory, info


def send(
    phase: Algorithm, key: Key, broadcast: Mapping[str, Any], message: Message, memory: State, state: State
) -> Answer:
    """The uplink's part: the message encoded and, as it will be by the server, decoded; the memory committed."""
    codes: dict[str, Code] = {}
    sent: Message = {}
    remembered: dict[str, Any] = {}
    info: Info = {}
    bits, common = count(0), broadcast.get("common", root(0))
    message = once(message)  # its length and the sum of all clients' ask for it in different orders
    for name, vector in message.items():
        address, kept = at(key, "uplink", name), state["uplink"][name]
        codes[name], remembered[name], seen = coding.encode(phase.uplink, address, vector, kept, common)
        sent[name], arrived = coding.decode(phase.uplink, codes[name], vector.size, common)
        bits += seen.pop("bits")
        info |= _named(name, seen | arrived) | {f"{name}_norm": norm(sent[name], skip=True)}
    memory = phase.local.commit(broadcast, memory, sent)
    return Answer(codes, sent, {"local": memory, "uplink": remembered}, info | {"bits": bits})


def _named(message: str, info: Info) -> Info:
    """What is seen of a message other than the update carries its name."""
    return info if message == "update" else {f"{message}_{name}": value for name, value in info.items()}


def answer(phase: Algorithm, key: Key, broadcast: Mapping[str, Any], state: State, data: ClientData) -> Answer:
    """One client's part of a round, with the codes that travel."""
    message, memory, info = local_step(phase, key, broadcast, state["local"], data)
    made = send(phase, key, broadcast, message, memory, state)
    return made._replace(info=info | made.info)


def client_step(
    phase: Algorithm, key: Key, broadcast: Mapping[str, Any], state: State, data: ClientData
) -> tuple[Message, State, Info]:
    """One client's part of a round: what arrives of it, what it remembers, and info with the exact `bits` it cost.

    The bits are a `Count`, of which `int` makes a number. A client step believes what it is told; a device calls
    `hush.network.device_step`, which does not.
    """
    _, sent, state, info = answer(phase, key, broadcast, state, data)
    return sent, state, info


def pack(phase: Algorithm, codes: Mapping[str, Code], model: Vector) -> dict[str, bytes]:
    """The codes of a client's answer as bytes, by the message's name."""
    sizes = {name: vector.size for name, vector in phase.local.template(model).items()}
    return {name: coding.pack(phase.uplink, codes[name], size) for name, size in sizes.items()}


def unpack(phase: Algorithm, payloads: Mapping[str, bytes], model: Vector) -> dict[str, jax.Array]:
    """What of the bytes meets the others', as the server takes it; refuses bytes that cannot be a client's answer."""
    sizes = {name: vector.size for name, vector in phase.local.template(model).items()}
    if set(payloads) != set(sizes):
        raise ValueError(f"an answer holds {sorted(sizes)}, found {sorted(payloads)}")
    codes = {name: coding.unpack(phase.uplink, payloads[name], size) for name, size in sizes.items()}
    if phase.channel.sums_codes:
        return {name: code[INTEGERS] for name, code in codes.items()}
    # Only codes that are summed ask for the key that a round's clients share.
    return {name: _decode(phase.uplink, codes[name], size, root(0))[0] for name, size in sizes.items()}


def mix(phase: Algorithm, air: Key, drawn: Draw, number: int | jax.Array, statistics: Statistics) -> Mixing:
    """How the messages of a round meet; `air` is the channel's key."""
    return phase.channel(air, drawn, number, statistics)


def statistics_of(updates: jax.Array, active: jax.Array) -> Statistics:
    """What an aware channel knows of a round's updates [K, d], inactive ones being zero."""
    total, squares = jnp.sum(updates, axis=0), jnp.square(norm(jax.vmap(norm)(updates)))
    return statistics_from(total, squares, jnp.sum(active))


def statistics_from(total: Vector, squares: jax.Array, active: jax.Array) -> Statistics:
    """From Σ v and Σ‖v‖² over so many clients: E‖v − v̄‖² = E‖v‖² − ‖v̄‖²."""
    clients, dimension = jnp.maximum(active, 1), total.size
    square, second = jnp.square(norm(total / clients)), squares / clients
    return Statistics(square / dimension, jnp.maximum(second - square, 0) / dimension)


def to_meet(phase: Algorithm, made: Answer) -> dict[str, jax.Array]:
    """What of a client's answer meets the others': the vectors that arrive, or codes where the channel sums these."""
    if phase.channel.sums_codes:
        return {name: code[INTEGERS] for name, code in made.codes.items()}
    return made.sent


def combine(coefficients: jax.Array, messages: Any) -> Any:
    """Σ_k a_k · message_k, over leading axes; in full precision: what is rounded first may be longer than was sent.

    Codes are whole numbers, which are added up as they are, modulo 2^32; they are zero where nobody is.
    """
    axes = coefficients.ndim

    def together(part: jax.Array) -> jax.Array:
        if jnp.issubdtype(part.dtype, jnp.unsignedinteger):
            return jnp.sum(part, axis=tuple(range(axes)), dtype=part.dtype)
        return jnp.tensordot(coefficients, part, axes, precision="highest")

    return jax.tree.map(together, messages)


def opened(phase: Algorithm, mixing: Mixing, active: jax.Array, common: Key, totals: Any) -> Message:
    """What sums are of which codes were added up: what they stand for, times the weight that all who are there have."""
    if not phase.channel.sums_codes:
        return totals
    coder = summable(phase.uplink)
    weight = jnp.sum(mixing.coefficients * active) / jnp.maximum(jnp.sum(active), 1)
    return {name: weight * coder.open(total, total.size, common) for name, total in totals.items()}


def hand_on(mixing: Mixing, active: jax.Array, messages: Message) -> Received:
    """Every message [K, …] by itself, with what it is asked to weigh, and who is there."""
    return {name: Stacked(rows, mixing.coefficients, active) for name, rows in messages.items()}


def receive(phase: Algorithm, key: Key, mixing: Mixing, active: jax.Array, messages: Message, common: Key) -> Received:
    """What the server gets of the messages [K, …], which are zero where nobody is."""
    if phase.channel.hands_each:
        return hand_on(mixing, active, messages)
    together = combine(mixing.coefficients, messages)
    return add_noise(key, mixing, opened(phase, mixing, active, common, together))


def add_noise(key: Key, mixing: Mixing, received: Message) -> Message:
    """Σ_k a_k · message_k + noise · N(0, I), a draw for each name; on the mixing's grid, if it has one."""
    if isinstance(mixing.noise, float) and not mixing.noise > 0:
        return received
    if mixing.grid is not None:
        return dict(mixing.grid.noisy(key, received, mixing.noise))
    return {
        name: vector + mixing.noise * random.normal(at(key, "noise", name), vector.shape)
        for name, vector in received.items()
    }


def server_step(phase: Algorithm, key: Key, state: State, received: Received, coverage: jax.Array) -> State:
    """The server's part of a phase: the same names, moved by what was received."""
    return state | phase.server(at(key, "server"), state, received, coverage)


def unless_too_few(phase: Algorithm, active: jax.Array, after: States, before: States) -> States:
    """States after a round, or before it where the round has fewer messages than the channel asks for."""
    if phase.channel.fewest == 0:
        return after
    enough = jnp.sum(active) >= phase.channel.fewest
    return jax.tree.map(lambda new, old: jnp.where(enough, new, old), after, before)


def next_round(state: State) -> State:
    """The server's state once all phases of a round are done."""
    return state | {"round": state["round"] + 1}

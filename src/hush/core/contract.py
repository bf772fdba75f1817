"""The contract of pieces: five slots, each a piece written for one client. What they work on is `core.problem`.

    cohort ──> local ──> uplink ──> channel ──> server
    who        what a     what is    how          how the
    takes      client     done to    messages     model
    part       computes   a message  meet         moves

A piece is a frozen set of settings: floats are leaves, so that a sweep over them is a `vmap`; ints and names are
static. What must be carried is state, what is only worth looking at is info, and both are handed in and out.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from hush.core.counts import Count, count
from hush.core.grid import Grid
from hush.core.keys import Key, root
from hush.core.part import Part
from hush.core.problem import ClientData, Population, Vector

State = dict[str, Any]
Message = dict[str, Vector]
Info = dict[str, Any]  # arrays, and `bits`, which are a `Count`
Code = dict[str, Any]  # arrays by name: what the bytes of a message stand for
Received = dict[str, Any]  # by the message's name: the sum as a `Vector`, or every message in a `Stacked`


class Draw(NamedTuple):
    """Who takes part: active clients stand before inactive ones; `coverage`·weights are the population's weights."""

    ids: jax.Array  # [K]
    weights: jax.Array  # [K], need not sum to one
    active: jax.Array  # [K]
    coverage: jax.Array


class Cohort(Part):
    """Who takes part in a round."""

    fills = "cohort"
    with_replacement: ClassVar[bool] = False
    padded: ClassVar[bool] = False  # whether places may stay inactive
    # Whether each client comes by itself, with a weight that is the same whoever else does: what one that declines
    # would have weighed then goes to nobody.
    independent: ClassVar[bool] = False

    @abstractmethod
    def places(self, clients: int) -> int:
        """How many places a round has; refuses a population it cannot draw from."""

    def squared_weights(self, population: Population) -> jax.Array:
        """Σ_i E[w_i²], w_i what client i weighs in a round, all its places together; 0 if it is not drawn."""
        raise ValueError(f"the cohort {type(self).__name__} does not say how its weights vary; Everyone and schemes do")

    def usual(self, clients: int) -> int:
        """How many of the places are taken in a round of the usual size: the work is laid out for these."""
        return self.places(clients)

    @abstractmethod
    def __call__(self, key: Key, population: Population, number: int | jax.Array = 0) -> Draw:
        """Draw the clients of one round, which is the `number`-th from 0."""


class Piece(Part):
    """What may have to hide something by noise."""

    @property
    def float_noise(self) -> bool:
        """Whether it draws privacy noise in floats, which can be undone: good for simulations, not in the field."""
        return False


class ClientPiece(Piece):
    """What runs on a client's own device."""


class LocalRule(ClientPiece):
    """What a client computes: from the broadcast and its own data to a message of named vectors.

    What it remembers between rounds is its memory: it may hold what is never sent, a personal model, say.
    """

    fills = "local"

    @property
    @abstractmethod
    def needs(self) -> tuple[str, ...]:
        """What it must be told, by name of the server's state."""

    @property
    @abstractmethod
    def sends(self) -> tuple[str, ...]:
        """What it answers, by name."""

    def check(self, population: Population) -> None:
        """Refuse a population this rule cannot serve."""

    @property
    def reports(self) -> tuple[str, ...]:
        """What its info tells at the least, by name: its number of `steps`."""
        return ("steps",)

    def init(self, model: Vector) -> State:
        """What a client remembers between rounds, before its first."""
        return {}

    def template(self, model: Vector) -> Message:
        """A message by its shapes: every vector as long as the model, unless the rule says otherwise."""
        return dict.fromkeys(self.sends, model)

    @abstractmethod
    def __call__(
        self, key: Key, broadcast: Mapping[str, Any], memory: State, data: ClientData
    ) -> tuple[Message, State, Info]:
        """The message of one client, what it remembers, and what is worth looking at."""

    def commit(self, broadcast: Mapping[str, Any], memory: State, sent: Message) -> State:
        """What the client remembers once it is known what was really sent: the uplink may lose something."""
        return memory

    def personal(self, model: Vector, memory: State) -> Vector | None:
        """The model that the client itself uses, made of the global one and its memory; None where all use that."""
        return None


class Stage(ClientPiece):
    """What is done to one vector of one client's message before it is sent."""

    fills = "uplink"

    @property
    def norm_bound(self) -> Any:
        """The norm that nothing which leaves this stage exceeds, if there is one."""
        return None

    @property
    def after_code(self) -> bool:
        """Whether it may follow a `Coder`: it draws nothing and remembers nothing, so that the receiver can do it."""
        return False

    def init(self, vector: Vector) -> State:
        """What the client remembers for this stage and message."""
        return {}

    @abstractmethod
    def __call__(self, key: Key, vector: Vector, state: State) -> tuple[Vector, State, Info]:
        """The vector as it is sent on. An info named `bits` replaces the 32 bits a number that it would cost.

        It is a whole number; one of 2**32 or more is a plain number, or a `Count`, as arrays do not hold it. Bits that
        no `Coder` packs are good for a simulation only: on a device such a stage is refused.
        """


class Coder(Stage):
    """A stage that says a vector in few bits: to a code and back, and the code to bytes and back.

    A device sends `pack(encode(…))` and the server takes `decode(unpack(bytes))`; a simulation goes the same way but
    for the bytes, and counts `bits`, which are those of the bytes.
    """

    @abstractmethod
    def encode(self, key: Key, vector: Vector, state: State) -> tuple[Code, State, Info]:
        """The code of a vector, what the client remembers, and what is worth looking at."""

    @abstractmethod
    def decode(self, code: Code, dimension: int) -> Vector:
        """The vector [dimension] that a code stands for."""

    def encode_in(self, key: Key, common: Key, vector: Vector, state: State) -> tuple[Code, State, Info]:
        """`encode` in a round whose clients share the key `common`; most have no use for it."""
        return self.encode(key, vector, state)

    def decode_in(self, code: Code, dimension: int, common: Key) -> Vector:
        """`decode` in such a round."""
        return self.decode(code, dimension)

    @abstractmethod
    def bits(self, code: Code, dimension: int) -> Count | int:
        """8 · len(pack(code)), counted without writing it; an int where it is the same for every vector."""

    @abstractmethod
    def pack(self, code: Code, dimension: int) -> bytes:
        """The code on the wire."""

    @abstractmethod
    def unpack(self, data: bytes, dimension: int) -> Code:
        """The code that the bytes stand for; refuses bytes that cannot be one."""

    def fixed_bits(self, dimension: int) -> int | None:
        """What every message of so many numbers costs; None where that depends on the message."""
        found = []

        def trace(vector: Vector) -> None:  # nothing is computed: only a count that needs no values comes out an int
            found.append(self.bits(self.encode(root(0), vector, self.init(vector))[0], dimension))

        jax.eval_shape(trace, jax.ShapeDtypeStruct((dimension,), jnp.float32))
        return found[0] if isinstance(found[0], int) else None

    def most_bits(self, dimension: int) -> float:
        """What no message of so many numbers costs more than; infinite where nothing is known."""
        fixed = self.fixed_bits(dimension)
        return math.inf if fixed is None else fixed

    def __call__(self, key: Key, vector: Vector, state: State) -> tuple[Vector, State, Info]:
        code, state, info = self.encode(key, vector, state)
        bits = count(self.bits(code, vector.size))
        return self.decode(code, vector.size), state, info | {"bits": bits}


class Mixing(NamedTuple):
    """How messages meet: received = Σ_k coefficients_k · message_k + noise · N(0, I), or all of it on a grid."""

    coefficients: jax.Array  # [K]
    noise: jax.Array | float
    transmit: jax.Array | float = 0.0  # [K], what a message is multiplied by to go on the air: its energy follows
    grid: Grid | None = None  # the noise is discrete, on this grid, to which the sum is rounded first


class Statistics(NamedTuple):
    """What is known of a round's updates before they meet: a mean over coordinates, taken over the active clients."""

    mean_square: jax.Array | float = 0.0  # m², of the clients' mean
    variance: jax.Array | float = 0.0  # v², of the clients around it


class Stacked(NamedTuple):
    """All messages of one name, a row for each place of the cohort: what a channel hands on that does not sum."""

    messages: jax.Array  # [K, d], zero where nobody is
    weights: jax.Array  # [K], what the cohort asks each to count, zero where nobody is
    active: jax.Array  # [K], where somebody is


class Channel(Piece):
    """How the messages of a round meet."""

    fills = "channel"
    aware: ClassVar[bool] = False  # whether it must know the messages' statistics, so that all are held at once
    analogue: ClassVar[bool] = False  # whether messages travel as they are: they cost channel uses, and no bits
    # Whether the server is handed every message by itself (`Stacked`), and not their sum. Its mixing then has the
    # weights, and no noise.
    hands_each: ClassVar[bool] = False
    # Whether codes are added up, and not what they stand for (`core.summing`): nobody sees a message by itself.
    sums_codes: ClassVar[bool] = False

    @property
    def fewest(self) -> int:
        """How many messages a round needs: one with fewer is thrown away, and moves nothing."""
        return 0

    def check(self, cohort: Cohort, population: Population) -> None:
        """Refuse a cohort of a population whose messages cannot meet here."""

    @property
    def message_bound(self) -> Any:
        """The norm that no message may exceed, if there is one: the uplink's last stage must see to it."""
        return None

    @abstractmethod
    def __call__(self, key: Key, draw: Draw, number: int | jax.Array, statistics: Statistics) -> Mixing:
        """The mixing of the `number`-th round for the cohort's draw. `key` is the run's, the same in every round."""


class ServerRule(Piece):
    """How the model moves."""

    fills = "server"
    takes_each: ClassVar[bool] = False  # whether it works from every message (`Stacked`), and not from their sum

    def check(self, places: int) -> None:
        """Refuse a cohort of so many places that this rule cannot work from."""

    @property
    @abstractmethod
    def provides(self) -> tuple[str, ...]:
        """The arrays of its state that can be broadcast, by name."""

    @property
    @abstractmethod
    def receives(self) -> tuple[str, ...]:
        """The messages it works from, by name."""

    @property
    def keeps_to_itself(self) -> tuple[str, ...]:
        """What of its state no other rule of the same round may share, by name."""
        return ()

    @abstractmethod
    def init(self, model: Vector) -> State:
        """The server's state before the first round; `model` is in it."""

    @abstractmethod
    def __call__(self, key: Key, state: State, received: Received, coverage: jax.Array) -> State:
        """The state after the round. `state["round"]` counts the rounds before this one."""

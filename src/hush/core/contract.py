"""The contract: five slots, each a piece written for one client, and the problem they work on.

    cohort ──> local ──> uplink ──> channel ──> server
    who        what a     what is    how          how the
    takes      client     done to    messages     model
    part       computes   a message  meet         moves

A piece is a frozen set of settings: floats are leaves, so that a sweep over them is a `vmap`; ints and names are
static. What must be carried is state, what is only worth looking at is info, and both are handed in and out.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hush.core.check import LARGEST, shown
from hush.core.clipping import clipping, weighted_sum
from hush.core.keys import Key
from hush.core.norms import norms

Vector = jax.Array  # [d], a model or a message, flat
Params = Any  # a pytree, the same model inside local training
State = dict[str, Any]
Message = dict[str, Vector]
Info = dict[str, Any]  # arrays, and `bits`, which are a `Count`


class Population(eqx.Module):
    """Who there is: N clients, their numbers of examples, and their shares p_i = n_i / n of the objective."""

    sizes: jax.Array
    shares: jax.Array
    clients: int = eqx.field(static=True)
    smallest: int = eqx.field(static=True)
    largest: int = eqx.field(static=True)
    examples: int = eqx.field(static=True)  # n, all clients' together, which 32 bits may not hold

    def __init__(self, sizes: np.ndarray[Any, Any]) -> None:
        sizes = np.asarray(sizes)
        if sizes.ndim != 1 or len(sizes) == 0:
            raise ValueError(f"a population needs a list of client sizes, found shape {sizes.shape}")
        if sizes.dtype.kind not in "iu":
            raise ValueError(f"client sizes must be whole numbers, found {sizes.dtype}: {shown(sizes.tolist())}")
        if sizes.max() > LARGEST:
            raise ValueError(
                f"a client holds at most {LARGEST:,} examples, found {sizes.max():,} at client {sizes.argmax()}"
            )
        if sizes.min() < 1:
            empty = np.flatnonzero(sizes < 1)
            raise ValueError(
                f"every client needs at least one example, found {len(empty)} without, the first is {empty[0]}"
            )
        self.sizes = jnp.asarray(sizes, jnp.int32)
        self.examples = int(sizes.sum(dtype=np.int64))
        self.shares = jnp.asarray(sizes / self.examples, jnp.float32)
        self.clients, self.smallest, self.largest = len(sizes), int(sizes.min()), int(sizes.max())


class ClientData(eqx.Module):
    """One client's view of a problem: what its device holds and can compute."""

    @property
    @abstractmethod
    def size(self) -> jax.Array:
        """How many examples it holds."""

    @property
    @abstractmethod
    def population(self) -> Population:
        """Whom the client is one of."""

    @property
    def share(self) -> jax.Array:
        """p_i, its part of all examples."""
        return self.size / float(self.population.examples)

    @property
    def extent(self) -> tuple[int, int]:
        """The fewest and the most examples that any client holds: shapes come from these."""
        return self.population.smallest, self.population.largest

    @abstractmethod
    def unravel(self, vector: Vector) -> Params:
        """The model as a pytree."""

    @abstractmethod
    def gradient(self, params: Params, rows: jax.Array, weights: jax.Array) -> Params:
        """Σ_r weights_r ∇ℓ(params; example rows_r)."""

    @abstractmethod
    def example_gradients(self, params: Params, rows: jax.Array) -> Params:
        """∇ℓ(params; example rows_r), stacked over r."""

    def clipped_gradient(self, params: Params, rows: jax.Array, weights: jax.Array, bound: float | jax.Array) -> Params:
        """Σ_r weights_r · g_r · min(1, bound/‖g_r‖), g_r = ∇ℓ(params; example rows_r); not a number counts as zero."""
        gradients = self.example_gradients(params, rows)
        return weighted_sum(clipping(norms(gradients, skip=True), weights, bound), gradients)


class Problem(eqx.Module):
    """Data, model and loss: what is to be learned, by whom."""

    population: eqx.AbstractVar[Population]

    @abstractmethod
    def init(self, key: Key) -> Params:
        """The model to start from."""

    @abstractmethod
    def client(self, index: int | jax.Array) -> ClientData:
        """The view of one client."""

    def present(self, params: Params) -> Any:
        """The model as a user would like to hold it."""
        return params

    def identities(self) -> np.ndarray[Any, Any] | None:
        """The number of the example at each place, client after client; None where no two places hold the same."""
        return None

    @abstractmethod
    def evaluate(self, params: Params, part: int | jax.Array = 0, parts: int = 1) -> dict[str, jax.Array]:
        """This part's share of every measure of the model; the parts add up to the measures."""


class Draw(NamedTuple):
    """Who takes part: active clients stand before inactive ones; `share`·weights are the population's weights."""

    ids: jax.Array  # [K]
    weights: jax.Array  # [K], need not sum to one
    active: jax.Array  # [K]
    share: jax.Array


class Cohort(eqx.Module):
    """Who takes part in a round."""

    with_replacement: ClassVar[bool] = False
    padded: ClassVar[bool] = False  # whether places may stay inactive

    @abstractmethod
    def slots(self, clients: int) -> int:
        """How many places a round has; refuses a population it cannot draw from."""

    def squared_weights(self, population: Population) -> jax.Array:
        """Σ_i E[w_i²], w_i what client i weighs in a round, all its places together; 0 if it is not drawn."""
        raise ValueError(f"the cohort {type(self).__name__} does not say how its weights vary; Everyone and schemes do")

    def usual(self, clients: int) -> int:
        """How many of the places are taken in a round of the usual size: the work is laid out for these."""
        return self.slots(clients)

    @abstractmethod
    def __call__(self, key: Key, population: Population, number: int | jax.Array = 0) -> Draw:
        """Draw the clients of one round, which is the `number`-th from 0."""


class ClientPiece(eqx.Module):
    """What runs on a client's own device, and may have to hide something there."""

    @property
    def float_noise(self) -> bool:
        """Whether it draws privacy noise in floats, which can be undone: good for simulations, not for devices."""
        return False


class LocalRule(ClientPiece):
    """What a client computes: from the broadcast and its own data to a message of named vectors."""

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

    def init(self, model: Vector) -> State:
        """What a client remembers between rounds, before its first."""
        return {}

    def template(self, model: Vector) -> Message:
        """A message by its shapes: every vector as long as the model, unless the rule says otherwise."""
        return dict.fromkeys(self.sends, model)

    @abstractmethod
    def __call__(self, key: Key, broadcast: Mapping[str, Any], state: State, data: ClientData) -> tuple[Message, Info]:
        """The message of one client, and what is worth looking at."""

    def commit(self, broadcast: Mapping[str, Any], state: State, sent: Message) -> State:
        """What the client remembers, given what was really sent (the uplink may lose something)."""
        return state


class Stage(ClientPiece):
    """What is done to one vector of one client's message before it is sent."""

    @property
    def norm_bound(self) -> Any:
        """The norm that nothing which leaves this stage exceeds, if there is one."""
        return None

    def init(self, vector: Vector) -> State:
        """What the client remembers for this stage and message."""
        return {}

    @abstractmethod
    def __call__(self, key: Key, vector: Vector, state: State) -> tuple[Vector, State, Info]:
        """The vector as it is sent on. An info named `bits` replaces the 32 bits a number that it would cost.

        It is a whole number; one of 2**32 or more is a plain number, or a `Count`, as arrays do not hold it.
        """


class Mixing(NamedTuple):
    """How messages meet: received = Σ_k coefficients_k · message_k + noise · N(0, I)."""

    coefficients: jax.Array  # [K]
    noise: jax.Array | float
    transmit: jax.Array | float = 0.0  # [K], what a message is multiplied by to go on the air: its energy follows


class Statistics(NamedTuple):
    """What is known of a round's updates before they meet: a mean over coordinates, taken over the active clients."""

    mean_square: jax.Array | float = 0.0  # m², of the clients' mean
    variance: jax.Array | float = 0.0  # v², of the clients around it


class Channel(eqx.Module):
    """How the messages of a round meet."""

    aware: ClassVar[bool] = False  # whether it must know the messages' statistics, so that all are held at once
    analogue: ClassVar[bool] = False  # whether messages travel as they are: they cost channel uses, and no bits

    @property
    def message_bound(self) -> Any:
        """The norm that no message may exceed, if there is one: the uplink's last stage must see to it."""
        return None

    @abstractmethod
    def __call__(self, key: Key, draw: Draw, number: int | jax.Array, statistics: Statistics) -> Mixing:
        """The mixing of the `number`-th round for the cohort's draw. `key` is the run's, the same in every round."""


class ServerRule(eqx.Module):
    """How the model moves."""

    @property
    @abstractmethod
    def provides(self) -> tuple[str, ...]:
        """The vectors of its state that can be broadcast, by name."""

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
    def __call__(self, key: Key, state: State, received: Message, share: jax.Array) -> State:
        """The state after the round. `state["round"]` counts the rounds before this one."""

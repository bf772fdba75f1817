"""What the authors' program of paper fedpaq-dp does where its text is silent: split, start, clients, step size, noise.

Read from its public repository, and checked: the start has the loss 2.2971506 that the program prints before training,
and the rows without quantiser come out to the third digit of their loss. Its draws are those of NumPy's and PyTorch's
Mersenne twister, made here by NumPy alone. Its bound of 60 on a gradient's norm is left out: a mean of softmax
gradients is at most √2·√785 = 39.6 long where pixels are in [0, 1], so that it never bites.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hush.core.contract import Cohort, Draw
from hush.core.keys import Key, at
from hush.core.problem import ClientData, Params, Population
from hush.core.schedules import InverseTime
from hush.core.shuffle import shuffled
from hush.data.datasets import Dataset
from hush.local.batches import Batches, BatchRows
from hush.local.directions import Direction
from hush.models.softmax import softmax
from hush.models.wrap import Module
from hush.tasks.measures import classification
from hush.tasks.problem import Supervised, supervised

Array = np.ndarray[Any, Any]
SPLIT_SEED, START_SEED = 6, 12
PRIVATE_DELTA = 1e-3  # of the private program, where the paper has 1e-4


def split(labels: Array, clients: int, digits: int) -> list[Array]:
    """Which examples each client holds: every digit in N·c/10 pieces, and c pieces of different digits for each client.

    Clients draw one after the other among the digits that are left, and take the last piece of each.
    """
    draws = np.random.RandomState(SPLIT_SEED)
    pieces = [np.array_split(np.flatnonzero(labels == digit), clients * digits // 10) for digit in range(10)]
    held = []
    for _ in range(clients):
        left = [digit for digit in range(10) if pieces[digit]]
        held.append(np.concatenate([pieces[digit].pop() for digit in draws.choice(left, digits, replace=False)]))
    return held


def start(inputs: int, outputs: int) -> tuple[Array, Array]:
    """Weight and bias of PyTorch's Linear after manual_seed(12): uniform on ±1/√inputs, 24 bits of a draw each."""
    bits = np.random.RandomState(START_SEED).randint(0, 2**32, (inputs + 1) * outputs, dtype=np.uint32)
    bound = 1 / np.sqrt(inputs)
    values = ((bits % 2**24) * 2.0**-24 * 2 * bound - bound).astype(np.float32)
    return values[: inputs * outputs].reshape(outputs, inputs), values[inputs * outputs :]


def clients_of_rounds(rounds: int, clients: int, size: int) -> Array:
    """Who takes part in round k: a choice without replacement of NumPy's generator, seeded with k in every run."""
    return np.stack([np.random.RandomState(k).choice(clients, size, replace=False) for k in range(rounds)])


def problem(data: Dataset, clients: int, digits: int) -> Supervised:
    """Softmax regression from the program's start, on its split: all examples, clients of unequal size."""
    shape = data.train_x.shape[1:]
    weight, bias = map(jnp.asarray, start(int(np.prod(shape)), data.classes))
    plain = softmax(shape, data.classes, jax.random.key(0))
    begun = eqx.tree_at(lambda model: (model.layers[-1].weight, model.layers[-1].bias), plain, (weight, bias))
    return supervised(
        (data.train_x, data.train_y),
        split(np.asarray(data.train_y), clients, digits),
        Module(begun),
        classification,
        test=(data.test_x, data.test_y),
        scale=1 / 255,
    )


class Listed(Cohort):
    """The clients that a list [rounds, M] names, and the plain mean of what they send, whatever their sizes."""

    ids: jax.Array

    def places(self, clients: int) -> int:
        return self.ids.shape[1]

    def __call__(self, key: Key, population: Population, number: int | jax.Array = 0) -> Draw:
        ids = self.ids[number]
        covered = jnp.asarray(ids.size / population.clients)
        return Draw(ids, jnp.full(ids.shape, 1 / ids.size), jnp.ones(ids.shape, bool), covered)


class OneRoundLate(eqx.Module):
    """η0 / (1 + (k − 1)E/a), and η0 in the first round: the program sets the step size after it has aggregated."""

    initial: float
    scale: float
    steps: int = eqx.field(static=True)

    def __call__(self, count: jax.Array) -> jax.Array:
        return InverseTime(self.initial, self.scale)(jnp.maximum(count - self.steps, 0))


class PartOfThem(Batches):
    """Passes in batches over γ of a client's examples, drawn without replacement for the round."""

    rate: float = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def taken(self, size: int | jax.Array) -> Any:
        """⌊γ n_i⌋, one at least."""
        return (
            jnp.maximum(jnp.floor(self.rate * size), 1).astype(int)
            if isinstance(size, jax.Array)
            else max(int(self.rate * size), 1)
        )

    def steps_per_epoch(self, size: int | jax.Array) -> int | jax.Array:
        return -(-self.taken(size) // self.size)

    def __call__(self, key: Key, steps: int, data: ClientData) -> BatchRows:
        taken, per_epoch = self.taken(data.size), self.steps_per_epoch(data.size)
        places = jnp.arange(min(self.size, data.extent[1]))

        def batch(step: jax.Array) -> BatchRows:
            positions = (step % per_epoch) * self.size + places
            chosen = shuffled(at(key, "pass", step // per_epoch), jnp.minimum(positions, taken - 1), taken)
            valid = positions < taken
            return shuffled(at(key, "part"), chosen, data.size), valid / jnp.sum(valid, dtype=jnp.float32)

        return jax.vmap(batch)(jnp.arange(steps))


class ClippedMean(Direction):
    """g·min(1, C/‖g‖) of the whole batch's gradient, not of each example's: the private program's clipping."""

    bound: float
    needs = ()

    def begin(self, broadcast: Any, state: Any, data: ClientData) -> Any:
        return ()

    def __call__(self, step: Any, gradient: Params, params: Params, context: Any) -> Params:
        length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))
        return jax.tree.map(lambda leaf: leaf * jnp.minimum(1.0, self.bound / length), gradient)


def noise_of(epsilon: float, rate: float, clip: float, examples: int) -> float:
    """√(8γ² ln(1.25γ/δ))·C/(ε n_i): eq 16 with Δ = C/n_i, in which neither η nor E occurs."""
    return float(np.sqrt(8 * rate**2 * np.log(1.25 * rate / PRIVATE_DELTA)) * clip / (epsilon * examples))

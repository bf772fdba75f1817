"""Gradients of PyTorch modules, of a batch and of every example: the truth is torch.autograd, one example at a time."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

torch = pytest.importorskip("torch", reason='PyTorch is an extra: pip install "hush[torch]"')

from torch import nn  # noqa: E402

from hush.algorithms import fedavg  # noqa: E402
from hush.cohort import Everyone  # noqa: E402
from hush.core.algorithm import Algorithm  # noqa: E402
from hush.execution.simulation import Simulation  # noqa: E402
from hush.local import ClippedPerExample, LocalSGD  # noqa: E402
from hush.tasks import arrays  # noqa: E402
from hush.tasks.problem import Supervised  # noqa: E402

pytestmark = pytest.mark.slow  # many small runs, which add up

CLIENTS, EACH, CLASSES, WORDS = 3, 6, 3, 7
ROWS, WEIGHTS = jnp.array([3, 0, 5, 1, 3]), jnp.array([0.3, 0.2, 0.25, 0.25, 0.0])
# Two libraries add in different orders: some tens of roundings of float32.
CLOSE = {"rtol": 5e-5, "atol": 5e-6}
Pairs = tuple[Any, Any]


class Own(torch.autograd.Function):  # type: ignore[misc]
    """A square whose derivative torch.func cannot take: forward and context are one."""

    @staticmethod
    def forward(context: Any, x: Any) -> Any:
        context.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        return 2 * context.saved_tensors[0] * gradient


class Given(nn.Module):  # type: ignore[misc]
    """Layers and any way through them."""

    def __init__(self, way: Callable[..., Any], **layers: Any) -> None:
        super().__init__()
        self.way = way
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, inputs: Any) -> Any:
        return self.way(self, inputs)


def mlp() -> Any:
    return nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, CLASSES))


def convolutional() -> Any:
    layers = nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(4 * 3 * 2, CLASSES))


def tied() -> Any:
    """Tied and frozen weights, a buffer, and a first step in place."""
    module = Given(
        lambda self, x: self.head(self.second(self.first(x.mul_(2.0))) * self.frozen + self.offset),
        first=nn.Linear(6, 6, bias=False),
        second=nn.Linear(6, 6, bias=False),
        frozen=nn.Parameter(torch.arange(6.0), requires_grad=False),
        head=nn.Linear(6, CLASSES),
    )
    module.second.weight = module.first.weight
    module.register_buffer("offset", torch.arange(6.0))
    return module


def fixed_statistics() -> Any:
    module = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, CLASSES)).eval()
    module[1].running_mean.copy_(torch.arange(5.0))
    return module


def attention() -> Any:
    layer = nn.TransformerEncoderLayer(6, 2, 5, dropout=0.1, batch_first=True)
    return Given(lambda self, x: self.head(self.layer(x).mean(1)), layer=layer, head=nn.Linear(6, CLASSES)).eval()


def branching() -> Any:
    """Which way an example goes depends on it."""
    way = lambda self, x: torch.stack([self.one(row) if float(row[0]) > 0 else self.other(row) for row in x])  # noqa: E731
    return Given(way, one=nn.Linear(6, CLASSES), other=nn.Linear(6, CLASSES))


def recurrent() -> Any:
    return Given(lambda self, x: self.layer(x)[0][:, -1], layer=nn.LSTM(6, CLASSES, batch_first=True))


def squares() -> Any:
    return Given(lambda self, x: Own.apply(self.layer(x)), layer=nn.Linear(6, CLASSES))


def words(**options: Any) -> Any:
    return nn.Sequential(nn.Embedding(WORDS, 5, **options), nn.Flatten(), nn.Linear(4 * 5, CLASSES))


def bags() -> Any:
    return nn.Sequential(nn.EmbeddingBag(WORDS, 5), nn.Linear(5, CLASSES))


# A module, the shape of its inputs (None: four words), and whether torch can do examples side by side.
CASES: dict[str, tuple[Callable[[], Any], tuple[int, ...] | None, bool]] = {
    "mlp": (mlp, (6,), True),
    "convolutional": (convolutional, (6, 4, 2), True),
    "tied": (tied, (6,), True),
    "fixed statistics": (fixed_statistics, (6,), True),
    "words": (words, None, True),
    "sparse words": (lambda: words(sparse=True), None, False),
    "bags": (bags, None, False),
    "attention": (attention, (4, 6), False),
    "recurrent": (recurrent, (4, 6), False),
    "branching": (branching, (6,), False),
    "squares": (squares, (6,), False),
}


def made(make: Callable[[], Any], shape: tuple[int, ...] | None) -> tuple[Any, Supervised]:
    """The module, and a problem with it."""
    torch.manual_seed(0)
    module, draws, count = make(), np.random.default_rng(0), CLIENTS * EACH
    x = draws.integers(0, WORDS, (count, 4)) if shape is None else draws.normal(size=(count, *shape))
    y = draws.integers(0, CLASSES, count)
    return module, arrays(x, y, np.arange(count) // EACH, model=module)


def loss(module: Any, problem: Supervised, client: int, rows: Any) -> Any:
    """The loss of each of these examples of a client, in torch; images are moved by hand."""
    x, y = (torch.from_numpy(np.array(part)) for part in problem.client(client).examples(jnp.asarray(rows)))
    x = x.movedim(-1, 1) if x.ndim == 4 else x
    return nn.functional.cross_entropy(module(x), y.long(), reduction="none")


def trained_names(module: Any) -> list[str]:
    return sorted(name for name, value in module.named_parameters() if value.requires_grad)


def by_hand(module: Any, problem: Supervised, client: int, rows: Any) -> Any:
    """Each example's gradient by itself [rows, d], in the order of hush's flat vectors."""
    weights = dict(module.named_parameters())
    wanted = [weights[name] for name in trained_names(module)]

    def one(row: int) -> Any:
        found = torch.autograd.grad(loss(module, problem, client, [row])[0], wanted, materialize_grads=True)
        return torch.cat([each.to_dense().ravel() for each in found])

    return torch.stack([one(int(row)) for row in rows]).numpy()


def clipped(gradients: Any, weights: Any, bound: float) -> Any:
    lengths = np.linalg.norm(gradients.astype(np.float64), axis=1)
    return (np.asarray(weights) * np.minimum(1, bound / lengths)) @ gradients


def flat(stacked: Any) -> Any:
    return jax.vmap(lambda tree: ravel_pytree(tree)[0])(stacked)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_autograd(name: str) -> None:
    make, shape, together = CASES[name]
    module, problem = made(make, shape)
    (trial,) = problem.model.wrapped._trials.values()
    assert trial.together is together
    expected = by_hand(module, problem, 1, ROWS)
    bound = float(np.median(np.linalg.norm(expected, axis=1)))

    @eqx.filter_jit
    def found(problem: Supervised, params: Any) -> tuple[Any, Any, Any]:
        client = problem.client(1)
        each = flat(client.example_gradients(params, ROWS))
        short = client.clipped_gradient(params, ROWS, WEIGHTS, bound)
        return each, ravel_pytree(client.gradient(params, ROWS, WEIGHTS))[0], ravel_pytree(short)[0]

    each, mean, short = found(problem, problem.init(jax.random.key(0)))
    np.testing.assert_allclose(each, expected, **CLOSE)
    np.testing.assert_allclose(mean, np.asarray(WEIGHTS) @ expected, **CLOSE)
    np.testing.assert_allclose(short, clipped(expected, WEIGHTS, bound), **CLOSE)


@pytest.mark.parametrize("name", ["convolutional", "words", "squares"])
def test_clients_with_models_of_their_own_side_by_side(name: str) -> None:
    """Weights, and which client it is, are mapped over, and the examples within: two levels in one call."""
    make, shape, _ = CASES[name]
    _, problem = made(make, shape)
    start = problem.init(jax.random.key(0))
    own = [jax.tree.map(lambda leaf, i=i: (1 + 0.5 * i) * leaf, start) for i in range(CLIENTS)]
    calls = counted(problem)

    @jax.jit
    def found(stacked: Any) -> Any:
        one = lambda params, client: flat(problem.client(client).example_gradients(params, ROWS))  # noqa: E731
        return jax.vmap(one)(stacked, jnp.arange(CLIENTS))

    each = np.asarray(found(jax.tree.map(lambda *leaves: jnp.stack(leaves), *own)))
    assert calls == [2]
    for i, params in enumerate(own):
        np.testing.assert_allclose(each[i], by_hand(problem.present(params), problem, i, ROWS), **CLOSE)


def counted(problem: Supervised) -> list[int]:
    """How many levels each call for gradients from here on has."""
    calls: list[int] = []
    wrapped = problem.model.wrapped
    inner = wrapped.backward

    def backward(*arrays: Any, levels: Any) -> Any:
        calls.append(len(levels))
        return inner(*arrays, levels=levels)

    wrapped.backward = backward
    return calls


def test_a_batch_of_clipped_gradients_is_one_call() -> None:
    _, problem = made(convolutional, (6, 4, 2))
    calls = counted(problem)
    start = problem.init(jax.random.key(0))
    jax.block_until_ready(jax.jit(lambda start: problem.client(0).clipped_gradient(start, ROWS, WEIGHTS, 1.0))(start))
    assert calls == [1]


@pytest.mark.parametrize("name", ["mlp", "convolutional", "squares"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
def test_a_bad_example_moves_nothing_but_itself(name: str, bad: float) -> None:
    """Rows 3 and 5 are bad: the others' gradients are what they were, and theirs count as zero or are clipped."""
    make, shape, _ = CASES[name]
    _, problem = made(make, shape)
    spoilt = problem.train.x.at[jnp.array([3, 5]), 0].set(bad)
    worse = eqx.tree_at(lambda problem: problem.train.x, problem, spoilt)
    start, good = problem.init(jax.random.key(0)), ~np.isin(np.asarray(ROWS), [3, 5])

    @eqx.filter_jit
    def found(problem: Supervised, weights: jax.Array) -> tuple[Any, Any]:
        client = problem.client(0)
        short = client.clipped_gradient(start, ROWS, weights, 0.5)
        return flat(client.example_gradients(start, ROWS)), ravel_pytree(short)[0]

    before, after = found(problem, WEIGHTS), found(worse, WEIGHTS)
    np.testing.assert_array_equal(np.asarray(after[0])[good], np.asarray(before[0])[good])
    others = found(worse, WEIGHTS * good)[1]
    bad_ones = np.asarray(after[0], np.float64)[[0, 2]]
    moved = np.linalg.norm(np.asarray(after[1], np.float64) - np.asarray(others, np.float64))
    if np.isfinite(bad_ones).all():
        assert moved <= 0.55 * 0.5 * (1 + 1e-5)
    elif not np.isfinite(bad_ones).all(1).any():
        np.testing.assert_array_equal(after[1], others)
    assert np.isfinite(np.asarray(after[1])).all()


@pytest.mark.parametrize("name", ["mlp", "convolutional"])
def test_no_input_makes_the_sum_longer_than_the_bound(name: str) -> None:
    """Up to the largest numbers there are, where squares and sums overflow."""
    make, shape, _ = CASES[name]
    _, problem = made(make, shape)
    start = problem.init(jax.random.key(0))

    @eqx.filter_jit
    def found(problem: Supervised) -> Any:
        return ravel_pytree(problem.client(0).clipped_gradient(start, ROWS, WEIGHTS, 0.5))[0]

    for exponent in range(-36, 39, 6):
        scaled = eqx.tree_at(lambda problem: problem.train.x, problem, problem.train.x * np.float32(10.0**exponent))
        assert np.linalg.norm(np.asarray(found(scaled), np.float64)) <= 0.5 * (1 + 1e-5)


def round_by_hand(make: Callable[[], Any], problem: Supervised, steps: int, lr: float, bound: float | None) -> Any:
    """One round of FedAvg of everyone on all of their data: plain loops in torch, every client from the same model."""
    ends = []
    for client in range(CLIENTS):
        torch.manual_seed(0)
        module = make()
        weights = dict(module.named_parameters())
        wanted = [weights[name] for name in trained_names(module)]
        for _ in range(steps):
            each = by_hand(module, problem, client, range(EACH))
            move = each.mean(0) if bound is None else clipped(each, np.full(EACH, 1 / EACH), bound)
            with torch.no_grad():
                sizes = [value.numel() for value in wanted]
                for value, part in zip(wanted, torch.from_numpy(move.astype(np.float32)).split(sizes), strict=True):
                    value -= lr * part.view(value.shape)
        ends.append(torch.cat([value.detach().ravel() for value in wanted]).numpy())
    return np.mean(ends, axis=0)


@pytest.mark.parametrize(
    ("bound", "layout"), [(None, {"clients_at_once": 3, "devices": 1}), (0.5, {"clients_at_once": 1})]
)
def test_a_round_of_fedavg_by_hand(bound: float | None, layout: dict[str, int]) -> None:
    """Both repetitions start from the module's own weights and all data is used: they end alike."""
    make, shape, _ = CASES["convolutional"]
    _, problem = made(make, shape)
    algorithm = fedavg(steps=2, lr=0.2)
    if bound is not None:
        algorithm = Algorithm(Everyone(), LocalSGD(0.2, steps=2, oracle=ClippedPerExample(bound)))
    simulation = Simulation(algorithm, problem, repetitions=2, **layout)  # type: ignore[arg-type]
    simulation.advance(1)
    expected = round_by_hand(make, problem, 2, 0.2, bound)
    np.testing.assert_allclose(simulation.models, np.stack([expected] * 2), rtol=2e-4, atol=2e-5)

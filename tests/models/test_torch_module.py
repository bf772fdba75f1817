"""PyTorch modules as models: the truth is the same network with the same weights, written in JAX."""

import importlib.util
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

torch = pytest.importorskip("torch", reason='PyTorch is an extra: pip install "hush[torch]"')

from hush.algorithms import fedavg  # noqa: E402
from hush.core.evaluation import measures  # noqa: E402
from hush.execution.simulation import Simulation  # noqa: E402
from hush.models import torch_module  # noqa: E402
from hush.models.torch_module import TorchModule  # noqa: E402
from hush.models.wrap import wrap  # noqa: E402
from hush.tasks import arrays  # noqa: E402
from hush.tasks.problem import Supervised  # noqa: E402

pytestmark = pytest.mark.slow  # many small runs, which add up

CLIENTS, EACH, CLASSES = 5, 8, 3
# Two libraries add in different orders: this is some tens of roundings of float32, more after rounds of training.
ONCE, TRAINED = {"rtol": 2e-5, "atol": 2e-6}, {"rtol": 2e-4, "atol": 2e-5}


def mlp() -> Any:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(6, 7), torch.nn.Tanh(), torch.nn.Linear(7, CLASSES))


def convolutional() -> Any:
    torch.manual_seed(2)
    return torch.nn.Sequential(
        torch.nn.Conv2d(2, 4, 3, padding=1),
        torch.nn.GroupNorm(2, 4),
        torch.nn.ReLU(inplace=True),
        torch.nn.AvgPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(4 * 3 * 2, CLASSES),
    )


class Twin(eqx.Module):
    """A network in JAX that keeps its weights by torch's names, so that both have the same flat vector."""

    weights: dict[str, jax.Array]
    rule: Callable[[dict[str, jax.Array], jax.Array], jax.Array] = eqx.field(static=True)

    def __call__(self, example: jax.Array) -> jax.Array:
        return self.rule(self.weights, example)


def mlp_in_jax(w: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return w["2.weight"] @ jnp.tanh(w["0.weight"] @ x + w["0.bias"]) + w["2.bias"]


def convolutional_in_jax(w: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """One image [6, 4, 2], channels last."""
    axes = ("NHWC", "OIHW", "NHWC")
    x = lax.conv_general_dilated(x[None], w["0.weight"], (1, 1), "SAME", dimension_numbers=axes)[0] + w["0.bias"]
    grouped = x.reshape(6, 4, 2, 2)
    centred = grouped - grouped.mean((0, 1, 3), keepdims=True)
    x = (centred / jnp.sqrt((centred**2).mean((0, 1, 3), keepdims=True) + 1e-5)).reshape(6, 4, 4)
    x = jax.nn.relu(x * w["1.weight"] + w["1.bias"])
    x = x.reshape(3, 2, 2, 2, 4).mean((1, 3))
    return w["5.weight"] @ jnp.moveaxis(x, 2, 0).ravel() + w["5.bias"]


NETWORKS = {"mlp": (mlp, mlp_in_jax, (6,)), "convolutional": (convolutional, convolutional_in_jax, (6, 4, 2))}


def problem_with(model: Any, shape: tuple[int, ...], each: int = EACH) -> Supervised:
    random = np.random.default_rng(0)
    x = random.normal(size=(CLIENTS * each + 9, *shape)).astype(np.float32)
    y = random.integers(0, CLASSES, len(x))
    owners = np.minimum(np.arange(len(x)) // each, CLIENTS - 1)  # the last one holds more
    return arrays(x, y, owners, model=model, test=(x[:11], y[:11]))


@pytest.fixture(params=NETWORKS)
def pair(request: pytest.FixtureRequest) -> tuple[Supervised, Supervised]:
    """The same problem twice: with a network in torch, and with its twin."""
    make, rule, shape = NETWORKS[request.param]
    module = make()
    weights = {name: jnp.array(value.detach().numpy()) for name, value in module.named_parameters()}
    return problem_with(module, shape), problem_with(Twin(weights, rule), shape)


def same(found: Any, expected: Any, rtol: float, atol: float) -> None:
    left, right = jax.tree.leaves(found), jax.tree.leaves(expected)
    assert len(left) == len(right) > 0
    for one, other in zip(left, right, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)


def starts(pair: tuple[Supervised, Supervised]) -> list[Any]:
    return [problem.init(jax.random.key(0)) for problem in pair]


def test_outputs_and_gradients(pair: tuple[Supervised, Supervised]) -> None:
    inputs = np.random.default_rng(1).normal(size=(4, *pair[0].train.x.shape[1:])).astype(np.float32)
    mine, twin = (
        jax.value_and_grad(
            lambda params, inputs, model=problem.model: jnp.sum(model.apply(params, inputs) ** 2), (0, 1)
        )
        for problem in pair
    )
    params = starts(pair)
    expected = jax.jit(twin)(params[1], inputs)
    same(jax.jit(mine)(params[0], inputs), expected, **ONCE)
    same(mine(params[0], inputs), expected, **ONCE)


def test_gradients_of_a_client(pair: tuple[Supervised, Supervised]) -> None:
    rows, weights = jnp.array([3, 0, 5]), jnp.array([0.5, 0.25, 0.25])

    @eqx.filter_jit
    def gradients(problem: Supervised, params: Any) -> tuple[Any, Any]:
        client = problem.client(2)
        return client.gradient(params, rows, weights), client.example_gradients(params, rows)

    found, expected = (gradients(problem, params) for problem, params in zip(pair, starts(pair), strict=True))
    same(found, expected, **ONCE)
    mean, each = found
    same(jax.tree.map(lambda leaf: np.tensordot(weights, leaf, 1), each), mean, **ONCE)


def test_evaluate(pair: tuple[Supervised, Supervised], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hush.core.evaluation.EVALUATE_AT_ONCE", 7)
    found, expected = (eqx.filter_jit(measures)(p, params) for p, params in zip(pair, starts(pair), strict=True))
    assert set(found) == {"train_loss", "test_loss", "accuracy"}
    same(found, expected, **ONCE)


def trained(problem: Supervised, batch: int | None = None, **layout: int) -> Simulation:
    simulation = Simulation(fedavg(4, steps=3, lr=0.2, batch=batch), problem, seed=3, **layout)  # type: ignore[arg-type]
    simulation.advance(5)
    return simulation


def test_five_rounds_of_fedavg(pair: tuple[Supervised, Supervised]) -> None:
    # Shuffling and repetitions take the compiler long: one of the networks is enough for them.
    batch, repetitions = (4, 2) if pair[0].train.x.ndim == 2 else (None, 1)
    found, expected = (trained(problem, batch, repetitions=repetitions) for problem in pair)
    assert repetitions == 1 or np.abs(found.models[0] - found.models[1]).max() > 1e-3
    same(found.models, expected.models, **TRAINED)
    same(found.evaluate(), expected.evaluate(), **TRAINED)


@pytest.mark.slow
def test_layout_changes_nothing() -> None:
    problem = problem_with(mlp(), (6,))
    reference = trained(problem, devices=1, clients_at_once=1)
    same(trained(problem, devices=1, clients_at_once=3).models, reference.models, **ONCE)
    if jax.device_count() == 1:
        pytest.skip("there is one device only: two were not compared with one")
    same(trained(problem, devices=2, clients_at_once=1).models, reference.models, **ONCE)


@pytest.mark.timeout(600)
def test_large_weights_on_every_device() -> None:
    """Arrays of this size are copied by JAX's own threads, all of which are calling back: nobody may wait for them."""
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(300, 401), torch.nn.ReLU(), torch.nn.Linear(401, CLASSES))
    simulation = trained(problem_with(module, (300,)))
    assert np.isfinite(simulation.evaluate()["train_loss"]).all()


def test_callers_at_once_do_not_meet() -> None:
    wrapped = TorchModule(convolutional()).wrapped
    weights = dict(wrapped.module.named_parameters())
    inputs = np.random.default_rng(0).normal(size=(8, 6, 4, 2)).astype(np.float32)
    own = [[np.float32(i + 1) * weights[name].detach().numpy() for name in wrapped.names] for i in range(4)]
    cotangent = np.ones((8, CLASSES), np.float32)
    wrapped.outputs(inputs)

    def work(i: int) -> list[Any]:
        return wrapped.forward(*own[i % 4], inputs) + wrapped.backward_to_inputs(*own[i % 4], inputs, cotangent)

    alone = [work(i) for i in range(4)]
    before = torch.get_num_threads()
    with ThreadPoolExecutor(4) as pool:
        for i, found in enumerate(pool.map(work, range(100))):
            same(found, alone[i % 4], rtol=0, atol=0)
    assert torch.get_num_threads() == before


def test_clients_with_their_own_weights() -> None:
    model = TorchModule(mlp())
    inputs = jnp.asarray(np.random.default_rng(0).normal(size=(4, 3, 6)), jnp.float32)
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf * (i + 1) for i in range(4)], axis=-1), model.start)
    gradient = jax.jit(jax.grad(lambda params, inputs: jnp.sum(model.apply(params, inputs) ** 2)))
    found = jax.jit(jax.vmap(gradient, in_axes=(-1, 0)))(stacked, inputs)
    one_by_one = [gradient(jax.tree.map(lambda leaf, i=i: leaf[..., i], stacked), inputs[i]) for i in range(4)]
    same(found, jax.tree.map(lambda *leaves: jnp.stack(leaves), *one_by_one), **ONCE)

    def step(params: Any, batch: jax.Array) -> Any:
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradient(params, batch)), None

    params = model.start
    for batch in inputs:
        params, _ = step(params, batch)
    same(jax.jit(lambda start: lax.scan(step, start, inputs)[0])(model.start), params, **ONCE)


def test_compiled_once_for_one_module() -> None:
    traces = []

    @eqx.filter_jit
    def outputs(model: TorchModule, inputs: jax.Array) -> jax.Array:
        traces.append(model)
        return model.apply(model.start, inputs)

    model = TorchModule(mlp())
    for shift in (0.0, 1.0):
        outputs(jax.tree.map(lambda leaf, shift=shift: leaf + shift, model), jnp.ones((2, 6)))
    assert len(traces) == 1
    outputs(TorchModule(mlp()), jnp.ones((2, 6)))
    assert len(traces) == 2


@pytest.mark.parametrize("training", [True, False])
def test_whole_is_the_module_with_these_weights(training: bool) -> None:
    module = convolutional().train(training)
    model = wrap(module, (6, 4, 2), CLASSES)
    assert isinstance(model, TorchModule)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    params = jax.tree.map(lambda leaf: 1.5 * leaf + 0.1, model.start)
    whole = model.rebuild(params)
    assert type(whole) is type(module)
    assert whole.training is training
    inputs = np.random.default_rng(0).normal(size=(2, 6, 4, 2)).astype(np.float32)
    with torch.no_grad():
        expected = whole(torch.from_numpy(inputs).permute(0, 3, 1, 2)).numpy()
        whole[0].weight.zero_()
    same(model.apply(params, jnp.asarray(inputs)), expected, **ONCE)
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())


class Odd(torch.nn.Module):  # type: ignore[misc]
    """Tied weights, a frozen and an unused parameter, a buffer, dropout that is off, and a first step in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(6, 6, bias=False)
        self.second = torch.nn.Linear(6, 6, bias=False)
        self.second.weight = self.first.weight
        self.frozen = torch.nn.Parameter(torch.ones(6), requires_grad=False)
        self.unused = torch.nn.Parameter(torch.ones(()))
        self.register_buffer("offset", torch.arange(6.0))
        self.dropout = torch.nn.Dropout(0.5).eval()

    def forward(self, inputs: Any) -> Any:
        return self.dropout(self.second(self.first(inputs.mul_(2.0))) * self.frozen + self.offset)


def test_what_is_fixed_tied_unused_or_dropped() -> None:
    torch.manual_seed(0)
    model = TorchModule(Odd())
    params, inputs = model.init(jax.random.key(0)), jnp.asarray(np.random.default_rng(0).normal(size=(3, 6)))
    assert {name: leaf.shape for name, leaf in params.items()} == {"first.weight": (6, 6), "unused": ()}
    twin = lambda params, x: x * 2 @ params["first.weight"].T @ params["first.weight"].T + jnp.arange(6.0)  # noqa: E731
    for found, expected in (
        (model.apply(params, inputs), twin(params, inputs)),
        *zip(*(jax.grad(lambda *a, f=f: jnp.sum(f(*a) ** 2), (0, 1))(params, inputs) for f in (model.apply, twin))),  # noqa: B905
    ):
        same(found, expected, **ONCE)
    assert torch.equal(model.rebuild(params).second.weight, model.rebuild(params).first.weight)


class Function(torch.nn.Module):  # type: ignore[misc]
    """A linear layer, and any function of it."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.linear, self.function = torch.nn.Linear(6, 3), function

    def forward(self, inputs: Any) -> Any:
        return self.function(self.linear(inputs))


BATCH_NORM = r"layer '1' \(BatchNorm1d\) of the model Sequential holds running statistics.*GroupNorm"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.nn.Sequential(torch.nn.Linear(6, 3), torch.nn.BatchNorm1d(3)), BATCH_NORM),
        (
            lambda: torch.nn.Sequential(torch.nn.Linear(6, 3), torch.nn.BatchNorm1d(3, track_running_stats=False)),
            r"layer '1' \(BatchNorm1d\).*see each other; use torch.nn.GroupNorm",
        ),
        (lambda: torch.nn.InstanceNorm2d(3, affine=True, track_running_stats=True), r"InstanceNorm2d.*GroupNorm"),
        (lambda: torch.nn.ReLU(), "ReLU has no parameters to train"),
        (lambda: mlp().requires_grad_(False), "no parameters to train"),
        (lambda: mlp().double(), r"must be float32, found torch.float64 for '0.weight'.*\.float\(\)"),
        (lambda: torch.nn.LazyLinear(3), "'weight' of the model LazyLinear has no shape yet"),
        (lambda: torch.nn.Parameter(torch.ones(3)), "must be a torch.nn.Module, found Parameter"),
    ],
)
def test_modules_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrap(make(), (6,), CLASSES)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(6, 3)),
            r"buffer 'parametrizations.weight.0._[uv]' .* running statistics.*GroupNorm",
        ),
        (lambda: Function(torch.nn.functional.dropout), "differently each time"),
        (lambda: Function(lambda outputs: (outputs, outputs)), r"one float32 tensor \[2, …\], found tuple"),
        (lambda: Function(lambda outputs: outputs.double()), r"found \[2, 3, torch.float64\]"),
        (lambda: Function(lambda outputs: outputs.sum()), r"found \[torch.float32\]"),
        (lambda: Function(lambda outputs: outputs.detach()), "do not depend on the parameters"),
        (lambda: torch.nn.Linear(5, 3), r"Linear failed on a batch \(2, 6\): mat1 and mat2"),
    ],
)
def test_modules_refused_when_first_tried(make: Callable[[], Any], message: str) -> None:
    state = torch.random.get_rng_state()
    module = make()
    torch.random.set_rng_state(state)
    with pytest.raises(ValueError, match=message):
        problem_with(module, (6,))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(torch_module.__file__)
    spec = importlib.util.spec_from_file_location("without_torch", path)
    assert spec is not None
    assert spec.loader is not None
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"needs PyTorch: pip install 'hush\[torch\]'"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))

"""The fingerprint: the same for what is the same, and another for every change that would make another run."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.core.schedules import InverseTime
from hush.store.fingerprint import COUNTS, Fingerprint, fingerprint, of_problem

RUN = {"seed": 0, "repetitions": 2, "sweep": None}


def of(algorithm, problem, **run):
    return fingerprint(algorithm, problem, RUN | run)


def different(before, now):
    """Through a checkpoint and back, as a run has it."""
    return Fingerprint.restore(before.state()).differences(now)


def problem(seed=0, hidden=4, shift=0.0, flip=None):
    draws = np.random.default_rng(seed)
    x, y = draws.normal(size=(20, 5)).astype(np.float32), np.arange(20) % 3
    if flip is not None:
        x[flip] += 1e-3
    owners = np.repeat(np.arange(4), 5)
    return hush.tasks.arrays(x, y, owners, model="mlp", model_options={"hidden": hidden}, test=(x, y), shift=shift)


def test_the_same_made_twice_is_the_same():
    one = of(hush.dp_fedavg(clients=2, population=4, steps=2, clip=1.0, noise_multiplier=1.0), problem())
    other = of(hush.dp_fedavg(clients=2, population=4, steps=2, clip=1.0, noise_multiplier=1.0), problem())
    assert different(one, other) == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"clip": 1.5}, "uplink.0.bound (1.0 before, 1.5 now)"),
        ({"noise_multiplier": 1.1}, "channel.std (0.5 before, 0.55 now)"),
        ({"steps": 3}, "local.steps (2 before, 3 now)"),
        ({"lr": 0.2}, "local.lr (0.1 before, 0.2 now)"),
        ({"clients": 3}, "cohort"),
        ({"batch": 2}, "local.batches"),
    ],
)
def test_a_changed_setting_is_named(change, named):
    settings = {"clients": 2, "population": 4, "steps": 2, "clip": 1.0, "noise_multiplier": 1.0, "lr": 0.1}
    before, now = of(hush.dp_fedavg(**settings), problem()), of(hush.dp_fedavg(**settings | change), problem())
    assert any(named in said for said in different(before, now)), different(before, now)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 1}, "problem.train.x"),
        ({"flip": (7, 3)}, "problem.train.x"),
        ({"hidden": 5}, "problem.model.options"),
        ({"shift": 0.5}, "problem.train.shift (0.0 before, 0.5 now)"),
    ],
)
def test_changed_data_and_a_changed_model_are_named(change, named):
    algorithm = hush.fedavg(steps=1)
    found = different(of(algorithm, problem()), of(algorithm, problem(**change)))
    assert any(said.startswith(named) for said in found), found


def test_another_seed_sweep_or_list_of_repetitions_is_named():
    algorithm, here = hush.fedavg(steps=1), problem()
    before = of(algorithm, here)
    assert different(before, of(algorithm, here, seed=1)) == ["run.seed (0 before, 1 now)"]
    assert different(before, of(algorithm, here, sweep={"local.lr": [0.1, 0.2]}))
    assert different(before, of(algorithm, here, repetitions=[0, 1]))


def test_schedules_are_compared_by_the_step_sizes_they_give():
    """Two functions of one name with other values differ; one value written in two ways does not."""

    def with_rate(rate):
        return of(hush.fedavg(steps=2, lr=rate), problem())

    def schedule(count):
        return 0.1 / (1 + count)

    before = with_rate(schedule)
    assert different(before, with_rate(lambda count: 0.2 / (2 * count + 2))) == []

    def schedule(count):  # the same name, another function
        return 0.01 / (1 + count)

    assert different(before, with_rate(schedule)) == ["local.lr (other step sizes, from count 0 on)"]
    late = with_rate(lambda count: jnp.where(count < 50_000, 0.1 / (1 + count), 1.0))
    assert different(before, late) == ["local.lr (other step sizes, from count 50000 on)"]
    much_later = with_rate(lambda count: jnp.where(count < 10**7, 0.1 / (1 + count), 1.0))
    assert len(different(before, much_later)) == 1
    assert different(with_rate(InverseTime(0.1)), with_rate(InverseTime(0.1, 2.0)))


def test_every_early_count_is_looked_at_and_late_ones_densely():
    assert COUNTS[: 2**16].tolist() == list(range(2**16))
    assert np.all(np.diff(COUNTS.astype(float)) <= np.maximum(1, 0.012 * COUNTS[1:]))
    assert COUNTS[-1] == 2**24


class Twice(eqx.Module):
    """A user's own model."""

    weight: jnp.ndarray

    def __call__(self, x):
        return self.weight @ x


class Thrice(eqx.Module):
    """Another of the same shape."""

    weight: jnp.ndarray

    def __call__(self, x):
        return 3 * self.weight @ x


def test_a_model_of_ones_own_is_told_by_its_weights_and_its_source():
    x, y = np.ones((4, 2), np.float32), np.zeros(4)

    def of_model(model):
        return of(hush.fedavg(steps=1), hush.tasks.arrays(x, y, [0, 0, 1, 1], model=model, kind="regression"))

    before = of_model(Twice(jnp.ones((1, 2))))
    assert different(before, of_model(Twice(jnp.ones((1, 2))))) == []
    assert any("weight" in said for said in different(before, of_model(Twice(jnp.zeros((1, 2))))))
    assert different(before, of_model(Thrice(jnp.ones((1, 2)))))


def test_functions_are_told_by_their_source_and_what_they_close_over():
    def pair(factor):
        return lambda key: {"w": jnp.ones(2)}, lambda params, x: factor * x @ params["w"][:, None]

    x, y = np.ones((4, 2), np.float32), np.zeros(4)

    def of_model(model):
        return of(hush.fedavg(steps=1), hush.tasks.arrays(x, y, [0, 0, 1, 1], model=model, kind="regression"))

    assert different(of_model(pair(2.0)), of_model(pair(2.0))) == []
    assert different(of_model(pair(2.0)), of_model(pair(3.0)))


def arrays(change=None, model="softmax"):
    """A problem of arrays, with one number of one of them changed."""
    draws = np.random.default_rng(0)
    parts = {
        "x": draws.normal(size=(20, 5)).astype(np.float32),
        "y": np.arange(20) % 3,
        "client_ids": np.repeat(np.arange(4), 5),
        "test x": draws.normal(size=(6, 5)).astype(np.float32),
        "test y": np.arange(6) % 3,
    }
    if change == "client_ids":
        parts[change][[0, 19]] = parts[change][[19, 0]]
    elif change is not None:
        parts[change].flat[3] = (parts[change].flat[3] + 1) % 3
    test = parts["test x"], parts["test y"]
    return hush.tasks.arrays(parts["x"], parts["y"], parts["client_ids"], model=model, test=test)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("x", "problem.train.x"),
        ("y", "problem.train.y"),
        ("client_ids", "problem.index"),
        ("test x", "problem.test.x"),
        ("test y", "problem.test.y"),
    ],
)
def test_every_array_of_the_users_counts(change, named):
    algorithm = hush.fedavg(steps=1)
    assert different(of(algorithm, arrays()), of(algorithm, arrays())) == []
    assert different(of(algorithm, arrays()), of(algorithm, arrays(change))) == [named]
    assert of_problem(arrays(change)).differences(of_problem(arrays())) == [named]


def network(activation, seed=0):
    return eqx.nn.MLP(5, 3, 4, 1, activation=activation, key=jax.random.key(seed))


def functions(activation, settings):
    def apply(params, x):
        return settings["factor"] * activation(x @ params["w"])

    return lambda key: {"w": jnp.ones((5, 3))}, apply


def twice(function):
    return lambda x: function(function(x))


def test_models_with_as_many_parameters_are_told_apart():
    algorithm, models = hush.fedavg(steps=1), []
    models += [network(jax.nn.relu), network(jnp.tanh), network(jax.nn.relu, 1)]
    models += [network(lambda x: 2 * x), network(lambda x: 3 * x)]  # on one line, as far as a source can tell
    models += [functions(jnp.tanh, {"factor": 1}), functions(jnp.sin, {"factor": 1}), functions(jnp.sin, {"factor": 2})]
    models += [functions(twice(jnp.sin), {"factor": 1}), functions(twice(jnp.tanh), {"factor": 1})]
    made = [of(algorithm, arrays(model=model)) for model in models]
    again = [of(algorithm, arrays(model=model)) for model in models]
    for number, before in enumerate(made):
        for other, now in enumerate(again):
            assert bool(different(before, now)) == (number != other)


def test_functions_that_hold_each_other_have_an_end():
    def one(x):
        return other(x) if x is None else 1

    def other(x):
        return one(x)

    found = of(hush.fedavg(steps=1), hush.tasks.quadratic(np.eye(2)[None].repeat(3, 0), np.zeros((3, 2))), own=one)
    assert found.texts["run.own"].startswith(f"{__name__}.")


def test_modules_of_pytorch_are_told_apart_by_all_that_is_in_them():
    torch = pytest.importorskip("torch", reason='PyTorch is an extra: pip install "hush[torch]"')

    class Scaled(torch.nn.Linear):
        def __init__(self, factor):
            super().__init__(5, 3)
            self.factor = factor

        def forward(self, x):
            return self.factor * super().forward(x)

    def made(layer, seed=0, frozen=0):
        torch.manual_seed(seed)
        first, last = torch.nn.Linear(5, 4), torch.nn.Linear(4, 3)
        if frozen:
            torch.manual_seed(frozen)
            first = torch.nn.Linear(5, 4).requires_grad_(False)
        return torch.nn.Sequential(first, layer, last)

    def scaled(factor):
        torch.manual_seed(0)
        return Scaled(factor)

    makers = [
        lambda: made(torch.nn.ReLU()),
        lambda: made(torch.nn.Tanh()),
        lambda: made(torch.nn.LeakyReLU(0.1)),
        lambda: made(torch.nn.LeakyReLU(0.2)),
        lambda: made(torch.nn.ReLU(), seed=1),
        lambda: made(torch.nn.ReLU(), frozen=2),
        lambda: made(torch.nn.ReLU(), frozen=3),
        lambda: scaled(1.0),
        lambda: scaled(2.0),
    ]
    algorithm = hush.fedavg(steps=1)
    before, after = ([of(algorithm, arrays(model=make())) for make in makers] for _ in range(2))
    for number, one in enumerate(before):
        for other, now in enumerate(after):
            assert bool(different(one, now)) == (number != other), (number, other)


def test_many_differences_are_cut_short():
    texts = {f"name{number:02}": "1" for number in range(20)}
    found = Fingerprint(texts, {}).differences(Fingerprint(dict.fromkeys(texts, "2"), {}))
    assert len(found) == 9
    assert found[-1] == "and 12 more"


def test_a_piece_that_was_exchanged_is_one_difference(quadratic):
    before, now = of(hush.fedavg(steps=1), quadratic), of(hush.scaffold(steps=1), quadratic)
    assert [said.split(" ")[0] for said in different(before, now)] == ["local", "server"]

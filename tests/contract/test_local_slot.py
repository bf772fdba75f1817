"""One suite over every local rule, batch rule and direction."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from jax.flatten_util import ravel_pytree

import hush
from hush.core.grid import Grid
from hush.core.keys import at, root
from hush.execution.simulation import Simulation
from hush.local import (
    BATCHES,
    DIRECTIONS,
    LOCAL_RULES,
    ORACLES,
    Beside,
    ClippedPerExample,
    ClippedToBroadcast,
    ControlVariate,
    Dynamic,
    Fresh,
    Full,
    Gradient,
    GradientCorrection,
    Langevin,
    LinearPenalty,
    LocalOptimiser,
    LocalSGD,
    MeanGradient,
    Normalised,
    PersonalPart,
    Perturbed,
    Proximal,
    Replacement,
    Scaffold,
    Shuffled,
    Subset,
    WeightDecay,
    Weighted,
)

SGD = LocalSGD(lr=0.1, steps=2, batches=Shuffled(4))
RULES = {
    "gradient": Gradient(Shuffled(4)),
    "sgd": SGD,
    "sgd epochs": LocalSGD(lr=0.1, epochs=2, batches=Shuffled(4)),
    "sgd model": replace(SGD, send="model"),
    "scaffold": Scaffold(replace(SGD, direction=(ControlVariate(),))),
    "perturbed": Perturbed(replace(SGD, oracle=ClippedPerExample(1.0)), 0.5),
    "perturbed on a grid": Perturbed(replace(SGD, oracle=ClippedPerExample(1.0)), 0.5, Grid()),
    "noisy steps": replace(SGD, batches=Fresh(1), oracle=ClippedPerExample(1.0, 0.5)),
    "noisy steps on a grid": replace(SGD, batches=Fresh(1), oracle=ClippedPerExample(1.0, 0.5, grid=Grid())),
    "clipped to broadcast": ClippedToBroadcast(SGD),
    "langevin": replace(SGD, direction=(Langevin(1.0, 0.5, 0.1),)),
    "adam": replace(SGD, optimiser=LocalOptimiser("adam")),
    "normalised": Normalised(SGD),
    "weighted": Weighted(SGD),
    "dynamic": Dynamic(replace(SGD, direction=(LinearPenalty(), Proximal(0.1)))),
    "beside": Beside(SGD, replace(SGD, direction=(Proximal(0.1),))),
    "personal part": PersonalPart(SGD, ((2, 5), (7, 8))),
    "all directions": replace(SGD, direction=(WeightDecay(0.1), Proximal(0.1), GradientCorrection())),
}


def test_every_piece_is_here():
    assert {type(rule) for rule in RULES.values()} == set(LOCAL_RULES.values())
    assert len(LOCAL_RULES) == 10
    assert {type(turn) for rule in RULES.values() for turn in getattr(rule, "direction", ())} | {
        ControlVariate,
        LinearPenalty,
    } == set(DIRECTIONS.values())
    assert set(BATCHES.values()) == {Full, Shuffled, Subset, Fresh, Replacement}
    assert set(ORACLES.values()) == {MeanGradient, ClippedPerExample}


def told(problem):
    model = ravel_pytree(problem.init(root(0)))[0]
    noise = 0.1 * random.normal(root(1), (2, model.size))
    vectors = {"model": model + noise[0], "control": noise[1], "clip": jnp.ones(1), "shared": model[4:]}
    return vectors | {"round": jnp.int32(0), "common": root(6)}


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_one_client_is_a_slice_of_many(unequal, name):
    rule, broadcast = RULES[name], told(unequal)
    state = rule.init(broadcast["model"])

    def one(client):
        message, memory, info = rule(at(root(2), client), broadcast, state, unequal.client(client))
        return message, info, rule.commit(broadcast, memory, message)

    many = jax.jit(jax.vmap(one))(jnp.arange(7))
    alone = jax.jit(one)
    for client in (0, 1, 6):
        for a, b in zip(jax.tree.leaves(alone(client)), jax.tree.leaves(many), strict=True):
            np.testing.assert_allclose(a, b[client], rtol=1e-5, atol=1e-6)
    message, info, _ = many
    assert set(message) == set(rule.sends)
    template = rule.template(broadcast["model"])
    assert {name: vector.shape for name, vector in message.items()} == {
        name: (7, *vector.shape) for name, vector in template.items()
    }
    sizes = np.asarray(unequal.population.sizes)
    expected = {"gradient": 1, "sgd epochs": 2 * np.ceil(sizes / 4)}.get(name, 2)
    np.testing.assert_array_equal(info["steps"], np.broadcast_to(expected, 7))


@pytest.mark.parametrize("name", RULES)
def test_the_same_address_gives_the_same_answer(unequal, name):
    rule, broadcast = RULES[name], told(unequal)
    state = rule.init(broadcast["model"])
    step = jax.jit(lambda key: rule(key, broadcast, state, unequal.client(1))[0]["update"])
    assert (step(root(3)) == step(root(3))).all()
    assert np.abs(step(root(3)) - step(root(4))).max() > 1e-5


def plan(batches, steps, problem, client):
    rows, weights = jax.jit(lambda key: batches(key, steps, problem.client(client)))(root(5))
    return np.asarray(rows), np.asarray(weights)


@pytest.mark.parametrize("client", range(7))
def test_a_shuffled_epoch_sees_every_example_once(unequal, client):
    size = int(unequal.population.sizes[client])
    batches = Shuffled(4)
    per_epoch = int(batches.steps_per_epoch(size))
    rows, weights = plan(batches, 8, unequal, client)
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-6)
    for epoch in range(8 // per_epoch):
        part = slice(epoch * per_epoch, (epoch + 1) * per_epoch)
        assert sorted(rows[part][weights[part] > 0]) == list(range(size))


def test_passes_are_reshuffled(unequal):
    rows, weights = plan(Shuffled(13), 8, unequal, 1)
    assert len({tuple(order) for order in rows.tolist()}) == 8
    assert (weights > 0).all()


@pytest.mark.parametrize("client", range(7))
def test_full_and_oversized_batches_are_all_the_data(unequal, client):
    size = int(unequal.population.sizes[client])
    for batches in (Full(), Shuffled(100)):
        rows, weights = plan(batches, 2, unequal, client)
        assert rows.shape == (2, 13)
        for step in range(2):
            used = weights[step] > 0
            assert sorted(rows[step][used]) == list(range(size))
            np.testing.assert_allclose(weights[step][used], 1 / size, rtol=1e-6)


def test_replacement_draws_every_example_alike(unequal):
    """Client 1 has 13 examples: chi-square over 6,000 draws; a right law fails once in 10,000 seeds."""
    from scipy import stats

    rows, weights = plan(Replacement(60), 100, unequal, 1)
    np.testing.assert_allclose(weights, 1 / 60, rtol=1e-6)
    assert stats.chisquare(np.bincount(rows.ravel(), minlength=13)).pvalue > 1e-4


def test_a_subset_uses_an_example_once(quadratic):
    rows, _ = plan(Subset(1), 4, quadratic, 0)
    assert sorted(rows.ravel()) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match=r"3 steps × batch 2 = 6 examples is more than the smallest client's 4"):
        Simulation(hush.fedavg(steps=3, batch=2, sampling="subset"), quadratic)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LocalSGD(lr=0.1), "either steps or epochs"),
        (lambda: LocalSGD(lr=0.1, steps=1, epochs=1), "either steps or epochs"),
        (lambda: LocalSGD(lr=0.0, steps=1), "lr must be a positive number, found 0.0"),
        (lambda: LocalSGD(lr=float("nan"), steps=1), "lr must be a positive number, found nan"),
        (lambda: LocalSGD(lr=0.1, steps=0), "steps must be a whole number of at least 1, found 0"),
        (lambda: LocalSGD(lr=0.1, steps=1, send="weights"), "unknown thing to send 'weights'.*model, update"),
        (lambda: LocalSGD(lr=0.1, steps=1, direction=(Full(),)), "takes Directions, found Full"),
        (lambda: Scaffold(LocalSGD(lr=0.1, steps=1)), "ControlVariate among its directions"),
        (lambda: LocalSGD(lr=0.1, steps=1, pace="stride"), "unknown pace 'stride'.*known: round, step"),
        (lambda: LocalSGD(lr=0.1, epochs=1, pace="step"), "takes steps, found epochs"),
        (lambda: Perturbed(LocalSGD(0.1, 1, pace="step", oracle=ClippedPerExample(1.0)), 1.0), "one step size a round"),
        (lambda: Langevin(0.0), "temperature must be a positive number, found 0.0"),
        (lambda: Langevin(1.0, 1.1), "correlation must be a number from 0 to 1, found 1.1"),
        (lambda: Langevin(1.0, prior=-1.0), "prior must be a number of at least 0"),
        (lambda: Proximal(-1.0), "mu must be a number of at least 0"),
        (lambda: Shuffled(0), "batch must be a whole number"),
        (lambda: hush.fedavg(batch=3, sampling="shufled"), "did you mean 'shuffled'"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()

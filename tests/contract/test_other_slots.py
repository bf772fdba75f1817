"""Suites over the uplink's stages, the channels and the server rules; and what an algorithm refuses."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import random

import hush
from hush.channel import CHANNELS, Digital, Each, Noisy, OverTheAir, SecureSum
from hush.core.contract import Draw, Stacked, Statistics
from hush.core.keys import root
from hush.execution.simulation import Simulation
from hush.server import (
    SERVER_RULES,
    AdaptingClip,
    Add,
    AddDynamic,
    AddNormalised,
    AddToShared,
    AddWithControl,
    CorrelatedNoise,
    Gather,
    Krum,
    Median,
    Optimiser,
    Replace,
    TrimmedMean,
)
from hush.uplink import (
    QSGD,
    STAGES,
    BFloat16,
    Clip,
    ErrorFeedback,
    Gaussian,
    GridGaussian,
    Modular,
    RandomK,
    Rotated,
    Sign,
    Skellam,
    TernGrad,
    TopK,
)

STAGE_EXAMPLES = {
    "clip": Clip(1.0),
    "gaussian": Gaussian(0.5),
    "grid_gaussian": GridGaussian(1.0, 0.5),
    "qsgd": QSGD(3, code="elias"),
    "terngrad": TernGrad(block=4),
    "sign": Sign(),
    "top_k": TopK(3),
    "random_k": RandomK(3),
    "bfloat16": BFloat16(),
    "rotated": Rotated(QSGD(3)),
    "error_feedback": ErrorFeedback(TopK(2)),
    "modular": Modular(12, 1.0, 100.0, Skellam(2.0)),
}
RULES = {
    "add": Add(0.5),
    "replace": Replace(),
    "add_with_control": AddWithControl(0.5),
    "add_normalised": AddNormalised(0.5),
    "add_dynamic": AddDynamic(),
    "add_to_shared": AddToShared(((0, 1),), 0.5),
    "gather": Gather(),
    "optimiser": Optimiser("adam", {"learning_rate": 0.1}),
    "adapting_clip": AdaptingClip(Add(0.5), initial=2.0),
    "correlated_noise": CorrelatedNoise(0.1, rounds=5, bands=3),
    "median": Median(Add(0.5)),
    "trimmed_mean": TrimmedMean(0.2, Add(0.5)),
    "krum": Krum(1, chosen=2),
}


def test_every_piece_is_here():
    assert {name: type(stage) for name, stage in STAGE_EXAMPLES.items()} == STAGES
    assert {name: type(rule) for name, rule in RULES.items()} == SERVER_RULES
    channels = {"digital": Digital, "noisy": Noisy, "over_the_air": OverTheAir, "each": Each, "secure_sum": SecureSum}
    assert channels == CHANNELS
    assert (len(STAGES), len(SERVER_RULES), len(CHANNELS)) == (12, 13, 5)


@pytest.mark.slow
@pytest.mark.parametrize("name", STAGE_EXAMPLES)
def test_one_vector_is_a_slice_of_many(name):
    stage = STAGE_EXAMPLES[name]
    vectors = random.normal(root(0), (5, 11))
    keys = random.split(root(1), 5)
    state = stage.init(vectors[0])
    one = jax.jit(lambda key, vector: stage(key, vector, state)[0])
    many = jax.jit(jax.vmap(one))(keys, vectors)
    for key, vector, sent in zip(keys, vectors, many, strict=True):
        alone = one(key, vector)
        np.testing.assert_allclose(alone, sent, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(one(key, vector), alone)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    values=st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=20),
    bound=st.floats(2.0**-10, 1024, width=32),
)
def test_clip_bounds_the_norm_and_keeps_the_direction(values, bound):
    vector = np.zeros(20, np.float32)  # a length for all, so that a program is compiled once
    vector[: len(values)] = values
    sent, _, info = Clip(bound)(root(0), jnp.asarray(vector), {})
    norm = np.linalg.norm(vector.astype(float))
    expected = vector * min(1, bound / norm) if norm > 0 else vector
    np.testing.assert_allclose(sent, expected, rtol=1e-5, atol=1e-30)
    assert np.linalg.norm(np.asarray(sent, float)) <= bound * (1 + 1e-5)
    assert bool(info["clipped"]) == (np.linalg.norm(vector) > np.float32(bound)) or np.isclose(norm, bound)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
def test_clip_keeps_its_bound_whatever_comes(bad):
    """3e38 is a float, but the length of two of them is none: such a vector counts as zero too."""
    sent, _, info = Clip(0.5)(root(0), jnp.array([1.0, bad, bad], jnp.float32), {})
    assert sent.tolist() == [0, 0, 0]
    assert bool(info["clipped"])


def test_the_digital_channel_asks_for_the_weights_without_noise():
    draw = Draw(jnp.array([3, 1, 0]), jnp.array([0.2, 0.8, 0.5]), jnp.array([True, True, False]), jnp.float32(1))
    mixing = Digital()(root(0), draw, 0, Statistics())
    assert mixing.coefficients.tolist() == pytest.approx([0.2, 0.8, 0])
    assert mixing.noise == 0


@pytest.mark.parametrize("name", RULES)
def test_a_server_rule_keeps_its_word(name):
    """State in, state out: the same names and shapes, all it provides, from all it receives."""
    rule = RULES[name]
    model = random.normal(root(0), (4,))
    state = rule.init(model)
    assert set(rule.provides) <= set(state)
    sizes = {"below": 1, "length": 1, "update": state.get("shared", model).size}
    received = {message: random.normal(root(1), (sizes.get(message, 4),)) for message in rule.receives}
    if rule.takes_each:
        there = jnp.arange(6) < 5
        received = {name: Stacked(jnp.stack([each] * 6), there / 5, there) for name, each in received.items()}
    moved = rule(root(2), state | {"round": jnp.int32(0)}, received, jnp.float32(0.3))
    assert set(moved) <= set(state)
    for entry in moved:
        assert jax.tree.map(jnp.shape, moved[entry]) == jax.tree.map(jnp.shape, state[entry])


def test_server_equations():
    x, u, c = (np.array(v, np.float32) for v in ([1.0, 2.0], [0.5, -1.0], [3.0, 4.0]))
    state = {"model": x, "control": c, "round": jnp.int32(0)}
    coverage = jnp.float32(0.25)
    np.testing.assert_allclose(Add(0.5)(root(0), state, {"update": u}, coverage)["model"], [1.25, 1.5])
    np.testing.assert_allclose(Replace()(root(0), state, {"update": u}, coverage)["model"], u)
    np.testing.assert_allclose(Gather()(root(0), state, {"update": u}, coverage)["control"], -u)
    moved = AddWithControl(2.0)(root(0), state, {"update": u, "control": u}, coverage)
    np.testing.assert_allclose(moved["model"], [2.0, 0.0])
    np.testing.assert_allclose(moved["control"], [3.125, 3.75])
    decreasing = Add(hush.schedules.InverseTime(1.0, 2.0))
    later = decreasing(root(0), state | {"round": jnp.int32(2)}, {"update": u}, coverage)["model"]
    np.testing.assert_allclose(later, x + u / 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: replace(hush.scaffold(), cohort=hush.cohort.ByWeight(3)), "may draw a client twice.*carry state"),
        (lambda: replace(hush.fedavg(), server=AddWithControl()), "works from .'control'.*does not send"),
        (lambda: replace(hush.fedavg(), cohort=Add()), "slot cohort takes a Cohort, found Add"),
        (lambda: replace(hush.fedavg(), uplink=(Add(),)), r"slot uplink\[0\] takes a Stage, found Add"),
        (lambda: Clip(0.0), "bound must be a positive number"),
        (lambda: Optimiser("adma", {}), "did you mean 'adam'"),
        (lambda: Optimiser("adam", {"learning_rat": 0.1}), "does not take settings"),
        (lambda: hush.InTurn(()), "one or more Algorithms"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_client_that_needs_what_no_server_has(quadratic):
    local = replace(hush.fedavg(steps=1).local, direction=(hush.local.ControlVariate(),))
    algorithm = replace(hush.fedavg(), local=local)
    with pytest.raises(ValueError, match=r"needs .'control'. from the server, which provides .'model'"):
        Simulation(algorithm, quadratic)

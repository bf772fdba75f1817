"""The crafted problem and who takes part in it, beside what a pencil says."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy.stats import binomtest
from sound import fedavg

import hush
from hush.audits import asserted
from hush.audits.pairs.arena import arena, seed_of
from hush.audits.pairs.crafted import crafted
from hush.audits.pairs.drawn import Alone, AmongAll, OnePlace
from hush.audits.pairs.probes import Probe, probes
from hush.channel import Digital
from hush.cohort import Cyclic, Everyone, Poisson, Uniform
from hush.core.problem import Population

EVERYONE = Population(np.full(10, 4))
CLIP, DIRECTION = 0.5, np.full(16, 0.25)
PROBE = Probe("far beyond", 100 * DIRECTION)


def without_noise(cohort):
    return replace(fedavg(clip=CLIP), cohort=cohort, channel=Digital())


def received(cohort, relation, trust="sum", probe=PROBE, rounds=2, forced=False):
    """What is seen of two lanes of either world, along the direction: [worlds, rounds]."""
    claim = asserted(1.0, 1e-5, unit="client", relation=relation, trust=trust)
    made = arena(
        without_noise(cohort),
        EVERYONE,
        rounds,
        claim,
        "messages" if trust == "local" else "sum",
        dimension=16,
        canary=3,
        forced=[forced],
    )
    return np.array([made.run(probe, included, 5, 2) @ made.along(probe) for included in (True, False)])[:, 0]


def test_a_sum_is_what_one_client_can_make_of_it():
    """coefficient · clip · v of the canary, and the nine others the other way; everyone in the other world."""
    found = received(Everyone("equal"), "replace")
    assert np.allclose(found[0], CLIP * (1 - 9) / 10, rtol=1e-5)
    assert np.allclose(found[1], -CLIP, rtol=1e-5)


def test_turning_round():
    found = received(Everyone("equal"), "replace", probe=PROBE._replace(alternates=True))
    assert np.allclose(found[1], [-CLIP, CLIP], rtol=1e-5)


def test_who_is_not_there_adds_nothing():
    """A Poisson cohort of rate one: weights 1/N, and the others send zeros."""
    found = received(Poisson(1.0, "equal"), "add-or-remove")
    assert np.allclose(found[0], CLIP / 10, rtol=1e-5)
    assert np.allclose(found[1], 0, atol=1e-9)


def test_forced_into_every_round():
    found = received(Uniform(2, "equal"), "replace", forced=True)
    assert np.allclose(found[0], 0, atol=1e-6)  # one of two, the other the other way
    assert np.allclose(found[1], -CLIP, rtol=1e-5)


def test_a_message_by_itself():
    found = received(Uniform(2, "equal"), "replace", trust="local")
    assert np.allclose(found, [[CLIP, CLIP], [-CLIP, -CLIP]], rtol=1e-5)


def test_an_example_moves_a_mean_by_its_weight():
    problem = crafted(EVERYONE, 16, unit="example", canary=3)
    problem = replace(problem, message=jnp.ones(16), others=jnp.float32(-1))
    weights = jnp.full(4, 0.25)
    mean = [problem.client(i).clipped_gradient(jnp.zeros(16), jnp.arange(4), weights, 1.0) for i in (3, 4)]
    assert np.allclose(mean[0], -(1 - 3) / 4 * DIRECTION, rtol=1e-5)  # against the gradient
    assert np.allclose(mean[1], DIRECTION, rtol=1e-5)


def test_others_that_follow():
    problem = replace(crafted(EVERYONE, 16, unit="example", canary=3), message=jnp.ones(16), follows=jnp.asarray(True))
    view = problem.client(3).at_round(0, jnp.zeros(16))
    still = view.example_gradients(jnp.zeros(16), jnp.array([0, 1]))
    moved = view.example_gradients(jnp.full(16, -0.1), jnp.array([0, 1]))
    assert np.allclose(still, [[-1] * 16, [0] * 16])
    assert np.allclose(moved, [[-1] * 16, [1] * 16])


@pytest.mark.parametrize("cohort", [Poisson(0.3, "equal"), Uniform(3, "equal")])
def test_one_place_comes_as_often_as_the_client(cohort):
    """Of 2,000 draws, by a binomial test that a right rate fails in one of 10,000 seeds."""
    problem = crafted(EVERYONE, 16, unit="client", canary=3, alone=True)
    place = OnePlace(cohort, 1.0, 3, forced=False, replaced=False)
    draw = jax.jit(jax.vmap(lambda key: place(key, problem.population)))
    found = draw(random.split(random.key(0), 2000))
    assert binomtest(int(found.active.sum()), 2000, 0.3).pvalue > 1e-4
    assert np.allclose(np.asarray(found.weights)[np.asarray(found.active)], 1 / 3, rtol=1e-5)


def test_one_place_is_the_place_among_all():
    """The same key draws the same client with the same weight."""
    few = crafted(EVERYONE, 16, unit="client", canary=3, alone=True).population
    for number in range(10):
        all_ = AmongAll(Cyclic(4), 1.0, 3, forced=False)(random.key(0), EVERYONE, number)
        one = OnePlace(Cyclic(4), 1.0, 3, forced=False, replaced=True)(random.key(0), few, number)
        assert (int(one.ids[0]) == 0) == bool(jnp.any(all_.ids == 3))
        assert bool(one.active[0])


def test_alone():
    drawn = Alone(beside=True)(random.key(0), EVERYONE)
    assert drawn.ids.tolist() == [0, 1]
    assert drawn.weights.tolist() == [1, 0]


def test_chunks_have_seeds_of_their_own():
    seeds = {seed_of(seed, part, n) for seed in (0, 1) for part in ("probe", "count") for n in range(20)}
    assert len(seeds) == 80


def test_probes_reach_beyond_the_clip():
    """A gradient of norm g becomes an update of lr · steps · g."""
    algorithm = hush.dp_fedavg(2, 10, clip=3.0, noise_multiplier=1.0, lr=0.1, steps=5)
    lengths = {probe.name: 0.5 * np.linalg.norm(probe.message) / 3 for probe in probes(algorithm, 16, "client")}
    assert lengths["one number, just clipped"] == pytest.approx(1.01)
    assert min(lengths.values()) > 1


def test_an_attacked_cohort_weighs_clients_as_it_did():
    """A secure sum takes clients of unequal sizes where all weigh the same, and no others; attacked or not."""
    unequal, channel = Population(np.array([3, 4, 5])), hush.channel.SecureSum(2)
    channel.check(AmongAll(Cyclic(2, "equal"), 1.0, 0, False), unequal)
    with pytest.raises(ValueError, match="all clients weigh the same"):
        channel.check(AmongAll(Cyclic(2, "examples"), 1.0, 0, False), unequal)

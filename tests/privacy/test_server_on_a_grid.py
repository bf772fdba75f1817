"""DP-FedAvg with the server's noise on a grid: what is accounted, for all samplings, and what has no proof."""

from dataclasses import replace
from math import inf, sqrt

import equinox as eqx
import pytest

import hush
from hush import Grid
from hush.channel import Noisy
from hush.privacy import EqualClients, NoGuarantee, Poisson, Subset, Unsampled, describe
from hush.privacy.clients import SUMMED
from hush.privacy.guarantee import NOISE_OF
from hush.uplink import Clip, Gaussian

CLIENTS, ROUNDS, DELTA = EqualClients(1920), 100, 1e-5
MANY = 10_000  # parameters


def made(draw="poisson", bits=20, **settings):
    asked = {"clip": 0.4, "noise_multiplier": 1.53} | settings
    return hush.dp_fedavg(80, 1920, draw=draw, grid_bits=bits, steps=1, **asked)


def described(algorithm, dimension=MANY, **asked):
    return describe(algorithm, CLIENTS, ROUNDS, unit="client", dimension=dimension, **asked)


@pytest.mark.parametrize(
    ("draw", "relation", "sampling", "moves"),
    [
        ("poisson", "add-or-remove", Poisson(80 / 1920), 1),
        ("uniform", "replace", Subset(80, 1920), 2),
        ("cyclic", "replace", Unsampled(), 2),
    ],
)
def test_rounding_costs_a_little_of_the_noise(draw, relation, sampling, moves):
    """z/(1 + z√d/2^19), z over what a neighbour moves; ε above that without a grid, by less than a hundredth."""
    found, floats = described(made(draw)), described(made(draw, bits=None), None)
    ((release, count),) = found.first.of(0)
    assert (count, release.relation, release.sampling, release.law) == (1, relation, sampling, "discrete gaussian")
    z = 1.53 / moves
    assert release.noise_multiplier == pytest.approx(z / (1 + z * sqrt(MANY) / 2**19), rel=1e-9)
    assert floats.most(DELTA, "rdp") < found.most(DELTA, "rdp") < 1.01 * floats.most(DELTA, "rdp")
    assert found.most(DELTA) == found.most(DELTA, "rdp")  # no other accountant knows this law
    spent = found.spent((ROUNDS,), 1, DELTA)
    assert (spent.pld, spent.unsampled) == (None, inf)
    assert "discrete Gaussian noise" in found.first.mechanism
    assert {SUMMED, NOISE_OF["discrete gaussian"]} <= set(found.first.assumptions)
    assert not {SUMMED, NOISE_OF["discrete gaussian"]} & set(floats.first.assumptions)


def test_all_messages_of_adaptive_clipping_are_counted():
    """An update of d numbers and one more; the joint bound is that of both."""
    adaptive = made(adaptive=True, clip=None, bits=6)
    ((release, _),) = described(adaptive, 15).first.of(0)
    assert adaptive.channel.std == pytest.approx(1.53 * sqrt(1 + 0.05**2) / 80)
    assert release.noise_multiplier == pytest.approx(1.53 / (1 + 1.53 * sqrt(15 + 1) / 2**5))


def test_it_is_the_number_of_numbers_that_counts():
    coarse = made(bits=10)
    found = [described(coarse, dimension).most(DELTA) for dimension in (1, 1000, 100_000)]
    assert found == sorted(set(found))
    with pytest.raises(NoGuarantee, match="noise on a grid depends on how many parameters there are: give the problem"):
        described(coarse, None)
    problem = hush.tasks.digits(clients=20)
    algorithm = hush.dp_fedavg(5, 20, clip=1.0, noise_multiplier=1.0, grid_bits=10, steps=1)
    alone = describe(algorithm, EqualClients(20), 5, unit="client", dimension=650)
    assert describe(algorithm, problem, 5, unit="client").most(DELTA) == alone.most(DELTA)


def test_a_cohort_that_is_seen_hides_nobody():
    ((release, _),) = described(made(), trust="assumed-sum").first.of(0)
    assert (release.relation, release.sampling, release.law) == ("replace", Unsampled(), "discrete gaussian")


def test_what_has_no_proof():
    other = replace(made(), channel=Noisy(1.0))
    nested = eqx.tree_at(lambda it: it.channel.inner, made(), Noisy(1.0))  # past the checks of construction
    within = eqx.tree_at(lambda it: it.channel.inner, other, Noisy(1.0, grid=Grid()))
    for algorithm in (nested, within):
        with pytest.raises(NoGuarantee, match="noise on a grid and other noise on the sum"):
            described(algorithm)
    with pytest.raises(NoGuarantee, match="both at the clients and on the sum"):
        described(replace(made(), uplink=(Clip(1.0), Gaussian(1.0))))

    class Coarse(Grid):
        """A grid of one's own, which may do anything."""

    with pytest.raises(NoGuarantee, match="no proof is known for the grid Coarse"):
        described(replace(made(), channel=Noisy(1.0, grid=Coarse())))

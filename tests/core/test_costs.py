"""What a round costs before it is run: by hand, for pieces whose numbers are small."""

import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.channel import OverTheAir
from hush.cohort import ByWeight, Poisson, Uniform
from hush.core.contract import ServerRule, Stage
from hush.core.costs import Amount, bits_of_round, costs
from hush.core.problem import Population
from hush.local import LocalSGD
from hush.server import Add
from hush.uplink import QSGD, Clip

D, CLIENTS = 100, 40
PEOPLE = Population(np.full(CLIENTS, 7))
SGD = LocalSGD(0.1, steps=1)


def of(*uplink, cohort=None, local=SGD, **slots):
    return costs(hush.Algorithm(cohort or Uniform(4), local, uplink, **slots), PEOPLE, dimension=D)


class Chatty(Stage):
    """Says what it costs: a plain number, or one of chance."""

    bits: int | None = None

    def __call__(self, key, vector, state):
        return vector, state, {"bits": jnp.sum(vector != 0) if self.bits is None else self.bits}


class Bounded(Chatty):
    def most_bits(self, dimension):
        return 10 * dimension


def test_plain_numbers():
    found = of()
    assert (found.exact, found.channel_uses, found.energy) == (True, 0, Amount(0, 0))
    assert found.client_uplink_bits == Amount(32 * D, 32 * D)
    assert (found.uplink_bits, found.expected_uplink_bits) == (Amount(4 * 32 * D, 4 * 32 * D), 4 * 32 * D)
    assert (found.downlink_bits.least, found.client_downlink_bits) == (4 * 32 * D, 32 * D)
    assert of(cohort=ByWeight(60)).uplink_bits.most == 60 * 32 * D  # who comes twice sends twice


def test_the_last_stage_that_says_anything_counts():
    assert of(Chatty(50), Clip(1.0)).client_uplink_bits == Amount(50, 50)
    assert of(Chatty(), QSGD(3)).client_uplink_bits.least == QSGD(3).fixed_bits(D)
    assert of(Chatty()).client_uplink_bits == Amount(0, np.inf)
    bounded = of(Bounded())
    assert (bounded.client_uplink_bits, bounded.exact) == (Amount(0, 10 * D), False)
    assert bounded.uplink_bits == Amount(0, 4 * 10 * D)
    assert bounded.expected_uplink_bits is None


def test_who_comes_by_chance():
    found = of(cohort=Poisson(0.03))
    (phase,) = found.phases
    assert (phase.fewest, phase.places) == (0, Poisson(0.03).places(CLIENTS))
    assert found.expected_uplink_bits == pytest.approx(0.03 * CLIENTS * 32 * D)
    assert found.expected_downlink_bits == pytest.approx(0.03 * CLIENTS * 32 * D)
    assert found.uplink_bits == Amount(0, phase.places * 32 * D)
    assert not found.exact


def test_over_the_air():
    found = of(Clip(2.0), channel=OverTheAir(decibel=(0.0,) * (CLIENTS - 1) + (10.0,), bound=2.0))
    assert (found.uplink_bits, found.channel_uses) == (Amount(0, 0), D)
    assert found.energy.most == pytest.approx(4 * 10.0)  # four as loud as the loudest


class Matrix(ServerRule):
    """Tells its clients a matrix of three models."""

    inner: Add = Add()
    provides = ("model", "models")
    receives = ("update",)

    def init(self, model):
        return {"model": model, "models": jnp.stack([model] * 3)}

    def __call__(self, key, state, received, coverage):
        return self.inner(key, state, received, coverage) | {"models": state["models"]}


class Told(LocalSGD):
    @property
    def needs(self):
        return ("model", "models")


def test_what_is_told_is_counted_by_its_size():
    assert of(local=Told(0.1, steps=1), server=Matrix()).client_downlink_bits == 32 * (D + 3 * D)


def test_phases_add_up():
    found = costs(hush.feddane(4, steps=1), PEOPLE, dimension=D)
    assert len(found.phases) == 2
    assert found.uplink_bits.least == sum(phase.uplink_bits.least for phase in found.phases) == 2 * 4 * 32 * D
    assert found.client_downlink_bits == sum(phase.client_downlink_bits for phase in found.phases)


def test_a_problem_knows_its_dimension(quadratic):
    algorithm = hush.fedavg(2, steps=1)
    assert costs(algorithm, quadratic) == costs(algorithm, quadratic.population, dimension=3)
    assert bits_of_round(algorithm, quadratic) == 2 * 32 * 3
    with pytest.raises(ValueError, match="dimension goes with a population"):
        costs(algorithm, quadratic, dimension=3)
    with pytest.raises(ValueError, match="dimension must be a whole number"):
        costs(algorithm, quadratic.population)

"""What a round costs before it is run: by hand, for pieces whose numbers are small."""

import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.channel import OverTheAir
from hush.cohort import ByWeight, Poisson, Uniform
from hush.core.contract import LocalRule, ServerRule, Stage
from hush.core.costs import Amount, bits_of_round, costs
from hush.core.problem import Population
from hush.execution.simulation import Simulation
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


class Many(ServerRule):
    """Tells a matrix, a whole number, halves, and a table of both."""

    provides = ("model", "centres", "temperature", "half", "nested")
    receives = ("update",)

    def init(self, model):
        return {
            "model": model,
            "centres": jnp.stack([model] * 3),
            "temperature": jnp.int32(1),
            "half": model.astype(jnp.bfloat16),
            "nested": {"scale": jnp.float32(1), "seen": model > 0},
            "private": jnp.zeros(1000),
        }

    def __call__(self, key, state, received, coverage):
        return {"model": state["model"] + received["update"], "centres": 2 * state["centres"]}


class Listens(LocalRule):
    """Needs all that it is told."""

    needs = Many.provides
    sends = ("update",)

    def __call__(self, key, broadcast, memory, data):
        return {"update": jnp.mean(broadcast["centres"], 0)}, memory, {"steps": jnp.int32(1)}


def test_every_array_that_is_told_is_counted_as_it_lies_in_memory(quadratic):
    """By hand: a model, three of it, one whole number, half of one, one number and a byte for each truth."""
    d = 3
    told = 32 * d + 3 * 32 * d + 32 + 16 * d + 32 + 8 * d
    algorithm = hush.Algorithm(Uniform(2), Listens(), server=Many())
    found = costs(algorithm, quadratic)
    assert found.client_downlink_bits == told
    simulation = Simulation(algorithm, quadratic)
    simulation.advance(3)
    assert simulation.ledger.downlink_bits.tolist() == [3 * 2 * told]


@pytest.mark.parametrize(
    ("algorithm", "told"),
    [
        (hush.fedavg(4, steps=1), 32 * D),
        (hush.scaffold(4, steps=1), 2 * 32 * D),
        (hush.dp_fedavg(4, CLIENTS, adaptive=True, noise_multiplier=1.0), 32 * (D + 1)),
        (hush.fedper([(0, 10)], clients=4, steps=1), 32 * (D - 10)),
    ],
)
def test_what_our_own_algorithms_tell(algorithm, told):
    assert costs(algorithm, PEOPLE, dimension=D).client_downlink_bits == told


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

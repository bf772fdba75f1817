"""Messages of more bits than a word of 32 can count: ledger, budget and records are exact all the same."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.core.algorithm import Algorithm, InTurn
from hush.core.contract import LocalRule, Stage
from hush.core.counts import count
from hush.core.keys import root
from hush.core.round import client_step
from hush.execution.simulation import Simulation
from hush.uplink import QSGD, ErrorFeedback
from hush.wire import lengths, sparse_bits
from hush.wire.elias import KINDS


class Claims(Stage):
    """Changes nothing, and says that it cost so many bits; one more for each number where they are to be computed."""

    bits: int = eqx.field(static=True)
    computed: bool = eqx.field(static=True, default=False)

    def __call__(self, key, vector, state):
        finite = jnp.sum(jnp.isfinite(vector))
        return vector, state, {"bits": count(self.bits) + finite if self.computed else self.bits}


def claiming(algorithm, *stages):
    """The phases of an algorithm, each with its own stage."""
    phases = zip(algorithm.phases, stages, strict=True)
    made = tuple(replace(phase, uplink=(stage,)) for phase, stage in phases)
    return made[0] if len(made) == 1 else InTurn(made)


LONG = 2**57 + 1  # above 2^53, so that double precision would lose the one


@pytest.mark.slow
@pytest.mark.parametrize("stage", [Claims(2**32), Claims(2**32 - 2, computed=True), Claims(LONG)])
def test_the_ledger_is_exact(quadratic, stage):
    each = stage.bits + 3 * stage.computed  # of 3 numbers
    simulation = Simulation(claiming(hush.fedavg(clients=4, steps=1, lr=0.01), stage), quadratic)
    simulation.advance(5)
    taken = simulation.ledger.client_rounds[0, 0]
    assert taken.sum() == 20
    assert simulation.ledger.client_uplink_bits[0].tolist() == [each * int(rounds) for rounds in taken]
    assert simulation.ledger.read()["uplink_bits"].tolist() == [20 * each]
    assert simulation.ledger.downlink_bits.tolist() == [20 * 32 * 3]


def test_over_phases_lanes_and_devices(quadratic):
    """Both phases of FedDANE, two lanes, four devices, two clients on each: all are counted, each for itself."""
    first, second = Claims(2**40 + 1), Claims(2**32 - 1, computed=True)
    algorithm = claiming(hush.feddane(clients=5, epochs=1, lr=0.01, mu=0.1), first, second)
    simulation = Simulation(algorithm, quadratic, repetitions=2, clients_at_once=2, devices=4)
    simulation.advance(3)
    rounds = simulation.ledger.client_rounds
    expected = rounds[0] * (2**40 + 1) + rounds[1] * (2**32 + 2)
    np.testing.assert_array_equal(simulation.ledger.client_uplink_bits, expected)
    assert simulation.ledger.uplink_bits.tolist() == [15 * (2**40 + 2**32 + 3)] * 2


def test_scaffold_counts_both_messages(quadratic):
    simulation = Simulation(claiming(hush.scaffold(clients=2, steps=1, lr=0.01), Claims(2**31)), quadratic)
    simulation.advance(1)
    assert simulation.ledger.uplink_bits.tolist() == [2 * 2**32]


@pytest.mark.parametrize(("missing", "rounds"), [(0, 3), (1, 2)])
def test_a_budget_is_kept_to_the_bit(quadratic, missing, rounds):
    algorithm = claiming(hush.fedavg(steps=1, lr=0.01), Claims(LONG))
    result = hush.run(algorithm, quadratic, bit_budget=3 * 6 * LONG - missing, evaluate_every=1, progress=False)
    assert result.records["uplink_bits"].tolist() == [6 * LONG * done for done in range(rounds + 1)]
    assert result.clients["uplink_bits"].tolist() == [LONG * rounds] * 6


class Echo(LocalRule):
    """Sends the model back under two names."""

    needs = ("model",)
    sends = ("update", "control")

    def __call__(self, key, broadcast, state, data):
        return dict.fromkeys(self.sends, broadcast["model"]), state, {"steps": jnp.int32(1)}


@pytest.mark.parametrize(
    ("uplink", "each"),
    [((), 32 * 2**27), ((QSGD(60_000),), None), ((ErrorFeedback(QSGD(60_000)),), None)],
)
def test_a_count_that_no_value_changes_is_known_without_running(uplink, each):
    """2^27 numbers, of which none is made: the bits are there once the step is traced."""
    dimension = 2**27
    phase, found = Algorithm(hush.cohort.Everyone(), Echo(), uplink), []

    def step(model):
        state = {"local": {}, "uplink": {name: tuple(each.init(model) for each in uplink) for name in Echo.sends}}
        sent, _, info = client_step(phase, root(0), {"model": model}, state, None)
        found.append(info["bits"])
        return sent, info

    _, info = jax.eval_shape(step, jax.ShapeDtypeStruct((dimension,), jnp.float32))
    each = QSGD(60_000).fixed_bits(dimension) if each is None else each
    assert found[0].known
    assert int(found[0]) == 2 * each > 2**32
    assert info["bits"].words.shape == (2,)


def far(model, centre):
    """½‖x − c‖², with one number for all of c."""
    return 0.5 * jnp.sum((model - centre) ** 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "dimension", "messages"), [(hush.scaffold, 67_108_864, 2), (hush.fedavg, 134_217_728, 1)]
)
def test_models_whose_messages_are_that_long(make, dimension, messages):
    problem = hush.tasks.potentials(far, jnp.array([1.0]), jnp.zeros(dimension))
    simulation = Simulation(make(steps=1, lr=0.5), problem, devices=1)
    simulation.advance(1)
    assert simulation.ledger.uplink_bits.tolist() == [messages * 32 * dimension]
    assert messages * 32 * dimension == 2**32
    assert simulation.ledger.downlink_bits.tolist() == [messages * 32 * dimension]
    np.testing.assert_allclose(simulation.server["model"][0, :: dimension // 8], 0.5)


@pytest.mark.slow
def test_elias_codes_that_are_that_long():
    """110,000,000 levels of 2^31 − 1: runs of one, a sign each, and the shortest code of the magnitude."""
    count_, level = 110_000_000, 2**31 - 1
    magnitude = min(int(lengths(kind, np.array(level))) for kind in KINDS)
    exact = int(lengths("delta", np.array(count_ + 1))) + 4 + count_ * (1 + 1 + magnitude)
    found = int(jax.jit(lambda: sparse_bits(jnp.full(count_, level, jnp.int32)))())
    assert found == -(-exact // 8) * 8 > 2**32

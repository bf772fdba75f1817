"""A budget of bits for each client: nobody ever sends more, and the run stops there or the client retires."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hush
from hush.channel import OverTheAir
from hush.cohort import ByWeight, Cyclic, Everyone, Poisson, Uniform
from hush.core.algorithm import InTurn
from hush.core.contract import Stage
from hush.core.costs import costs
from hush.execution.simulation import Simulation
from hush.uplink import QSGD, Clip, TopK

pytestmark = [pytest.mark.usefixtures("unpainted"), pytest.mark.slow]

PLAIN = hush.fedavg(clients=3, steps=1, lr=0.05)
DENSE = replace(PLAIN, uplink=(QSGD(2),))
ELIAS = replace(PLAIN, uplink=(QSGD(2, code="elias"),))
SPARSE = replace(PLAIN, uplink=(TopK(2),))
CODES = {"plain": PLAIN, "dense": DENSE, "elias": ELIAS, "sparse": SPARSE}
COHORTS = [Uniform(3), Poisson(0.5), Cyclic(2), ByWeight(4), Everyone()]
CASES = CODES | {type(cohort).__name__: replace(DENSE, cohort=cohort) for cohort in COHORTS}
OFTEN = ("elias", "Poisson", "ByWeight")  # these say most; the others are gone through among the slow ones
EVERY = [name if name in OFTEN else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
ROUNDS = 12


def go(made, problem, rounds=ROUNDS, **asked):
    return hush.run(made, problem, rounds, evaluate_every=4, progress=False, **asked)


def sent_each_round(made, problem, rounds=ROUNDS, **lanes):
    """What each client sends and how often it takes part, [rounds, lanes, N], where nothing is limited."""
    simulation = Simulation(made, problem, **lanes)
    bits, taken = [], []
    for _ in range(rounds):
        before = simulation.ledger.client_uplink_bits.copy(), simulation.ledger.client_rounds.sum(0)
        simulation.advance(1)
        bits.append(simulation.ledger.client_uplink_bits - before[0])
        taken.append(simulation.ledger.client_rounds.sum(0) - before[1])
    return np.array(bits), np.array(taken)


def paid_for(bits, budget):
    """By a plain loop: the last round after which nobody has sent more than the budget."""
    total = np.zeros_like(bits[0])
    for done, sent in enumerate(bits):
        total += sent
        if total.max() > budget:
            return done
    return len(bits)


def capped(drawn, allowed):
    """By a plain loop over who is drawn [rounds, N]: how often each takes part that may so often."""
    taken = [0] * drawn.shape[1]
    for cohort in drawn:
        for client, places in enumerate(cohort):
            taken[client] += min(int(places), allowed - taken[client])
    return taken


@pytest.mark.parametrize("name", EVERY)
def test_the_run_stops_at_the_last_round_that_everybody_can_pay_for(quadratic, name):
    made = CASES[name]
    bits, _ = sent_each_round(made, quadratic, repetitions=2)
    budget = int(bits.sum(0).max()) - 1  # the last round is not paid for, or some before it
    expected = paid_for(bits, budget)
    result = go(made, quadratic, None, client_bit_budget=budget, repetitions=2)
    assert result.status["round"] == expected < ROUNDS
    straight = go(made, quadratic, expected, repetitions=2)
    np.testing.assert_array_equal(result.vector, straight.vector)
    pd.testing.assert_frame_equal(result.clients, straight.clients)
    most = int(straight.clients["uplink_bits"].max())
    assert f"a client's bit budget is spent: {most:,} of {budget:,} bits" in result.status["message"]


@pytest.mark.parametrize("name", EVERY)
def test_a_client_that_cannot_pay_retires_and_the_others_go_on(quadratic, name):
    made = CASES[name]
    most = costs(made, quadratic).client_uplink_bits.most
    _, drawn = sent_each_round(made, quadratic, repetitions=2)
    result = go(made, quadratic, client_bit_budget=3.5 * most, when_spent="retire", repetitions=2)
    assert (result.status["round"], result.status["message"]) == (ROUNDS, "")
    for repetition, mine in result.clients.groupby("repetition"):
        assert mine["rounds"].tolist() == capped(drawn[:, repetition], 3)
    assert result.clients["rounds"].max() == 3


asked = given(budget=st.floats(150, 2000), when=st.sampled_from(["stop", "retire"]), seed=st.integers(0, 5))


@pytest.mark.parametrize("name", EVERY)
@settings(max_examples=8)
@asked
def test_nobody_ever_sends_more(quadratic, name, budget, when, seed):
    made, both = CASES[name], {"client_bit_budget": budget, "repetitions": 2}
    try:
        result = go(made, quadratic, ROUNDS, when_spent=when, seed=seed, **both)
    except ValueError as refused:
        assert "pay for one" in str(refused)  # noqa: PT017
        assert budget < 2 * costs(made, quadratic).client_uplink_bits.most * (made.cohort.with_replacement + 1)
        return
    assert result.clients["uplink_bits"].max() <= budget


def test_every_point_of_a_sweep_keeps_to_it(quadratic):
    budget = 4 * costs(DENSE, quadratic).client_uplink_bits.most
    asked = {"client_bit_budget": budget, "sweep": {"local.lr": [0.01, 0.05]}, "when_spent": "retire"}
    swept = go(DENSE, quadratic, **asked)
    alone = go(replace(DENSE, local=replace(DENSE.local, lr=0.05)), quadratic, **(asked | {"sweep": None}))
    np.testing.assert_allclose(swept.vector[1], alone.vector[0], rtol=1e-5)
    assert swept.clients["rounds"].max() == 4


class TestSeveralPhases:
    both = InTurn((DENSE, replace(PLAIN, cohort=Everyone())))

    def test_a_round_costs_what_its_phases_do(self, quadratic):
        each = [phase.client_uplink_bits.most for phase in costs(self.both, quadratic).phases]
        retired = go(self.both, quadratic, client_bit_budget=3 * sum(each) + each[0], when_spent="retire")
        taken = retired.state["ledger/client_rounds"][:, 0]
        assert taken[1].tolist() == [3] * 6  # everyone takes part in the second phase
        assert taken[0].max() <= 3
        assert retired.clients["uplink_bits"].max() <= 3 * sum(each)

    def test_who_takes_part_in_one_phase_pays_for_one(self, quadratic):
        bits, _ = sent_each_round(self.both, quadratic)
        budget = int(bits.sum(0).max()) - 1
        assert go(self.both, quadratic, client_bit_budget=budget).status["round"] == paid_for(bits, budget)


class TestGoingOn:
    budget = 4 * 32 * 3

    @pytest.mark.parametrize("when", ["stop", "retire"])
    def test_it_ends_as_if_it_had_never_been_interrupted(self, quadratic, tmp_path, when):
        asked = {"client_bit_budget": self.budget, "when_spent": when, "repetitions": 2}
        whole = go(PLAIN, quadratic, **asked)
        go(PLAIN, quadratic, 3, folder=tmp_path / "run", **asked)
        resumed = go(PLAIN, quadratic, folder=tmp_path / "run", resume=True, **asked)
        np.testing.assert_array_equal(whole.vector, resumed.vector)
        pd.testing.assert_frame_equal(whole.clients, resumed.clients)

    def test_where_it_ends_the_run_a_larger_one_goes_on_and_a_smaller_does_not(self, quadratic, tmp_path):
        folder = {"folder": tmp_path / "run", "resume": True}
        go(PLAIN, quadratic, client_bit_budget=self.budget, folder=tmp_path / "run")
        with pytest.raises(ValueError, match="bits were sent already by one client; resume with at least as many"):
            go(PLAIN, quadratic, client_bit_budget=self.budget / 2, **folder)
        longer = go(PLAIN, quadratic, client_bit_budget=2 * self.budget, **folder)
        straight = go(PLAIN, quadratic, client_bit_budget=2 * self.budget)
        np.testing.assert_array_equal(longer.vector, straight.vector)
        assert longer.status["message"] == straight.status["message"]

    def test_where_clients_retire_it_makes_the_run_what_it_is(self, quadratic, tmp_path):
        asked = {"when_spent": "retire", "folder": tmp_path / "run"}
        go(PLAIN, quadratic, 3, client_bit_budget=self.budget, **asked)
        for other in ({"client_bit_budget": 2 * self.budget}, {"client_bit_budget": None}):
            with pytest.raises(ValueError, match=r"the checkpoint is of another run.*client_bit_budget"):
                go(PLAIN, quadratic, resume=True, **(asked | other))


def test_beside_a_budget_of_privacy_the_smaller_counts():
    problem = hush.tasks.digits(clients=20, classes_per_client=2)
    made = hush.private_fedpaq(10, steps=2, batch=8, lr=0.3, noise_multiplier=1.0)
    limit = float(hush.privacy.describe(made, problem, 10).spent((3,), 71, 1e-5).epsilon)
    message = costs(made, problem).client_uplink_bits.most
    for rounds, most in ((2, 2), (5, 3)):
        asked = {"epsilon": limit, "client_bit_budget": rounds * message, "when_spent": "retire"}
        assert go(made, problem, 16, **asked).clients["rounds"].max() == most
        stopped = go(made, problem, None, **(asked | {"when_spent": "stop"}))
        assert stopped.clients["rounds"].max() == most
        assert ("a client's bit" if rounds == 2 else "the privacy") in stopped.status["message"]


class Chatty(Stage):
    """Costs what nobody can say before."""

    def __call__(self, key, vector, state):
        return vector, state, {"bits": hush.core.counts.count(0) + 40 * (vector[0] > -1e9).astype("uint32")}


def test_a_length_without_a_bound_stops_a_run_and_retires_nobody(quadratic):
    made = replace(PLAIN, uplink=(Chatty(),))
    with pytest.raises(ValueError, match="has no bound here: when_spent must be 'stop'"):
        go(made, quadratic, client_bit_budget=200, when_spent="retire")
    stopped = go(made, quadratic, client_bit_budget=200)
    assert stopped.clients["uplink_bits"].max() == 200


AIR = hush.Algorithm(Everyone(), PLAIN.local, (Clip(1.0),), OverTheAir(bound=1.0, decibel=(0.0,) * 6))


@pytest.mark.parametrize(
    ("made", "asked", "message"),
    [
        (PLAIN, {"client_bit_budget": 95}, "of 95 does not pay for one message, which costs 96 bits$"),
        (PLAIN, {"client_bit_budget": 95, "when_spent": "retire"}, "does not pay for one message, which costs 96 bits"),
        (ELIAS, {"client_bit_budget": 5}, "a client_bit_budget of 5 does not pay for one round"),
        (ELIAS, {"client_bit_budget": 70, "when_spent": "retire"}, "may not pay for one round, which costs a client"),
        (AIR, {"client_bit_budget": 1e6}, "over the air these clients send none"),
        (PLAIN, {"client_bit_budget": float("inf")}, "client_bit_budget must be a positive number"),
        (PLAIN, {"rounds": None, "client_bit_budget": 960, "when_spent": "retire"}, "a run needs rounds"),
    ],
)
def test_refused(quadratic, tmp_path, made, asked, message):
    with pytest.raises(ValueError, match=message):
        go(made, quadratic, **({"rounds": 5} | asked), folder=tmp_path / "run")
    assert made is ELIAS or not (tmp_path / "run").exists()

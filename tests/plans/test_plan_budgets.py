"""Budgets, and that whatever they admit keeps them: by the ledger of a simulation, and by an accountant."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hush
from hush.core.algorithm import Algorithm
from hush.execution.simulation import Simulation
from hush.plans.budgets import Budgets, Infeasible
from hush.plans.candidate import admitted
from hush.plans.families import families_for
from hush.plans.feasible import check_feasible
from hush.plans.scene import Scene
from hush.privacy import describe

pytestmark = pytest.mark.slow  # many small runs, which add up


@pytest.fixture(scope="module")
def problem():
    return hush.tasks.digits(clients=30)


def scene_of(problem, **limits):
    return Scene(problem, problem.population, Budgets(**limits))


def picked(scene, family, seed):
    """A candidate drawn at random from a family's menu."""
    generator = np.random.default_rng(seed)
    return admitted(scene, family(scene, lambda name, options: options[generator.integers(len(options))]))


class TestWhatIsAsked:
    @pytest.mark.parametrize(
        ("limits", "said"),
        [
            ({}, "needs a budget that ends a run"),
            ({"epsilon": 1.0}, "needs a budget that ends a run"),
            ({"client_bits": -1.0}, "client_bits must be a positive number"),
            ({"seconds": 10.0}, "go with its capacity"),
            ({"rounds": 3, "delta": 1.0}, "delta must be"),
            ({"rounds": 3, "unit": "person"}, "unit"),
            ({"rounds": 3, "trust": "me"}, "trust"),
            ({"rounds": 2.5}, "rounds must be a whole number"),
        ],
    )
    def test_refusals(self, limits, said):
        with pytest.raises(ValueError, match=said):
            Budgets(**limits)

    def test_seconds_at_a_capacity_are_bits(self):
        assert Budgets(seconds=10, capacity=1e3).uplink == 1e4
        assert Budgets(seconds=10, capacity=1e3, bits=5e3).uplink == 5e3

    @settings(max_examples=50, deadline=None)
    @given(
        clients=st.integers(1, 50),
        bits=st.integers(1, 1000),
        client_bits=st.integers(1, 100_000),
        total=st.integers(1, 10_000_000),
    )
    def test_rounds_are_the_most_that_can_be_paid_for(self, clients, bits, client_bits, total):
        budgets = Budgets(client_bits=client_bits, bits=total)
        # Eq 11 by a plain count: rounds are added until somebody cannot pay.
        paid = 0
        while (paid + 1) * clients * bits <= total and math.ceil((paid + 1) * clients / 50) * bits <= client_bits:
            paid += 1
            if paid > 2000:
                return
        if paid == 0:
            return
        found = budgets.rounds_of(clients, 50, bits, 1)
        # In turn, a client may be asked once more than in the mean: `admitted` looks at that.
        assert found >= paid
        assert found * clients * bits <= total
        assert found * clients / 50 * bits <= client_bits

    def test_a_random_number_of_clients_keeps_something_back(self):
        budgets, clients, population = Budgets(bits=1e6), 10, 100
        rounds = budgets.rounds_of(clients, population, 100.0, 1, at_random=True)
        deviation = math.sqrt(rounds * clients * (1 - clients / population))
        assert rounds * clients + 6 * deviation <= 1e4 < (rounds + 1) * clients + 6 * deviation + 10


class TestWhatIsTooLittle:
    def test_less_than_one_message_says_the_least(self, problem):
        scene = scene_of(problem, client_bits=50.0)
        with pytest.raises(ValueError, match="nothing fits these budgets: 50 bits of a client do not pay") as error:
            check_feasible(scene, families_for(scene))
        least = float(str(error.value).split("least would be ")[1].split(" bits")[0].replace(",", ""))
        check_feasible(scene_of(problem, client_bits=least), families_for(scene))

    def test_less_than_one_round_says_the_least(self, problem):
        scene = scene_of(problem, bits=50.0)
        with pytest.raises(ValueError, match="bits in all do not pay for one round"):
            check_feasible(scene, families_for(scene))

    def test_an_epsilon_too_small_for_one_round(self, problem):
        scene = scene_of(problem, rounds=10, epsilon=1e-12, delta=1e-12)
        with pytest.raises(ValueError, match="the least for one round would be ε"):
            check_feasible(scene, families_for(scene))

    def test_trust_without_an_algorithm(self, problem):
        with pytest.raises(ValueError, match="no algorithm for trust='secret-sum'"):
            families_for(scene_of(problem, rounds=10, epsilon=1.0, trust="secret-sum"))
        with pytest.raises(ValueError, match="trust must be local"):
            families_for(scene_of(problem, rounds=10, epsilon=1.0, unit="example", trust="server"))
        with pytest.raises(ValueError, match="needs a channel over the air"):
            families_for(scene_of(problem, rounds=10, epsilon=1.0, trust="air"))

    def test_over_the_air_the_channel_says_what_a_round_costs(self, problem):
        channel = hush.channel.OverTheAir(hush.channel.FullPower(), hush.channel.Constant(1.0), 30.0)
        scene = Scene(problem, problem.population, Budgets(rounds=10, epsilon=1e-3, trust="air"), channel)
        with pytest.raises(ValueError, match="does not pay for one round over this channel: the least") as error:
            check_feasible(scene, families_for(scene))
        least = float(str(error.value).split("least would be ")[1])
        enough = Scene(problem, problem.population, Budgets(rounds=10, epsilon=least, trust="air"), channel)
        check_feasible(enough, families_for(enough))

    def test_energy_for_less_than_a_round(self, problem):
        channel = hush.channel.OverTheAir(hush.channel.FullPower(), hush.channel.GaussianReal(0.5, 0.01), 10.0)
        scene = Scene(problem, problem.population, Budgets(energy=5.0), channel)
        with pytest.raises(ValueError, match="less than one round of 1 clients: 10"):
            check_feasible(scene, families_for(scene, ["over_the_air"]))


class TestFeasibleByConstruction:
    @pytest.mark.slow
    @settings(max_examples=6, deadline=None)
    @given(seed=st.integers(0, 10**6), name=st.sampled_from(["fedavg", "fedpaq", "fedprox", "scaffold"]))
    def test_no_client_sends_more_than_its_budget(self, problem, seed, name):
        scene = scene_of(problem, client_bits=2e5, rounds=12)
        try:
            candidate = picked(scene, families_for(scene)[name], seed)
        except Infeasible:
            return
        simulation = Simulation(candidate.at(candidate.draft.start), problem)
        simulation.advance(candidate.rounds)
        sent = simulation.ledger.client_uplink_bits.max()
        assert sent <= 2e5
        if candidate.bits_known:
            assert sent == candidate.client_bits(30)

    @settings(max_examples=5, deadline=None)
    @given(
        seed=st.integers(0, 10**6),
        case=st.sampled_from(
            [("client", None), ("client", "sum"), ("client", "local"), ("example", None), ("example", "local")]
        ),
    )
    def test_no_client_spends_more_than_epsilon(self, problem, seed, case):
        unit, trust = case
        scene = scene_of(problem, client_bits=1e6, rounds=20, epsilon=4.0, unit=unit, trust=trust)
        families = families_for(scene)
        name = sorted(families)[seed % len(families)]
        try:
            candidate = picked(scene, families[name], seed)
        except Infeasible:
            return
        algorithm = candidate.at(candidate.draft.start)
        assert isinstance(algorithm, Algorithm)
        turns = math.ceil(candidate.rounds * candidate.draft.clients / 30) if unit == "example" else candidate.rounds
        described = describe(algorithm, problem, turns, unit=unit, trust=trust)
        assert described.first.unit == unit
        assert trust is None or described.first.trust == trust
        assert described.most(1e-5) <= 4.0

    def test_noise_does_not_depend_on_the_point(self, problem):
        scene = scene_of(problem, rounds=20, epsilon=4.0)
        candidate = picked(scene, families_for(scene)["dp_fedavg"], 3)
        for clip in (0.01, 30.0):
            described = describe(candidate.at(candidate.draft.start | {"clip": clip}), problem, candidate.rounds)
            assert described.most(1e-5) <= 4.0

"""The search, on scores that are a formula: what it finds, in which order, and what it leaves behind."""

import math

import numpy as np
import pandas as pd
import pytest
from made_up import BEST, Clock, MadeUp, score_of

import hush
from hush.plans.budgets import Budgets
from hush.plans.candidate import Coordinate, admitted
from hush.plans.climbing import Arm, begin, look, looks
from hush.plans.families import families_for
from hush.plans.menus import first_choices, neighbours, options_of
from hush.plans.scene import Scene
from hush.plans.search import FINALISTS, REPETITIONS, Search
from hush.plans.trials import COLUMNS

pytestmark = pytest.mark.slow  # many small runs, which add up


@pytest.fixture(scope="module")
def scene():
    problem = hush.tasks.digits(clients=40)
    return Scene(problem, problem.population, Budgets(client_bits=4e5, rounds=100))


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr("hush.plans.search.time", made)
    return made


def search_of(scene, seconds=60.0, names=None, **more):
    return Search(scene, MadeUp(scene, **more), families_for(scene, names), seconds)


class TestClimbing:
    def candidate(self, scene):
        family = families_for(scene)["fedavg"]
        return admitted(scene, family(scene, lambda name, options: options[0]))

    @pytest.mark.parametrize("start", [0.001, 0.1, 10.0])
    def test_it_comes_to_the_top_of_a_hill(self, scene, start):
        bench, candidate = MadeUp(scene), self.candidate(scene)
        arm = Arm(candidate, candidate.draft.start | {"lr": start}, 0)
        begin(arm, candidate.rounds)
        for points in looks(bench, arm, ("lr",), 1.0):
            look(bench, arm, points)
        # Among all values a factor of 3 apart from where it began, by a plain search.
        values = [start * 3.0**power for power in range(-12, 13) if 1e-3 <= start * 3.0**power <= 30]
        best = max(values, key=lambda lr: score_of(candidate, arm.point | {"lr": lr}, 0, candidate.rounds))
        assert arm.point["lr"] == pytest.approx(best)

    def test_no_point_is_looked_at_twice(self, scene):
        bench, candidate = MadeUp(scene), self.candidate(scene)
        arm = Arm(candidate, candidate.draft.start, 0)
        begin(arm, candidate.rounds)
        seen = []
        for points in looks(bench, arm, ("lr", "server_lr", "decay"), 1.0):
            assert len(points) <= max(2, bench.width)
            seen += [tuple(point.values()) for point in points]
            look(bench, arm, points)
        assert len(seen) == len(set(seen))

    def test_a_coordinate_stays_within_its_range(self):
        coordinate = Coordinate("lr", 1.0, 3.0, 0.5, 2.0)
        assert coordinate.moved(1.0, 5) == 2.0
        assert coordinate.moved(1.0, -5) == 0.5


class TestMenus:
    def test_first_choices_are_on_the_menu(self, scene):
        for name, family in families_for(scene).items():
            options = options_of(scene, family)
            for choices in first_choices(name, scene, family):
                assert all(choices[each] in values for each, values in options.items())

    def test_neighbours_differ_in_one_choice(self, scene):
        family = families_for(scene)["fedpaq"]
        options = options_of(scene, family)
        for seed in range(20):
            generator = np.random.default_rng(seed)
            choices = {name: values[generator.integers(len(values))] for name, values in options.items()}
            found = neighbours(choices, options)
            assert found
            for other in found:
                assert sum(other[name] != choices[name] for name in choices) == 1
                assert choices in neighbours(other, options)  # and the way back is one step too


class TestSearch:
    @pytest.mark.slow
    def test_it_finds_the_best_choices(self, scene):
        best = search_of(scene, 250.0).run()[0]
        assert best.candidate.draft.steps == 10
        assert best.candidate.draft.clients == 40
        assert best.point["lr"] == pytest.approx(BEST["lr"], rel=0.8)

    def test_the_last_few_have_repetitions_that_nothing_was_chosen_by(self, scene):
        search = search_of(scene, 60.0)
        found = search.run()
        assert 1 <= len(found) <= FINALISTS
        assert len(found[0].finals) == REPETITIONS
        expected = [score_of(found[0].candidate, found[0].point, n, found[0].candidate.rounds) for n in (1, 2, 3)]
        assert found[0].finals == pytest.approx(expected)
        values = [arm.value for arm in found if arm.finals]
        assert values == sorted(values, reverse=True)

    def test_it_ends_in_time(self, scene, clock):
        for seconds in (1.0, 20.0):
            search = search_of(scene, seconds)
            began = clock.now
            search.run()
            assert clock.now - began < seconds + 60  # the first choices are tried whatever the time

    def test_told_to_stop_it_answers_with_what_it_has(self, scene):
        search = search_of(scene, 600.0)
        search.stopped = lambda: len(search.arms) >= 3
        found = search.run()
        assert len(search.arms) == 3
        assert found

    @pytest.mark.slow
    def test_the_same_seed_finds_the_same(self, scene):
        one = search_of(scene, 60.0)
        first = [arm.candidate.name for arm in one.run()]
        other = search_of(scene, 60.0)
        assert [arm.candidate.name for arm in other.run()] == first
        pd.testing.assert_frame_equal(one.trials.table(), other.trials.table())

    @pytest.mark.slow
    def test_what_was_measured_before_is_not_measured_again(self, scene):
        first = search_of(scene, 60.0)
        first.run()
        again = search_of(scene, 60.0, known=first.bench.known)
        found = again.run()
        assert found[0].candidate.name == first.ranked()[0].candidate.name
        assert len(again.bench.runs) < len(first.bench.runs) / 4
        assert again.bench.replayed > 0

    @pytest.mark.slow
    def test_every_trial_has_every_column(self, scene):
        search = search_of(scene, 60.0)
        search.run()
        table = search.trials.table()
        assert set(COLUMNS) <= set(table.columns)
        assert (table["client_bits"] <= 4e5).all()
        assert (table["run"] <= table["rounds"]).all()
        last = search.trials.last()
        assert last["trial"].is_unique
        assert len(last) == len(search.arms)

    def test_what_cannot_be_paid_for_is_named_with_the_reason(self):
        problem = hush.tasks.digits(clients=40)
        scene = Scene(problem, problem.population, Budgets(client_bits=1.9e4, rounds=50))  # a plain message is 20,800
        search = search_of(scene, 60.0)
        search.run()
        assert any("do not pay for one message" in reason for reason in search.infeasible)
        assert all(arm.candidate.draft.family != "fedavg" for arm in search.arms.values())

    def test_one_round_is_soon_run_to_its_end_and_no_better_for_that(self):
        """The whole run of a candidate with one round is no later stage than an eighth of another's."""
        problem = hush.tasks.digits(clients=40)
        budgets = Budgets(bits=20_800 * 8.0, rounds=100)  # two plain messages of a tenth of the clients
        search = search_of(Scene(problem, problem.population, budgets), 60.0)
        search.run()
        first = search.ranked()[0]
        assert any(arm.candidate.rounds <= 2 for arm in search.arms.values())
        assert all(first.first >= arm.first - 0.1 for arm in search.arms.values())

    def test_a_candidate_that_diverges_is_no_reason_to_stop(self, scene, monkeypatch):
        monkeypatch.setattr("made_up.score_of", lambda *_: -math.inf)
        search = search_of(scene, 30.0)
        search.run()
        assert len(search.arms) > 1

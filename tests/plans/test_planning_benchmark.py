"""The benchmark of plans: that its grid, the papers' settings and its verdicts are what they say, on a tiny problem."""

import argparse
import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from hush.core.costs import costs
from hush.plans.bench import Bench
from hush.plans.budgets import Budgets, Infeasible
from hush.privacy import EqualClients, describe

# As it is when one of the benchmarks is run.
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import planning
import planning_defaults
import planning_grid
import planning_problems
import planning_random
import planning_runs

pytestmark = pytest.mark.slow  # many small runs, which add up

sys.path.pop(0)

TASK = {"name": "digits", "clients": 10, "set_aside": 0.5, "partition_seed": 0, "model": "softmax"}
TINY = planning_grid.Menu(
    families={"fedpaq": {}, "fedavg": {"coding": ("none",), "clients": (0.2,)}},
    points={"lr": (0.03, 0.3), "decay": (1e-3,), "server_lr": (1.0,)},
    local=("2 x 20",),
    shares=(0.2,),
    codings=("4 elias",),
)


@pytest.fixture(scope="module")
def asked():
    return planning_problems.Asked(1, TASK, Budgets(client_bits=50_000, rounds=12))


@pytest.fixture(scope="module")
def found(asked, tmp_path_factory):
    """The file of a tiny grid, its best setting, and all of them."""
    path = tmp_path_factory.mktemp("grid") / "01-grid.json"
    best, rows = planning_grid.run_grid(asked.scene(), TINY, planning_runs.Kept(path), str)
    return path, best, rows


def test_the_problems_are_those_that_were_asked_for():
    problems = planning_problems.PROBLEMS.values()
    assert len(problems) == 20
    assert Counter(each.kind for each in problems) == {"plain": 9, "client": 7, "example": 4}
    assert Counter(each.task["model"] for each in problems) == {"softmax": 13, "mlp": 7}
    assert len({each.task["partition_seed"] for each in problems}) == 20
    assert {each.budgets.epsilon for each in problems if each.kind == "client"} == {1, 3, 8}
    assert {each.budgets.epsilon for each in problems if each.kind == "example"} == {2, 8}
    assert all(100 <= each.budgets.rounds <= 300 and 20 <= each.task["clients"] <= 500 for each in problems)
    assert all(each.task.get("set_aside") == 0.5 or each.task["name"] == "synthetic" for each in problems)


@pytest.mark.slow
class TestGrid:
    def test_has_every_combination_within_the_budgets(self, asked, found):
        """Two families and two step sizes, of the work that is next to what was asked for; nobody sent too much."""
        _, _, rows = found
        assert len(rows) == 4
        assert {
            (row["family"], row["choices"]["local"], row["choices"]["clients"], row["point"]["lr"]) for row in rows
        } == {(family, "2 x 20", 2, lr) for family in ("fedpaq", "fedavg") for lr in (0.03, 0.3)}
        assert all(0 < row["client_bits"] <= asked.budgets.client_bits for row in rows)
        # A plain message has 32 bits for each of 650 numbers: two of each client, two of ten clients a round.
        assert {row["rounds"] for row in rows if row["family"] == "fedavg"} == {10}

    def test_the_best_is_the_best_of_fresh_seeds(self, found):
        path, best, rows = found
        kept = json.loads(path.read_text())
        assert len(kept["best"]) == min(planning_grid.AGAIN, len(rows))
        assert best.score == max(sum(each["scores"]) / 3 for each in kept["best"])
        assert [row["score"] for row in rows] == sorted((row["score"] for row in kept["settings"]), reverse=True)
        fresh, searched = ({tuple(values) for _, values in kept[name]} for name in ("judged", "searched"))
        assert not fresh & searched

    def test_nothing_is_measured_twice(self, asked, found, monkeypatch):
        """What was kept is run by nobody again."""
        path, best, _ = found
        monkeypatch.setattr(Bench, "_run", lambda *args: pytest.fail("this was measured before"))
        again, rows = planning_grid.run_grid(asked.scene(), TINY, planning_runs.Kept(path), str)
        assert (again.scores, len(rows)) == (best.scores, 4)

    def test_the_costliest_are_thinned_but_never_below_enough(self, monkeypatch):
        monkeypatch.setattr(planning_grid, "LEAST_SETTINGS", 13)
        made = lambda each: planning_grid.Block(None, [{}] * 8, [{}] * 4, each)  # noqa: E731
        blocks = planning_grid.thinned([made(1.0), made(planning_grid.LIMIT), made(2.0)])
        assert [len(block.points) for block in blocks] == [8, 4, 4]
        assert [len(block.points) for block in planning_grid.thinned([made(1.0), made(2.0)])] == [8, 8]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "trust"), [("client", "server"), ("example", "local")])
def test_private_families_run_with_the_noise_of_the_budget(kind, trust):
    """Fewer values of everything, and every family; each with noise, and never with more rounds than were asked for."""
    asked = planning_problems.Asked(7, TASK, Budgets(epsilon=8.0, unit=kind, trust=trust, rounds=6, client_bits=60_000))
    menu = planning_grid.MENUS[kind]
    few = {name: {key: values[:1] for key, values in own.items()} for name, own in menu.families.items()}
    points = {name: values[:1] for name, values in menu.points.items()}
    small = replace(menu, families=few, points=points, local=("2 x 20",), shares=(0.5,), rounds=(3, None))
    best, rows = planning_grid.run_grid(asked.scene(), small, planning_runs.Kept(None), str)
    assert {row["family"] for row in rows} == set(menu.families)
    assert all(row["noise"] > 0 and row["rounds"] <= 6 and row["client_bits"] <= 60_000 for row in rows)
    assert 0 < best.score < 1


class TestJudging:
    @pytest.mark.slow
    def test_fewer_rounds_where_messages_are_longer_than_a_pilot_says(self, asked, monkeypatch):
        """A pilot that tells a tenth of the truth; the run that counts keeps the budget all the same."""
        monkeypatch.setattr(planning_runs, "SPARE", 0.1)
        narrow = planning_problems.Asked(2, TASK, Budgets(client_bits=5_000, rounds=60))
        bench = Bench(narrow.scene(), 7)
        choices = {"local": "2 x 10", "clients": 2, "coding": "4 elias"}
        point = {"lr": 0.1, "decay": 1e-3, "server_lr": 1.0}
        found = planning_runs.judge(bench, planning_runs.Setting("fedpaq", choices, point))
        counted = [measured for key, measured in bench.known.items() if key[-1] == found.rounds]
        assert 1 <= found.rounds < 60
        assert counted
        assert max(measured.most_bits for measured in counted) <= 5_000

    def test_no_more_rounds_than_the_plan_said(self, asked):
        choices = {"local": "2 x 10", "clients": 2, "coding": "none"}
        point = {"lr": 0.1, "decay": 1e-3, "server_lr": 1.0}
        setting = planning_runs.Setting("fedavg", choices, point, most_rounds=3)
        assert planning_runs.judge(Bench(asked.scene(), 7), setting).rounds == 3
        assert planning_runs.judged_from(json.loads(json.dumps({"setting": {
            "family": "fedavg", "choices": choices, "point": point, "most_rounds": 3,
        }, "rounds": 3, "noise": 0.0, "scores": [0.5, 0.7]}))).score == pytest.approx(0.6)  # fmt: skip


class TestDefaults:
    def test_fedpaq_shrinks_its_steps_as_the_paper_does(self, asked):
        bench = Bench(asked.scene(), 7)
        paq, average = planning_defaults.defaults_of(asked, bench)
        for setting in (paq, average):
            draft = setting.draft(bench.scene)
            candidate = planning_runs.admit(bench, draft)
            rule = candidate.at(setting.point).local
            assert rule.steps == 10
            assert [float(rule.lr(k * 10)) for k in (0, 5)] == pytest.approx([0.1, 0.1 / 1.5])
        assert (paq.choices["coding"], average.choices["coding"]) == ("10 dense", "none")

    @pytest.mark.parametrize("unit", ["client", "example"])
    def test_private_ones_spend_what_there_is(self, unit):
        """The ε of the algorithm itself, composed by the accountant, is the budget's."""
        budgets = Budgets(epsilon=6.0, unit=unit, trust={"client": "server", "example": "local"}[unit], rounds=15)
        asked = planning_problems.Asked(3, TASK, budgets)
        bench = Bench(asked.scene(), 7)
        (setting,) = planning_defaults.defaults_of(asked, bench)
        candidate = planning_runs.admit(bench, setting.draft(bench.scene))
        algorithm = candidate.at(setting.point)
        assert candidate.rounds == 15
        assert costs(algorithm, asked.real).client_uplink_bits.most > 0
        clients = EqualClients(10) if unit == "client" else asked.real.population
        epsilon = describe(algorithm, clients, 15, unit=unit, trust=budgets.trust).most(budgets.delta)
        assert 5.9 < epsilon <= 6.0

    def test_what_cannot_be_paid_for_is_left_out(self):
        """A quantised message costs less than a plain one, and a hundred bits are enough for neither."""
        little = planning_problems.Asked(4, TASK, Budgets(client_bits=5_000, rounds=9))
        found = planning_defaults.defaults_of(little, Bench(little.scene(), 7))
        assert [setting.family for setting in found] == ["fedpaq"]
        nothing = planning_problems.Asked(5, TASK, Budgets(client_bits=100, rounds=9))
        assert planning_defaults.defaults_of(nothing, Bench(nothing.scene(), 7)) == []


def test_a_random_search_stays_within_the_menus(asked):
    stage = asked.stage()
    draws = planning_random.random.Random(0)
    for _ in range(20):
        draft, point = planning_random.drawn(stage, draws)
        assert draft.family in ("fedavg", "fedpaq", "fedprox", "scaffold")
        assert all(each.least <= point[each.name] <= each.most for each in draft.coordinates)


@pytest.mark.slow
def test_all_parts_from_end_to_end(asked, tmp_path, monkeypatch, capsys):
    """With a stand-in for the planner: files, table and verdicts."""
    choice = planning_runs.Setting(
        "fedavg", {"local": "2 x 10", "clients": 2, "coding": "none"}, {"lr": 0.1, "decay": 1e-3, "server_lr": 1.0}
    )
    monkeypatch.setattr(planning, "planned", lambda asked, minutes: (choice, 5.0))
    monkeypatch.setattr(planning, "use_cache", lambda choice: None)
    monkeypatch.setattr(planning, "PROBLEMS", {1: asked})
    monkeypatch.setitem(planning.MENUS, "plain", TINY)
    monkeypatch.setattr(sys, "argv", ["planning.py", "--cache", str(tmp_path), "--problems", "1", "--longer", "2"])
    planning.main()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"01-{part}.json" for part in sorted(planning.PARTS)]
    (row,) = [planning.row_of(asked, tmp_path)]
    assert all(0 <= row[part] <= 100 for part in ("grid", "defaults", "plan"))
    printed = capsys.readouterr().out
    assert "within 1.5 points of the best of the grid" in printed
    assert "NOT MET" in printed


class TestVerdicts:
    def rows(self, **changed):
        row = {"plan": 80.0, "grid": 81.0, "defaults": 79.0, "seconds": 170.0, "settings": 200}
        return [dict(row) for _ in range(19)] + [row | changed]

    @pytest.mark.parametrize(
        ("changed", "met"),
        [
            ({}, [20, 20, 20, 20]),
            ({"grid": 81.6}, [19, 20, 20, 20]),
            ({"defaults": 80.0}, [20, 19, 20, 20]),
            ({"seconds": 181.0}, [20, 20, 19, 20]),
            ({"settings": 149}, [20, 20, 20, 19]),
            ({"plan": None}, [19, 19, 19, 20]),
        ],
    )
    def test_count_what_is_so(self, changed, met):
        assert [count for _, count, _, _ in planning.criteria(self.rows(**changed))] == met

    def test_problems_by_their_numbers(self):
        assert planning.numbers("1,2,5-8") == [1, 2, 5, 6, 7, 8]
        with pytest.raises(ValueError, match="numbered 1 to 20"):
            planning.numbers("21")


def test_a_file_of_another_problem_is_refused(asked, tmp_path):
    planning.kept_of(tmp_path, asked, "grid").keep(best=[])
    assert planning.kept_of(tmp_path, asked, "grid").found["best"] == []
    other = planning_problems.Asked(1, TASK | {"partition_seed": 1}, asked.budgets)
    with pytest.raises(ValueError, match="is of another problem"):
        planning.kept_of(tmp_path, other, "grid")


def test_a_choice_that_cannot_be_paid_for_has_failed():
    """A plan whose choice is too dear on the real task is worse than anything, and does not go uncounted."""
    setting = planning_runs.Setting("fedavg", {"local": "2 x 10", "clients": 2, "coding": "none"}, {})
    poor = planning_problems.Asked(8, TASK, Budgets(client_bits=1_000, rounds=9))
    found = planning_runs.judge_or_fail(Bench(poor.scene(), 7), setting)
    assert found.score == -float("inf")
    assert planning_runs.judged_from(json.loads(json.dumps(found.table()))) == found


def test_runs_where_there_is_no_optuna():
    """Only making a plan may ask for it: grid and defaults are made on machines that have it not."""
    program = "import sys; sys.modules['optuna'] = None; import planning"
    folder = Path(planning.__file__).parent
    subprocess.run([sys.executable, "-c", program], cwd=folder, check=True, capture_output=True)


def test_a_random_search_needs_a_plan(asked, tmp_path):
    options = argparse.Namespace(cache=tmp_path, longer=1.0)
    with pytest.raises(SystemExit, match="make the plan first"):
        planning.random_part(asked, planning_runs.Kept(None), options)


def test_too_long_messages_are_refused(asked, monkeypatch):
    """However few rounds there are, budgets that pay for no message are not kept."""
    setting = planning_runs.Setting("fedavg", {"local": "2 x 10", "clients": 2, "coding": "none"}, {})
    poor = planning_problems.Asked(6, TASK, Budgets(client_bits=1_000, rounds=9))
    with pytest.raises(Infeasible, match="do not pay for one message"):
        planning_runs.judge(Bench(poor.scene(), 7), setting)

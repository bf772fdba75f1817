"""Plans from question to answer: the proxy, the answer's settings, the folder, the command."""

import json
import math

import numpy as np
import pytest
from made_up import Clock, MadeUp
from typer.testing import CliRunner

import hush
from hush.app.main import app
from hush.plans import Budgets, plan
from hush.plans.answer import Choice
from hush.plans.families import families_for
from hush.plans.folder import MEASUREMENTS, NETWORK, PAGE, SETTINGS, TRIALS
from hush.plans.scene import Scene
from hush.plans.tuning import listed, of_one_relation, tune
from hush.plans.written import network_tables, run_tables
from hush.privacy import describe
from hush.privacy.selection import Trials, selected
from hush.settings import build, read

pytestmark = pytest.mark.slow  # many small runs, which add up


def slow(*case):
    """A case that is run among the slow tests."""
    return pytest.param(*case, marks=pytest.mark.slow)


@pytest.fixture(scope="module")
def problem():
    return hush.tasks.digits(clients=40)


@pytest.fixture(scope="module")
def proxy():
    return hush.tasks.synthetic(clients=40, features=[8, 8], classes=10, examples_per_client=30, test_examples=200)


@pytest.fixture
def quick(monkeypatch):
    """No measuring: scores are a formula."""
    monkeypatch.setattr("hush.plans.planning.Bench", MadeUp)
    monkeypatch.setattr("hush.plans.search.time", Clock())


def answered(problem, proxy, **asked):
    return plan(problem, proxy, minutes=0.25, progress=False, **({"rounds": 30} | asked))


class TestTheProxy:
    def test_private_data_is_not_looked_at_unasked(self, problem):
        with pytest.raises(ValueError, match="a plan is made on data that is not private"):
            plan(problem, epsilon=1.0, rounds=10, progress=False)

    def test_without_an_epsilon_the_problem_itself_will_do(self, problem, quick):
        assert "no ε was asked for" in answered(problem, None, algorithms=["fedavg"]).proxy

    def test_the_private_problem_is_no_proxy_of_itself(self, problem):
        with pytest.raises(ValueError, match="the proxy is the private problem itself"):
            plan(problem, problem, epsilon=1.0, rounds=10, progress=False)

    def test_it_must_be_of_the_same_sizes(self, problem):
        with pytest.raises(ValueError, match="as many clients as what it stands for, 40, found 20"):
            answered(problem, hush.tasks.digits(clients=20))
        with pytest.raises(ValueError, match="a model as large as the one it stands for"):
            answered(problem, hush.tasks.digits(clients=40, model="mlp"))

    def test_noise_is_for_the_clients_that_matter(self, quick):
        """At example level a client that holds little pays more: the proxy's sizes must not decide."""
        real = hush.tasks.digits(clients=40, power_law=1.5)
        stand_in = hush.tasks.digits(clients=40)
        assert real.population.smallest < stand_in.population.smallest
        best = answered(real, stand_in, epsilon=4.0, unit="example").best[0]
        assert best.epsilon <= 4.0
        algorithm, draft = best.algorithm, best.candidate.draft
        turns = math.ceil(best.candidate.rounds * draft.clients / 40)
        assert describe(algorithm, real, turns, unit="example").most(1e-5) <= 4.0


class TestTheAnswer:
    @pytest.mark.parametrize(
        ("asked", "names"),
        [
            slow({"client_bits": 3e5}, ["fedpaq"]),
            slow({"bits": 3e6}, ["scaffold"]),
            slow({"seconds": 10.0, "capacity": 3e5}, ["fedprox"]),
            ({"client_bits": 3e5, "epsilon": 4.0}, ["dp_fedavg"]),
            slow({"epsilon": 4.0}, ["dp_fedavg adaptive"]),
            slow({"epsilon": 4.0}, ["dp_fedavg correlated"]),
            slow({"epsilon": 4.0, "trust": "sum"}, None),
            slow({"client_bits": 3e5, "epsilon": 4.0, "unit": "example"}, None),
        ],
    )
    def test_its_settings_run_and_keep_the_budgets(self, problem, proxy, quick, asked, names):
        found = answered(problem, proxy, algorithms=names, **asked)
        tables = run_tables(found.scene, found.best[0], problem)
        experiment = build(json.loads(json.dumps(tables)))  # as a file would hold them
        result = hush.run(experiment.algorithm, problem, **experiment.run.keywords(), progress=False)
        assert result.status["round"] == found.best[0].candidate.rounds
        if "client_bits" in asked:
            assert result.clients["uplink_bits"].max() <= asked["client_bits"]
        if "bits" in asked:
            assert result.clients["uplink_bits"].sum() <= asked["bits"]
        if "epsilon" in asked:
            assert result.status["privacy"]["epsilon"] <= asked["epsilon"]
            assert found.best[0].epsilon == pytest.approx(result.status["privacy"]["epsilon"], rel=1e-3)

    @pytest.mark.slow
    def test_what_is_left_over(self, problem, proxy, quick):
        found = answered(problem, proxy, client_bits=3e5, client_steps=200, algorithms=["fedpaq"])
        left = {name: (had, spent) for name, had, spent in found.left_over()}
        assert set(left) == {"client_bits", "client_steps", "rounds"}
        assert all(0 < spent <= had for had, spent in left.values())

    def test_the_interval_is_students(self):
        choice = Choice(0, None, {}, (0.5, 0.6, 0.7), 0, 0, 0, math.nan, None)
        low, high = choice.interval
        assert (low + high) / 2 == pytest.approx(0.6)
        assert high - 0.6 == pytest.approx(4.3027 * 0.1 / math.sqrt(3), rel=1e-4)  # t of two degrees of freedom
        assert Choice(0, None, {}, (0.5,), 0, 0, 0, math.nan, None).interval == (-math.inf, math.inf)

    @pytest.mark.slow
    @pytest.mark.parametrize("asked", [{"epsilon": 4.0}, {"epsilon": 4.0, "unit": "example"}, {"client_bits": 3e5}])
    def test_for_the_network_noise_is_on_a_grid(self, problem, proxy, quick, asked):
        names = ["dp_fedavg"] if asked.get("unit", "client") == "client" and "epsilon" in asked else None
        found = answered(problem, proxy, algorithms=names, **asked)
        experiment = build(network_tables(found.scene, found.best[0], problem))
        if "epsilon" in asked:
            draft = found.best[0].candidate.draft
            turns = found.best[0].candidate.rounds
            if asked.get("unit") == "example":
                turns = math.ceil(turns * draft.clients / 40)
            described = describe(experiment.algorithm, problem, turns, unit=asked.get("unit", "client"))
            releases = [
                release for phase in described.phases for each in phase.releases.values() for release, _ in each
            ]
            assert {release.law for release in releases} == {"discrete gaussian"}
            assert described.most(1e-5) <= 4.0


class TestOverTheAir:
    CHANNEL = hush.channel.OverTheAir(hush.channel.FullPower(), hush.channel.Constant(1.0), 5.0, 100.0)

    def test_a_plan_where_there_is_a_channel(self, problem, proxy, quick, tmp_path):
        found = answered(
            problem, proxy, channel=self.CHANNEL, energy=500.0, folder=tmp_path, algorithms=["over_the_air"]
        )
        best = found.best[0]
        assert best.energy <= 500.0
        assert best.bits == 0
        result = hush.run(best.algorithm, problem, best.candidate.rounds, progress=False)
        assert result.records["energy"].iloc[-1] <= 500.0

    def test_its_epsilon_is_that_of_who_sends_most_often(self, problem, proxy, quick):
        found = answered(problem, proxy, channel=self.CHANNEL, epsilon=30.0, trust="air")
        best = found.best[0]
        result = hush.run(best.algorithm, problem, best.candidate.rounds, unit="client", trust="air", progress=False)
        assert result.status["privacy"]["epsilon"] <= best.epsilon * (1 + 1e-9) <= 30.0

    def test_who_is_drawn_at_random_may_come_in_every_round(self, problem, proxy, quick):
        """Without a budget of each client's own, cohorts are uniform: what one may send is no mean."""
        best = answered(problem, proxy, bits=5e6, algorithms=["fedavg"]).best[0]
        if best.candidate.draft.clients < 40:
            assert best.client_bits == best.candidate.rounds * best.candidate.bits
        result = hush.run(best.algorithm, problem, best.candidate.rounds, progress=False)
        assert result.clients["uplink_bits"].max() <= best.client_bits


class TestTheFolder:
    def test_it_holds_the_answer(self, problem, proxy, quick, tmp_path):
        found = answered(problem, proxy, client_bits=3e5, epsilon=4.0, folder=tmp_path)
        for name in (MEASUREMENTS, TRIALS, SETTINGS, PAGE):
            assert (tmp_path / name).is_file()
        assert (tmp_path / NETWORK).is_file() or "network" in found.findings
        assert build(read(tmp_path / SETTINGS)).run.epsilon == 4.0
        assert "<html" in (tmp_path / PAGE).read_text()

    @pytest.mark.slow
    def test_it_goes_on_from_what_was_measured(self, problem, quick, tmp_path):
        first = answered(problem, None, folder=tmp_path, algorithms=["fedavg"])
        lines = (tmp_path / MEASUREMENTS).read_text().splitlines()
        (tmp_path / MEASUREMENTS).write_text("\n".join(lines) + '\n{"key": ["cut o')  # killed while it wrote
        again = answered(problem, None, folder=tmp_path, algorithms=["fedavg"], resume=True)
        assert again.best[0].candidate.name == first.best[0].candidate.name
        assert again.best[0].scores == first.best[0].scores

    @pytest.mark.slow
    def test_another_plan_is_not_gone_on_with(self, problem, quick, tmp_path):
        answered(problem, None, folder=tmp_path, algorithms=["fedavg"])
        with pytest.raises(ValueError, match=r"holds another plan: different are .*client_bits"):
            answered(problem, None, folder=tmp_path, algorithms=["fedavg"], client_bits=1e5, resume=True)
        with pytest.raises(ValueError, match="already holds a plan"):
            answered(problem, None, folder=tmp_path, algorithms=["fedavg"])

    def test_what_is_no_plan_is_left_alone(self, problem, quick, tmp_path):
        (tmp_path / "thesis.tex").write_text("years of work")
        with pytest.raises(ValueError, match=r"holds thesis\.tex, which no plan wrote"):
            answered(problem, None, folder=tmp_path, replace=True)
        with pytest.raises(ValueError, match="holds no plan to resume"):
            answered(problem, None, folder=tmp_path / "new", resume=True)


class TestTuning:
    def test_only_neighbours_of_one_kind(self, problem):
        scene = Scene(problem, problem.population, Budgets(rounds=10, epsilon=4.0))
        assert set(of_one_relation(families_for(scene))) == {"dp_fedavg", "dp_fedavg adaptive"}

    def test_candidates_are_drawn_before_the_data_is_looked_at(self, problem):
        scene = Scene(problem, problem.population, Budgets(rounds=10, epsilon=4.0))
        names = [
            [each.name for each, _ in listed(scene, families_for(scene), 5, np.random.default_rng(3))] for _ in range(2)
        ]
        assert names[0] == names[1]

    @pytest.mark.parametrize("unit", ["client", "example"])
    def test_all_of_it_is_within_the_budget(self, problem, monkeypatch, unit):
        monkeypatch.setattr("hush.plans.tuning.Bench", MadeUp)
        budgets = Budgets(rounds=10, epsilon=4.0, delta=1e-3, unit=unit)
        trials = Trials("geometric", 3.0)
        found = tune(problem, budgets=budgets, trials=trials, candidates=4)
        assert found.alone < found.epsilon <= 4.0
        assert found.growth > 1
        # The best of K runs and one more, of the choice alone: no more than what was printed for all candidates.
        assert selected([found.description], 1e-3, trials, again=1) <= found.epsilon + 1e-9
        assert selected([found.description], 1e-3, trials, again=1) > selected([found.description], 1e-3, trials)
        experiment = build(found.tables())
        assert experiment.run.epsilon == pytest.approx(found.alone, rel=1e-3)
        described = describe(experiment.algorithm, problem, found.candidate.rounds, unit=unit)
        assert described.first.unit == unit

    def test_it_is_paid_for_in_epsilon(self, problem):
        with pytest.raises(ValueError, match="paid for in ε"):
            tune(problem, budgets=Budgets(rounds=10))


class TestTheCommand:
    def asked(self, tmp_path, text, *options):
        file = tmp_path / "task.toml"
        file.write_text(text)
        return CliRunner().invoke(app, ["plan", str(file), "--out", str(tmp_path / "plan"), *options])

    TASK = '[task]\nname = "digits"\nclients = 40\nset_aside = 0.4\n'

    def test_it_answers(self, tmp_path, quick):
        text = self.TASK + '[proxy]\nuse = "set-aside"\n[plan]\nrounds = 20\nminutes = 0.02\n'
        found = self.asked(tmp_path, text, "--bits-per-client", "3e5", "--epsilon", "4", "-q")
        assert found.exit_code == 0, found.output
        assert "left over" in found.output
        assert "hush run" in found.output
        assert build(read(tmp_path / "plan" / SETTINGS)).run.client_bit_budget == 3e5

    @pytest.mark.parametrize(
        ("text", "options", "said"),
        [
            (TASK, ["--epsilon", "1", "--rounds", "9"], "data that is not private"),
            (TASK + "[algorithm]\n", ["--rounds", "9"], "unknown table of a plan's file"),
            (TASK, [], "needs a budget that ends a run"),
            (TASK, ["--bits-per-client", "10"], "the least would be"),
            (TASK, ["--rounds", "9", "--algorithms", "fedsgd"], "no algorithm 'fedsgd'"),
            (TASK + "[plan]\nbitz = 3\n", ["--rounds", "9"], "bitz"),
            (TASK, ["--rounds", "9", "--energy", "3"], "needs the channel"),
            (TASK, ["--rounds", "9", "--proxy", "imagenet"], "unknown proxy"),
            (TASK, ["--rounds", "9", "--epsilon", "1", "--private-data", "--resume"], "found it with --private-data"),
            (TASK + '[plan]\nalgorithms = "fedavg"\n', ["--rounds", "9"], "plan.algorithms"),
        ],
    )
    def test_bad_input_is_told(self, tmp_path, text, options, said):
        found = self.asked(tmp_path, text, *options)
        assert found.exit_code == 2
        assert said in " ".join(found.output.split())

    def test_private_data_costs(self, tmp_path, monkeypatch):
        monkeypatch.setattr("hush.plans.tuning.Bench", MadeUp)
        monkeypatch.setattr("hush.plans.tuning.CANDIDATES", 3)
        found = self.asked(tmp_path, self.TASK, "--epsilon", "4", "--delta", "1e-3", "--rounds", "10", "--private-data")
        assert found.exit_code == 0, found.output
        text = (tmp_path / "plan" / SETTINGS).read_text()
        assert text.startswith("# ε = ")
        assert "covers the tuning on the private data" in found.output
        again = self.asked(tmp_path, self.TASK, "--epsilon", "4", "--rounds", "10", "--private-data")
        assert again.exit_code == 2

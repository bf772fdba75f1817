"""Tables 2 and 3 of the clipping paper at their own settings: criteria that were written before the runs, and cases."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hush.app.paper import reproduce
from hush.models.products import on_any_backend
from hush.models.wrap import precision_of
from hush.papers.clipping import criteria, fair
from hush.papers.clipping import lab as laboratory
from hush.papers.clipping.kept import Kept
from hush.papers.clipping.lab import Case, ClippingLab
from hush.papers.intervals import interval
from hush.papers.keeping import Runs


def records(*curves):
    rows = [(seed, 5 * place, value) for seed, curve in enumerate(curves) for place, value in enumerate(curve)]
    return pd.DataFrame(rows, columns=["repetition", "round", "accuracy"])


def test_a_verdict_on_three_drops():
    """The interval by hand: Student's 4.303 for two degrees of freedom, times the deviation over √3."""
    drops = np.array([3.0, 3.5, 4.0])
    assert interval(drops) == pytest.approx(
        (3.5 - 4.3027 * 0.5 / np.sqrt(3), 3.5 + 4.3027 * 0.5 / np.sqrt(3)), rel=1e-4
    )
    assert criteria.verdict(drops, 3.76, True) == "holds"
    assert criteria.verdict(drops, 0.29, True) == "refuted"
    assert criteria.verdict(np.array([0.0, 3.0, 6.0]), 0.29, True) == "cannot be told"
    assert criteria.verdict(drops, 0.29, False).startswith("no verdict")


def test_final_best_and_settled():
    rising, flat = np.linspace(0.1, 0.6, 11), np.r_[np.linspace(0.1, 0.9, 5), np.full(10, 0.95)]
    table = criteria.final_and_best(records(rising, rising[::-1]))
    assert table["final"].tolist() == pytest.approx([50.0, 20.0])
    assert table["best"].tolist() == pytest.approx([60.0, 60.0])
    assert criteria.settled(records(flat))
    assert not criteria.settled(records(rising))


def test_concentration_and_the_law_of_noise():
    draws = np.random.default_rng(0)
    each = lambda spread: pd.DataFrame(  # noqa: E731
        {
            "repetition": np.repeat(np.arange(3), 600),
            "round": np.tile(np.repeat(np.arange(30), 20), 3),
            "local_norm": 1 + spread * draws.normal(size=1800),
        }
    )
    assert criteria.more_concentrated(each(0.05), each(0.2)) == "holds"
    assert criteria.more_concentrated(each(0.1), each(0.1)) == "cannot be told"
    assert criteria.more_concentrated(each(0.2), each(0.05)) == "does not hold"
    assert criteria.slope([1.0, 2.0, 4.0], [3.0, 12.0, 48.0]) == pytest.approx(2.0)
    smaller, larger = map(float, criteria.spreads(each(0.05), each(0.2)).removeprefix("spread ").split(" and "))
    assert smaller == pytest.approx(0.05, rel=0.05)
    assert larger == pytest.approx(0.2, rel=0.05)


def test_cases_are_the_papers(tmp_path):
    case = fair.table_3_case("resnet18")
    assert (case.population, case.clients, case.examples, case.steps, case.batch) == (1920, 80, 125, 32, 64)
    assert {fair.table_3_case(model).rounds for model in fair.GUESSES} == {criteria.ROUNDS}
    cifar = fair.table_2_case("alexnet", "cifar10", False)
    assert (cifar.examples, cifar.iid) == (50, True)
    # What is new in a case changes no mark of those that go without it.
    assert Case().marks == "8edf1d56"
    assert replace(Case(), seeds=3).marks != Case().marks
    with on_any_backend():
        small = {"data": "digits", "clients": 6, "population": 24, "examples": 50}
        made = {model: replace(fair.table_3_case(model), **small).problem() for model in ("mlp", "mobilenet_v2")}
    assert {model: precision_of(problem.model) for model, problem in made.items()} == {
        "mlp": "float32",
        "mobilenet_v2": "bfloat16",
    }
    lab = ClippingLab(runs=Runs(tmp_path, say=str))
    for experiment in fair.FAIR.experiments.values():
        section = experiment(lab)
        assert (list(section.tables), list(section.claims), list(section.pictures)) == ([], [], [])
        assert "need a GPU" in section.text  # nothing is run without one


class Sitting:
    """Runs as a sitting on a GPU leaves them that ended early: of ResNet-18 with the paper's ε alone."""

    def __init__(self):
        self.asked = []

    def __call__(self, case):
        self.asked.append((case.model, case.epsilon))
        if case.model != "resnet18" or case.epsilon == 1.5:
            raise laboratory.NotHere(case.name)
        level = 0.9 - 0.03 * (case.epsilon is not None) - (0.1 if case.held_out and case.lr != 0.05 else 0.0)
        curve = np.full(20, level)
        status = {"status": "finished", "dimension": 11_172_810}
        return Kept(records(curve, curve + 0.001, curve - 0.001), pd.DataFrame(), status)

    def clipped(self, case):
        return replace(case, clip=0.3)


def test_what_decides_is_run_first_and_shown_alone():
    lab = Sitting()
    section = fair.fair_table_three(lab)
    assert {model for model, _ in lab.asked[:3]} == {"resnet18"}
    assert [epsilon for _, epsilon in lab.asked if epsilon][:2] == [5.0, 5.0]
    ((_, table),) = section.tables
    assert (table["ε"].tolist(), table["lr"].tolist(), table["DP drop"].tolist()) == ([5.0], ["0.05"], [3.0])
    assert [claim.verdict for claim in section.claims] == ["holds"]


def test_a_step_size_at_the_end_of_its_grid_is_called_that():
    humped = lambda case: Kept(records(np.full(20, 1 - abs(case.lr - 0.8))), pd.DataFrame(), {"status": ""})  # noqa: E731
    assert fair._step_size(humped, fair.table_3_case("mlp")) == "0.9"
    rising = lambda case: Kept(records(np.full(20, case.lr)), pd.DataFrame(), {"status": ""})  # noqa: E731
    assert fair._step_size(rising, fair.table_3_case("mlp")) == "24.3, at the end of the grid"


def test_there_is_no_quick_trial_of_it(tmp_path):
    with pytest.raises(ValueError, match="no trial in seconds"):
        reproduce("clipping-fair", None, True, tmp_path, tmp_path / "kept")


class Shortened(ClippingLab):
    """Cases in seconds, by the code of the long ones."""

    def shrunk(self, case):
        small = {"model": "softmax", "data": "digits", "population": 24, "clients": 6, "examples": 50}
        return replace(case, **small, steps=8, batch=16, rounds=20)

    def keeps(self, case):
        return super().keeps(self.shrunk(case))


@pytest.mark.slow
def test_what_is_published_of_long_runs_gives_the_same_page_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(fair, "MODELS", ("mlp",))
    monkeypatch.setattr(laboratory, "HOUR", ("softmax",))
    here = Shortened(runs=Runs(tmp_path / "here", say=str, long=True, published=tmp_path / "page"))
    sections = [fair.fair_table_three(here), fair.noise_law(here)]
    said = []
    there = Shortened(runs=Runs(tmp_path / "there", say=said.append, published=tmp_path / "page"))
    again = [fair.fair_table_three(there), fair.noise_law(there)]
    assert said == []  # no run was made
    for one, other in zip(sections, again, strict=True):
        assert (one.text, one.claims) == (other.text, other.claims)
        pd.testing.assert_frame_equal(one.tables[0][1], other.tables[0][1])
    (claim,) = sections[0].claims
    assert claim.verdict.endswith(criteria.UNSETTLED) == (sections[0].tables[0][1]["settled"][0] == "no")
    next((tmp_path / "page").glob("*6of24-dp*/status.json")).unlink()
    assert fair.fair_table_three(Shortened(runs=Runs(tmp_path / "there", published=tmp_path / "page"))).tables == []
    assert [path.suffix for path in (tmp_path / "page").rglob("*") if path.is_file()].count(".npz") == 0

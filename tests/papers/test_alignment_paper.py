"""The alignment paper: quickly on the embedded digits; its settings, and verdicts that follow from numbers."""

import numpy as np
import pytest
from scipy import stats

from hush.app import paper
from hush.papers.alignment.digital import digital
from hush.papers.alignment.lab import SCHEMES, SETTINGS, AlignmentLab, Trial
from hush.papers.alignment.page import at_least_as_good, claims_of
from hush.papers.intervals import interval
from hush.papers.keeping import Runs


@pytest.mark.slow
def test_the_figures_quickly(tmp_path):
    paper.reproduce("alignment", None, True, tmp_path, tmp_path / "kept")
    page = (tmp_path / "alignment.md").read_text()
    for part in ("Figure 2: homogeneous clients", "Figure 3: near and far clients", "alignment is worst", "a trial of"):
        assert part in page
    assert {path.stem for path in (tmp_path / "alignment").glob("*.png")} == {
        f"figure-{number}-{kind}-L1" for number in (2, 3) for kind in ("printed", "best")
    }


def test_the_papers_settings():
    near, far = SETTINGS["heterogeneous"]["fading"].first, SETTINGS["heterogeneous"]["fading"].second
    assert (near.mean, near.variance, far.mean, far.variance) == (1.0, 0.01, 0.004, 1e-6)
    assert SETTINGS["heterogeneous"]["decibel"] == (20.0,) * 5 + (0.0,) * 5
    assert (SETTINGS["homogeneous"]["fading"].mean, SETTINGS["homogeneous"]["decibel"]) == (0.5, 5.0)
    assert len(SCHEMES) == 5


@pytest.mark.slow
def test_analogue_and_digital_have_the_same_channel_and_energy():
    """The capacity a second way: with so little power it is the energy that arrives over 2 ln 2 · N0."""
    lab = AlignmentLab(quick=True, runs=Runs(say=str))
    section = digital(lab)
    trial = Trial("full power", "homogeneous")
    uses = lab.records(trial, [lab.tuned(trial).rate], lab.reported)["channel_uses"].max()
    assert f"{uses:,.0f} real uses" in section.text
    energy = lab.rounds * 10 * 10**0.5 * (0.5**2 + 0.01)
    said = float(section.text.split("it can send ")[1].split(" bits")[0].replace(",", ""))
    assert said == pytest.approx(energy / (2 * np.log(2)), rel=0.02, abs=0.5)
    assert section.claims[0].verdict in ("holds", "does not hold")


def test_verdicts_follow_from_numbers():
    """Five repetitions; the schemes' own deviations make intervals of a difference of about a point each way."""
    own = np.array([[1, -1, 0, 0, 0], [0, 1, -1, 0, 0], [0, 0, 1, -1, 0], [0, 0, 0, 1, -1], [-1, 0, 0, 0, 1]]) * 0.6
    shared = np.array([-12.0, -5.0, 0.0, 5.0, 12.0])  # of a repetition: no difference has it
    of = lambda *means: dict(zip(SCHEMES, np.array(means)[:, None] + own + shared, strict=True))  # noqa: E731
    printed, best = of(10, 50, 50.5, 60, 51), of(10, 90, 90, 88, 91.6)
    places = {"at the printed η": printed, "at the best η": best}
    worst, alike, top = claims_of("heterogeneous", "here", places)
    assert worst.verdict == "holds"
    assert alike.verdict == "holds: at the printed η. cannot be told: at the best η"  # 1.6 points, give or take 0.74
    assert top.verdict == "holds: at the printed η. does not hold: at the best η"
    surer = {name: 90 + 0.1 * (values - 90) for name, values in best.items() if name != "alignment"}
    assert claims_of("heterogeneous", "here", {"surely": surer})[0].verdict == "holds"
    first, second = claims_of("homogeneous", "here", places)
    assert (first.verdict, second.verdict) == ("holds", "does not hold")
    del best["biased, r = 2"]
    assert claims_of("heterogeneous", "here", {"at the best η": best})[-1].text.startswith("here: least squares")
    mean, error = np.mean(own[0] - own[1]), np.std(own[0] - own[1], ddof=1) / np.sqrt(5)
    ends = stats.t.interval(0.95, 4, mean, error)
    assert interval(own[0] - own[1]) == pytest.approx(ends)
    least = lambda mean: {"least squares": mean + 2 * own[0], "full power": 50 + 2 * own[1]}  # noqa: E731
    found = [at_least_as_good(least(mean)) for mean in (49.9, 49.0, 48.0)]  # give or take 1.8
    assert found == ["holds", "cannot be told", "does not hold"]


def test_every_search_begins_somewhere():
    guesses = {Trial("full power", "homogeneous", bound=L, noise_variance=N0).guess for L in (0.1, 1) for N0 in (1, 4)}
    assert sorted(guesses) == pytest.approx([0.02, 0.04, 0.2, 0.4])

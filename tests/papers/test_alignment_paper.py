"""The alignment paper: quickly on the embedded digits; its settings, and verdicts that follow from numbers."""

import numpy as np
import pytest

from hush.app import paper
from hush.papers.alignment.digital import digital
from hush.papers.alignment.lab import SCHEMES, SETTINGS, AlignmentLab, Trial
from hush.papers.alignment.page import at_least_as_good, claims_of, difference
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
    """Five repetitions with a deviation of about a point: standard errors of a difference are about 0.7."""
    spread = np.array([-1.2, -0.5, 0.0, 0.5, 1.2])
    printed = dict(zip(SCHEMES, (10 + spread, 50 + spread, 50.5 + spread, 60 + spread, 51 + spread), strict=True))
    best = dict(zip(SCHEMES, (10 + spread, 90 + spread, 90 + spread, 89 + spread, 91 + spread), strict=True))
    places = {"at the printed η": printed, "at the best η": best}
    worst, alike, top = claims_of("heterogeneous", "here", places)
    assert (worst.verdict, alike.verdict) == ("holds", "cannot be told")  # 1 point, give or take 1.16
    assert top.verdict == "holds: at the printed η. does not hold: at the best η"
    surer = {name: 90 + 0.1 * (values - 90) for name, values in best.items() if name != "alignment"}
    assert claims_of("heterogeneous", "here", {"surely": surer})[0].verdict == "holds"
    first, second = claims_of("homogeneous", "here", places)
    assert (first.verdict, second.verdict) == ("holds", "does not hold")
    del best["biased, r = 2"]
    assert claims_of("heterogeneous", "here", {"at the best η": best})[-1].text.startswith("here: least squares")
    assert difference(52 + spread, 50 + spread) == pytest.approx((2 - 1.163, 2 + 1.163), abs=1e-3)
    assert at_least_as_good({"least squares": 49 + spread, "full power": 50 + spread}) == "cannot be told"
    assert at_least_as_good({"least squares": 48 + spread, "full power": 50 + spread}) == "does not hold"


def test_every_search_begins_somewhere():
    guesses = {Trial("full power", "homogeneous", bound=L, noise_variance=N0).guess for L in (0.1, 1) for N0 in (1, 4)}
    assert sorted(guesses) == pytest.approx([0.02, 0.04, 0.2, 0.4])

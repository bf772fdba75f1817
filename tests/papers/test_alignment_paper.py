"""The alignment paper: quickly on the embedded digits; its settings, and verdicts that follow from numbers."""

import numpy as np
import pandas as pd
import pytest

from hush.app import paper
from hush.papers.alignment.page import SCHEMES, SETTINGS, AlignmentLab, Trial, _claims, digital


@pytest.mark.slow
def test_the_figures_quickly(tmp_path):
    paper.reproduce("alignment", None, True, tmp_path)
    page = (tmp_path / "alignment.md").read_text()
    for part in ("Figure 2: homogeneous clients", "Figure 3: near and far clients", "alignment is worst", "a trial of"):
        assert part in page
    assert {path.stem for path in (tmp_path / "alignment").glob("*.png")} == {"figure-2", "figure-3"}


def test_the_papers_settings():
    near, far = SETTINGS["heterogeneous"]["fading"].first, SETTINGS["heterogeneous"]["fading"].second
    assert (near.mean, near.variance, far.mean, far.variance) == (1.0, 0.01, 0.004, 1e-6)
    assert SETTINGS["heterogeneous"]["decibel"] == (20.0,) * 5 + (0.0,) * 5
    assert (SETTINGS["homogeneous"]["fading"].mean, SETTINGS["homogeneous"]["decibel"]) == (0.5, 5.0)
    assert len(SCHEMES) == 5


@pytest.mark.slow
def test_analogue_and_digital_have_the_same_channel_and_energy():
    """The capacity a second way: with so little power it is the energy that arrives over 2 ln 2 · N0."""
    lab = AlignmentLab(quick=True, say=str)
    section = digital(lab)
    uses = lab.records(Trial("full power", "homogeneous"))["channel_uses"].max()
    assert f"{uses:,.0f} real uses" in section.text
    energy = lab.rounds * 10 * 10**0.5 * (0.5**2 + 0.01)
    said = float(section.text.split("it can send ")[1].split(" bits")[0].replace(",", ""))
    assert said == pytest.approx(energy / (2 * np.log(2)), rel=0.02, abs=0.5)
    assert section.claims[0].verdict in ("holds", "does not hold")


def test_verdicts_follow_from_numbers():
    names = list(SCHEMES)
    table = pd.DataFrame({"η = 0.01": [10.0, 50, 50.5, 60, 51], "best %": [10.0, 90, 90, 89, 91]}, index=names)
    worst, alike, best = _claims(table, "heterogeneous", True)
    assert (worst.verdict, alike.verdict) == ("holds", "holds")
    assert best.verdict == "only when at the paper's η"
    first, second = _claims(table, "homogeneous", True)
    assert first.verdict == "holds"
    assert second.verdict == "does not hold"
    with pytest.raises(KeyError):
        _claims(table.drop(index="alignment"), "homogeneous", True)

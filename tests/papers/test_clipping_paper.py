"""The clipping paper: quickly on the embedded digits, its settings, and runs that are kept and gone on with."""

from dataclasses import replace

import pandas as pd
import pytest

from hush.app import paper
from hush.papers.clipping.lab import HALF, Case, ClippingLab
from hush.papers.clipping.page import TABLE_2, _clipping_claims
from hush.papers.clipping.private import TABLE_3, _private_claims
from hush.papers.keeping import Runs
from hush.privacy import describe


@pytest.mark.slow
def test_the_whole_paper_quickly(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paper.reproduce("clipping", None, True, tmp_path / "out", tmp_path / "kept")
    page = (tmp_path / "out" / "clipping.md").read_text()
    for part in ("Table 1: points at rest", "| 1000 | 1.444 | 0.6667 | 0.5 | 0.5 | 0.5 |", "Table 2", "Table 3"):
        assert part in page
    for claim in ("model clipping cannot reach", "with many local steps", "with one local step"):
        assert f"{claim}" in page
    assert page.count("| holds |") >= 3
    pictures = {path.stem for path in (tmp_path / "out" / "clipping").glob("*.png")}
    assert pictures == {"updates-mlp-mnist", "figure-3"}


def test_the_papers_settings():
    case = Case()
    assert (case.steps, case.batch, case.population / case.clients) == (32, 64, 24)
    assert case.algorithm().uplink[0].bound > 1e8
    large = replace(case, clients=80, population=1920, clip=0.3, epsilon=1.5)
    assert large.noise_multiplier < 1.53  # the reference is by Rényi divergences alone
    made = large.algorithm()
    assert made.channel.std == pytest.approx(large.noise_multiplier * 0.3 / 80)
    assert (len(TABLE_2), len(TABLE_3)) == (4, 4)


@pytest.mark.slow
def test_the_bound_is_half_the_mean_and_the_epsilon_is_kept(tmp_path):
    said = []
    lab = ClippingLab(quick=True, runs=Runs(tmp_path, say=said.append))
    case = Case()
    bound = lab.clipped(case).clip
    assert bound == pytest.approx(HALF * lab(case).updates["local_norm"].mean(), rel=1e-2)
    assert len(said) == 1
    private = replace(lab.clipped(case), epsilon=1.5)
    kept = lab(private)
    assert kept.final("epsilon") <= 1.5
    shrunk = lab.shrunk(private)
    found = describe(shrunk.algorithm(), shrunk.problem(), shrunk.rounds).spent((shrunk.rounds,), 50, 1e-5)
    assert kept.final("epsilon") == pytest.approx(found.epsilon)
    # Another lab finds the run in its folder.
    again = ClippingLab(quick=True, runs=Runs(tmp_path, say=said.append))
    pd.testing.assert_frame_equal(again(private).records, kept.records)
    assert len(said) == 2


def test_large_models_wait_for_a_gpu(tmp_path):
    lab = ClippingLab(runs=Runs(tmp_path))
    assert lab.can(Case(model="mlp"))
    assert not lab.can(Case(model="resnet18"))
    folder = tmp_path / Case(model="resnet18").name
    folder.mkdir()
    (folder / "status.json").write_text('{"status": "finished"}')
    assert lab.can(Case(model="resnet18"))


def test_verdicts_follow_from_numbers():
    table = pd.DataFrame(
        {
            "model": ["AlexNet", "ResNet-18"],
            "data": ["MNIST"] * 2,
            "drop, i.i.d.": [0.1, 0.2],
            "drop, mixture": [3.0, 0.1],
        }
    )
    (found,) = _clipping_claims(table)
    assert found.verdict == "in 1 of 2: AlexNet on MNIST"
    private = pd.DataFrame({"model": ["A", "B", "C"], "P of N": ["1 of 2"] * 3, "d": [1, 2, 3], "DP drop": [1, 2, 30]})
    assert _private_claims(private, "MNIST")[0].verdict == "in 2 of 3: A (1 of 2); B (1 of 2)"
    diverged = _private_claims(private.assign(**{"DP drop": [1, 2, float("nan")]}), "MNIST")[0]
    assert "C (1 of 2): diverged" in diverged.evidence

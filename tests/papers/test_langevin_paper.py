"""The Langevin paper: quickly in two dimensions and on digits; its settings; verdicts that follow from numbers."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hush.app import paper
from hush.papers.fa_ld.checks import temperature_of, z_scores
from hush.papers.fa_ld.images import _claims
from hush.papers.fa_ld.lab import LangevinLab, Setting, Walk, first_within
from hush.papers.fa_ld.private import _by_theorem


@pytest.fixture(scope="module")
def lab():
    return LangevinLab(quick=True, say=str)


@pytest.mark.slow
def test_the_figures_quickly(tmp_path):
    """The claim that simulated moments are the exact ones is in the page: here it must hold (fixed seed)."""
    paper.reproduce("fa-ld", None, True, tmp_path)
    page = (tmp_path / "fa-ld.md").read_text()
    for part in (
        "Figure 1 (b): heterogeneity",
        "Figure 2: partial participation",
        "Figure 3: without warm-up",
        "a trial of",
    ):
        assert part in page
    verdict = next(line for line in page.splitlines() if line.startswith("| the simulated moments are those"))
    assert "| holds |" in verdict
    assert (tmp_path / "fa-ld" / "figure-1de.png").exists()


def test_the_papers_target(lab):
    """Section 7.1: Σ/n with n = 50,000; γ² of about 1e8 at α = 0 and 4e14 at α = 1000."""
    problem = lab.target(Setting())
    np.testing.assert_allclose(problem.covariance * 50_000, [[5, -2], [-2, 1]], rtol=1e-5)
    for alpha, printed in ((0.0, 1e8), (1000.0, 4e14)):
        target = lab.exact_target(Setting(heterogeneity=alpha))
        pulls = np.einsum("cij,cj->ci", target.hessians, target.mode - target.means)
        assert 0.3 < (np.linalg.norm(pulls, axis=1).max() ** 2) / printed < 3


def test_distances_know_the_exact_law(lab):
    """Far from the start the exact distance is the one that the recursion settles at; K changes nothing of it here."""
    setting = Setting(steps=100)
    walk = Walk(np.array([1, 200]), np.zeros((2, lab.chains, 2)))
    table = lab.distances(setting, walk)
    assert table["exact"][1] == pytest.approx(lab.settled(setting), rel=1e-3)
    assert lab.settled(setting) == pytest.approx(lab.settled(replace(setting, steps=7)), rel=1e-6)
    assert first_within(table, "exact", 1e-3) == 200
    assert first_within(table, "exact", 1e-9) == np.inf


def test_z_scores_are_standard_normal_where_the_law_is_right():
    """1,000 sets of 300 draws: each score has mean 0 and variance 1 within 5 standard errors of these."""
    draws, covariance = np.random.default_rng(0), np.array([[2.0, -0.5], [-0.5, 1.0]])
    root = np.linalg.cholesky(covariance)
    scores = np.array(
        [z_scores(3 + draws.normal(size=(300, 2)) @ root.T, np.full(2, 3), covariance) for _ in range(1000)]
    )
    # squares are skewed: their scores' means are off by their skewness over 2√300 at most, 0.1 or so
    assert (np.abs(scores.mean(0)) < 0.16 + 0.11).all()
    assert (np.abs(scores.var(0) - 1) < 0.35).all()
    wrong = z_scores(3 + draws.normal(size=(300, 2)) @ root.T * 1.5, np.full(2, 3), covariance)
    assert np.abs(wrong).max() > 5


def test_a_temperature_is_a_mean_over_chains_and_looks():
    """Samples of N(u, 4Λ⁻¹): a temperature of 4, within 5 errors, which is 4√(2/(d·looks·chains))."""
    draws, precision = np.random.default_rng(1), np.array([[3.0, 1.0], [1.0, 2.0]])
    root = 2 * np.linalg.cholesky(np.linalg.inv(precision))
    models = 5 + draws.normal(size=(10, 400, 2)) @ root.T
    found, error = temperature_of(Walk(np.arange(10), models), np.full(2, 5.0), precision)
    assert abs(found - 4) < 5 * error
    assert error == pytest.approx(4 * np.sqrt(2 / (2 * 5 * 400)), rel=0.2)


def test_verdicts_on_images_follow_from_numbers():
    table = pd.DataFrame(
        {
            "data": "MNIST",
            "K": [1, 10, 100],
            "accuracy": [0.8, 0.9, 0.91],
            "brier": [0.3, 0.1, 0.2],
            "ece": [0.1, 0.2, 0.3],
        }
    )
    worst, depends = _claims(table, "MNIST", warm=False)
    assert worst.verdict == "only when judged by accuracy, judged by brier"
    assert depends.verdict == "holds"
    assert "accuracy: K = 100, brier: K = 10, ece: K = 1" in depends.evidence
    worst, depends = _claims(table.assign(ece=[0.9, 0.2, 0.3]), "MNIST", warm=True)
    assert worst.verdict == "holds"


def test_the_theorems_epsilon_falls_with_the_noise():
    sizes = np.full(10, 143)
    little, much = (_by_theorem(sizes, {"correlation": rho})["corrected"] for rho in (0.9, 0.0))
    assert much < little
    assert _by_theorem(sizes, {"correlation": 1.0}) == {"printed": np.inf, "corrected": np.inf}

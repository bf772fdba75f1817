"""The Langevin paper: quickly in two dimensions and on digits; its settings; verdicts that follow from numbers."""

from dataclasses import replace

import numpy as np
import pytest

from hush.app import paper
from hush.papers.fa_ld import images
from hush.papers.fa_ld.best_steps import Course, best_rounds, in_general, inner, targets
from hush.papers.fa_ld.checks import temperature_of, z_scores
from hush.papers.fa_ld.compared import bootstrap, claims, depends, judge_named, surely, worst
from hush.papers.fa_ld.images import _problem
from hush.papers.fa_ld.lab import LangevinLab, Setting, Walk, first_within
from hush.papers.fa_ld.private import _by_theorem
from hush.papers.keeping import Runs
from hush.posterior import scores, wasserstein
from hush.theory import langevin_gaussian


@pytest.fixture(scope="module")
def lab():
    return LangevinLab(quick=True, runs=Runs(say=str))


@pytest.mark.slow
def test_the_figures_quickly(tmp_path):
    """The claim that simulated moments are the exact ones is in the page: here it must hold (fixed seed)."""
    paper.reproduce("fa-ld", None, True, tmp_path, tmp_path / "kept")
    page = (tmp_path / "fa-ld.md").read_text()
    for part in (
        "Figure 1 (b): heterogeneity",
        "Figure 2: partial participation",
        "Figure 3: without warm-up",
        "a trial of",
    ):
        assert part in page
    verdict = next(line for line in page.splitlines() if line.startswith("| Gaussian target: simulated moments are"))
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


@pytest.mark.parametrize(("steps", "lr"), [(1, 9e-7), (10, 2e-7)])
def test_the_course_in_closed_form_is_the_recursion(steps, lr):
    """Distances round by round, and the first round within one of them."""
    target = targets(1)[0]
    law = langevin_gaussian.moments(target, 60, steps, lr)
    told = [
        wasserstein.between_gaussians(mean, covariance, target.mode, target.covariance())
        for mean, covariance in zip(*law, strict=True)
    ]
    course = Course(target, steps, lr)
    np.testing.assert_allclose(course.distances(np.arange(61)), told, rtol=1e-6, atol=1e-12)
    needed = course.rounds_to(np.array([told[20], 1e-9]))
    assert needed == pytest.approx([20, np.inf], rel=1e-6)


def test_the_best_step_size_is_better_than_any_of_a_fine_grid():
    target = targets(1)[0]
    accuracy = np.array([0.2 * np.sqrt(np.trace(target.covariance()))])
    largest = 1.99 / np.linalg.eigvalsh(target.hessians).max()
    fine = [Course(target, 3, rate).rounds_to(accuracy)[0] for rate in largest / 1.02 ** np.arange(120)]
    assert best_rounds(target, 3, accuracy)[0] == pytest.approx(min(fine), rel=5e-3)


def test_an_inner_best_and_its_share():
    assert inner(np.array([2.0, 1.0, 1.2]))
    assert not inner(np.array([2.0, 1.0, 1.05]))
    assert not inner(np.array([1.0, 2.0, 3.0]))
    assert in_general(16, 20) == "holds"
    assert in_general(13, 20) == in_general(8, 20) == "cannot be told"  # Wilson's: from 0.43, and to 0.61
    assert in_general(3, 20) == "does not hold"


def test_a_bootstrap_has_the_scores_and_their_errors():
    """Means over draws are the scores themselves; of accuracy the deviation is that of a share, √(p(1 − p)/n)."""
    draws = np.random.default_rng(0)
    answers = draws.integers(0, 3, 900)
    chains = draws.dirichlet([1.0, 1.0, 1.0], (1, 900))
    found = bootstrap({1: chains, 2: chains}, answers)
    told = scores(chains[0], answers)
    assert found["accuracy"][1].mean() == pytest.approx(told["accuracy"], abs=2e-3)
    assert -found["brier"][1].mean() == pytest.approx(told["brier"], abs=5e-3)
    assert -found["ece"][1].mean() == pytest.approx(told["ece"], abs=2e-2)  # a draw's own gaps add to it
    assert -found["ece"][1].mean() < told["ece"]  # what they add is taken off
    p = told["accuracy"]
    assert found["accuracy"][1].std() == pytest.approx(np.sqrt(p * (1 - p) / 900), rel=0.1)
    np.testing.assert_array_equal(found["ece"][1], found["ece"][2])  # the same examples for all K


def test_verdicts_on_images_follow_from_draws():
    noise = np.random.default_rng(0).normal(size=1000)
    level = lambda value: value + 0.01 * noise  # noqa: E731
    drawn = {"accuracy": {1: level(0.8), 10: level(0.9), 20: level(0.95)}, "brier": {1: level(-0.3), 10: level(-0.1)}}
    drawn["brier"][20] = -0.1 + 0.01 * noise[::-1]
    assert surely(drawn["accuracy"][10], drawn["accuracy"][1])
    assert judge_named((20,), drawn["accuracy"]) == "holds"
    assert judge_named((10,), drawn["accuracy"]) == "does not hold"
    assert judge_named((10,), drawn["brier"]) == "cannot be told apart from K = 20"
    assert depends(drawn) == "cannot be told"  # by Brier score 10 and 20 are alike
    assert depends({"accuracy": drawn["accuracy"], "ece": drawn["accuracy"]}) == "does not hold"
    assert depends(drawn | {"ece": {1: level(0.9), 10: level(0.95), 20: level(0.8)}}) == "holds"
    assert worst(1, drawn["accuracy"]) == "holds"
    assert worst(10, drawn["brier"]) == "does not hold"
    assert worst(1, drawn["brier"] | {1: -0.1 - 0.01 * noise}) == "cannot be told"
    k_1, _, named = claims("MNIST", "here", drawn, {"accuracy": (10, 20)})
    assert (k_1.verdict, named.verdict) == ("holds", "holds")
    assert named.text == "MNIST, here: the best K for accuracy is 10 or 20"


def test_step_sizes_are_chosen_on_examples_that_no_client_holds(lab):
    tuning, whole = _problem(lab, "digits", True), _problem(lab, "digits")
    held_out = {bytes(image) for image in np.asarray(tuning.test.x)}
    assert not held_out & {bytes(image) for image in np.asarray(tuning.train.x)[np.asarray(tuning.index)]}
    assert held_out <= {bytes(image) for image in np.asarray(whole.train.x)}
    assert len(tuning.test.y) == round(0.1 * whole.population.examples)


@pytest.mark.slow
def test_the_step_size_that_is_chosen_has_the_best_averaged_predictions(monkeypatch):
    """Without a warm-up the run averages predictions by itself; with one, samples before it do not count."""
    rates = (0.001, 0.3, 1.0, 1e6)
    monkeypatch.setattr(images, "QUICK", replace(images.QUICK, rates=rates))
    lab = LangevinLab(quick=True, runs=Runs(say=str))
    best = images.chosen(lab, "digits", 20, 0)
    result = images._run(lab, "digits", 20, rates, images.QUICK.rounds // 2, True)
    last = result.records[result.records["round"] == images.QUICK.rounds // 2]
    assert best == rates[int(np.nanargmin(last["predictive_nll"]))]
    assert best in rates[1:3]
    early, late = (images._averages(result, 1, warm_up, [30])[0] for warm_up in (0, 20))
    found = scores(early, np.asarray(result.problem.test.y))["nll"]
    assert found == pytest.approx(last["predictive_nll"].iloc[1], rel=1e-4)
    np.testing.assert_allclose(late, images._averages(result, 1, 20, [30, 40])[1])
    assert not np.allclose(early, late)


def test_the_theorems_epsilon_falls_with_the_noise():
    sizes = np.full(10, 143)
    little, much = (_by_theorem(sizes, {"correlation": rho})["corrected"] for rho in (0.9, 0.0))
    assert much < little
    assert _by_theorem(sizes, {"correlation": 1.0}) == {"printed": np.inf, "corrected": np.inf}

"""W2 against closed forms of one dimension and of commuting covariances, brute force, and the laws of a distance."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import sqrtm

from hush.posterior.wasserstein import between_gaussians, between_samples, floor, to_gaussian

PAPER = np.array([[5.0, -2.0], [-2.0, 1.0]]) / 50_000  # paper fa-ld, section 7.1: Σ/n

quick = settings(derandomize=True, deadline=None, max_examples=60)


@st.composite
def gaussians(draw, count=1):
    """Gaussians of one dimension, some of them singular, of sizes from 1e-4 to 1e4."""
    dimension = draw(st.integers(1, 4))
    draws = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    made = []
    for _ in range(count):
        rank, scale = draw(st.integers(0, dimension)), 10.0 ** draw(st.integers(-4, 4))
        factor = scale * draws.normal(size=(dimension, rank))
        made.append((scale * draws.normal(size=dimension), factor @ factor.T))
    return made


def random_covariance(draws, dimension):
    factor = draws.normal(size=(dimension, dimension + 2))
    return factor @ factor.T


@quick
@given(st.floats(-5, 5), st.floats(0, 10), st.floats(-5, 5), st.floats(0, 10))
def test_in_one_dimension_means_and_deviations_are_coordinates(mean_a, sd_a, mean_b, sd_b):
    found = between_gaussians([mean_a], [[sd_a**2]], [mean_b], [[sd_b**2]])
    assert found == pytest.approx(np.hypot(mean_a - mean_b, sd_a - sd_b), abs=1e-12)


@quick
@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_of_commuting_covariances_the_roots_are_subtracted(seed, dimension):
    draws = np.random.default_rng(seed)
    basis = np.linalg.qr(draws.normal(size=(dimension, dimension)))[0]
    a, b = draws.exponential(size=(2, dimension)) * (draws.uniform(size=(2, dimension)) < 0.7)
    found = between_gaussians(np.zeros(dimension), basis * a @ basis.T, np.ones(dimension), basis * b @ basis.T)
    assert found == pytest.approx(np.sqrt(dimension + ((np.sqrt(a) - np.sqrt(b)) ** 2).sum()), rel=1e-6)


def test_the_formula_as_it_is_printed():
    draws = np.random.default_rng(0)
    for dimension in (2, 3, 7):
        A, B = random_covariance(draws, dimension), random_covariance(draws, dimension)
        root = sqrtm(A)
        trace = np.trace(A + B - 2 * np.real(sqrtm(root @ B @ root)))
        shift = draws.normal(size=dimension)
        found = between_gaussians(shift, A, np.zeros(dimension), B)
        assert found == pytest.approx(np.sqrt(shift @ shift + trace), rel=1e-9)


@quick
@given(gaussians(3))
def test_it_is_a_distance(three):
    a, b, c = three
    size = max(np.abs(mean).max() + np.sqrt(np.trace(covariance)) for mean, covariance in three)
    assert between_gaussians(*a, *a) <= 1e-7 * size
    assert between_gaussians(*a, *b) == pytest.approx(between_gaussians(*b, *a), rel=1e-7, abs=1e-7 * size)
    around = between_gaussians(*a, *b) + between_gaussians(*b, *c)
    assert between_gaussians(*a, *c) <= around + 1e-7 * size


@quick
@given(gaussians(2), st.integers(0, 2**32 - 1))
def test_turning_and_shifting_both_changes_nothing(two, seed):
    (mean_a, A), (mean_b, B) = two
    draws = np.random.default_rng(seed)
    turn = np.linalg.qr(draws.normal(size=A.shape))[0]
    shift = draws.normal(size=len(mean_a))
    moved = between_gaussians(turn @ mean_a + shift, turn @ A @ turn.T, turn @ mean_b + shift, turn @ B @ turn.T)
    size = max(1.0, *np.abs(mean_a), *np.abs(mean_b), np.sqrt(np.trace(A)), np.sqrt(np.trace(B)))
    assert moved == pytest.approx(between_gaussians(mean_a, A, mean_b, B), abs=1e-7 * size)


def test_near_gaussians_keep_their_digits():
    # The trace would cancel: its 1e-16 of rounding is a distance of 1e-8.
    A = random_covariance(np.random.default_rng(1), 5)
    for relative in (1e-3, 1e-6, 1e-9):
        found = between_gaussians(np.zeros(5), A, np.zeros(5), (1 + relative) ** 2 * A)
        assert found == pytest.approx(relative * np.sqrt(np.trace(A)), rel=1e-4)


@quick
@given(st.integers(1, 5), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_samples_are_paired_as_brute_force_would(count, dimension, seed):
    a, b = np.random.default_rng(seed).normal(size=(2, count, dimension))
    every = (np.mean(((a - b[list(order)]) ** 2).sum(1)) for order in itertools.permutations(range(count)))
    assert between_samples(a, b) == pytest.approx(np.sqrt(min(every)))


def test_samples_of_one_dimension_are_paired_in_order():
    a, b = np.random.default_rng(2).exponential(size=(2, 800, 1))
    expected = np.sqrt(((np.sort(a[:, 0]) - np.sort(b[:, 0])) ** 2).mean())
    assert between_samples(a, b) == pytest.approx(expected)


@pytest.mark.slow
def test_large_samples_come_near_the_closed_form():
    # 1500 points in the plane miss the true W2 of about 3 by some 3 %: a tenth is never reached.
    draws = np.random.default_rng(3)
    A, B = np.array([[2.0, 0.6], [0.6, 1.0]]), np.array([[0.3, -0.1], [-0.1, 0.5]])
    a, b = (draws.multivariate_normal(mean, each, 1500) for mean, each in (([0, 0], A), ([2, 2], B)))
    truth = between_gaussians([0, 0], A, [2, 2], B)
    assert between_samples(a, b) == pytest.approx(truth, rel=0.1)
    assert to_gaussian(a, [2, 2], B) == pytest.approx(truth, rel=0.1)


def test_samples_are_summed_up_by_their_unbiased_covariance():
    samples = np.random.default_rng(4).normal(size=(7, 2))
    centred = samples - samples.mean(0)
    expected = between_gaussians(samples.mean(0), centred.T @ centred / 6, [1, 2], PAPER)
    assert to_gaussian(samples, [1, 2], PAPER) == pytest.approx(expected)
    assert to_gaussian([[1.0], [3.0]], [2.0], [[2.0]]) == pytest.approx(0, abs=1e-12)


def test_the_floor_of_the_papers_repetitions():
    assert floor(PAPER, 300) == pytest.approx(7e-4, rel=0.1)
    assert floor(PAPER, 300) == floor(PAPER, 300)
    assert floor(100 * PAPER, 300) == pytest.approx(10 * floor(PAPER, 300))


def test_the_floor_in_one_dimension_is_that_of_a_mean_and_a_deviation():
    # For many samples the two errors are independent, N(0, σ²/R) and N(0, σ²/2R). The median of 200 draws has a
    # relative error of about 5 %: a quarter is five of them, one false alarm in a million seeds.
    errors = np.random.default_rng(5).normal(size=(100_000, 2)) * [1, np.sqrt(0.5)]
    expected = 2.0 * np.median(np.linalg.norm(errors, axis=1)) / np.sqrt(400)
    assert floor([[4.0]], 400) == pytest.approx(expected, rel=0.25)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: between_gaussians([0, 0], np.eye(2), [0], [[1]]), "one dimension, found 2 and 1"),
        (lambda: between_gaussians([0, 0], np.eye(3), [0, 0], np.eye(2)), r"found shapes \(2,\) and \(3, 3\)"),
        (lambda: between_gaussians([0, 0], [[1, 2], [0, 1]], [0, 0], np.eye(2)), "symmetric"),
        (lambda: between_gaussians([0, 0], [[1, 2], [2, 1]], [0, 0], np.eye(2)), "negative eigenvalue, found -1"),
        (lambda: between_gaussians([np.nan, 0], np.eye(2), [0, 0], np.eye(2)), "finite"),
        (lambda: to_gaussian([[1.0, 2.0]], [0, 0], np.eye(2)), r"n at least 2, found \(1, 2\)"),
        (lambda: to_gaussian([[1.0], [np.inf]], [0], [[1]]), "finite, found 1 numbers"),
        (lambda: between_samples(np.zeros((4, 2)), np.zeros((5, 2))), "subsample the larger"),
        (lambda: between_samples(np.zeros((5001, 1)), np.zeros((5001, 1))), "at most 5000.*found 5001; subsample"),
        (lambda: floor(np.eye(2), 1), "samples must be a whole number of at least 2, found 1"),
        (lambda: floor(3.0, 10), r"found shapes \(1,\) and \(\)"),
    ],
)
def test_refusals_say_what_was_found(call, words):
    with pytest.raises(ValueError, match=words):
        call()

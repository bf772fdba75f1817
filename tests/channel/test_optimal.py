"""The least squares rule held to two solvers of scipy, on hundreds of rounds with extremes among them.

`nnls` is an exact active-set solver: with slacks z_k = ψ_k s − a_k ≥ 0 the problem is a least squares one over
s, z ≥ 0, once a_k ≥ 0 is left out, which can only lower the value. `L-BFGS-B` works on what is sent and read, (√α, s)
in their bounds, as the problem is stated, from several starts.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize
from threadpoolctl import threadpool_limits

from hush.channel.optimal import LeastSquares
from hush.channel.power import Alignment, BestBound, FullPower, Largest, TruncatedInversion
from hush.core.contract import Statistics

PLACES = 8


@jax.jit
def solve_many(psi, active, noise_variance, mean_square, variance):
    def one(psi, active, noise_variance, mean_square, variance):
        # Weights of one each: the sum of the messages is estimated, as the problem is stated.
        return LeastSquares()(psi, active * 1.0, active, noise_variance, Statistics(mean_square, variance))

    return jax.vmap(one)(psi, active, noise_variance, mean_square, variance)


def value(psi, amplitude, scale, noise_variance, mean_square, variance):
    """v² Σ(a_k − 1)² + m² (Σ(a_k − 1))² + N0 s², a_k = ψ_k √α_k s."""
    short = psi * amplitude * scale - 1
    return variance * np.sum(short**2) + mean_square * np.sum(short) ** 2 + noise_variance * scale**2


def by_nnls(psi, noise_variance, mean_square, variance):
    count, m, v = len(psi), math.sqrt(mean_square), math.sqrt(variance)
    unit = np.sqrt(np.sum(psi**2))  # s in its natural unit, so that the columns are alike
    matrix = np.zeros((count + 2, count + 1))
    matrix[:count, 0], matrix[count, 0], matrix[count + 1, 0] = (
        v * psi / unit,
        m * psi.sum() / unit,
        math.sqrt(noise_variance) / unit,
    )
    matrix[:count, 1:], matrix[count, 1:] = -v * np.eye(count), -m
    return optimize.nnls(matrix, np.r_[np.full(count, v), m * count, 0.0], maxiter=1000)[1] ** 2


def by_search(psi, noise_variance, mean_square, variance, draws):
    count, unit = len(psi), 1 / psi.max()

    def both(point):
        amplitude, scale = point[:-1], point[-1] * unit
        short = psi * amplitude * scale - 1
        pull = 2 * variance * short + 2 * mean_square * short.sum()
        slope = np.r_[pull * psi * scale, unit * (pull @ (psi * amplitude) + 2 * noise_variance * scale)]
        return value(psi, amplitude, scale, noise_variance, mean_square, variance), slope

    starts = [np.r_[draws.uniform(size=count), draws.exponential(3)] for _ in range(2)]
    starts.append(np.r_[psi.min() / psi, psi.max() / psi.min()])
    bounds = [(0, 1)] * count + [(0, None)]
    options = {"ftol": 1e-13, "maxiter": 300}
    return min(optimize.minimize(both, start, jac=True, bounds=bounds, options=options).fun for start in starts)


def instances(draws, number):
    """(ψ, N0, m², v²): everyday ones, and by turns each extreme that the problem has."""
    for index in range(number):
        count = int(draws.integers(1, PLACES + 1))
        psi = np.exp(draws.normal(size=count) * draws.choice([0.1, 1, 2]))
        noise, mean_square, variance = np.exp(draws.normal(size=3) * 2)
        match index % 12:
            case 1:
                mean_square = 0.0
            case 2:
                variance = 0.0
            case 3:
                noise = 1e-10
            case 4:
                noise = 1e8
            case 5:
                psi = psi[:1]
            case 6:
                psi = np.full(count, psi[0])
            case 7:
                psi[0] = 1e4
            case 8:
                noise = 0.0
            case 9:
                psi[0] = 1e-5
            case 10:
                mean_square, variance = mean_square * 1e-6, variance * 1e-6
            case 11:
                psi, noise = np.abs(1 + 0.1 * draws.normal(size=count)), 1e-3
        yield (
            psi.astype(np.float32).astype(float),
            *(float(np.float32(part)) for part in (noise, mean_square, variance)),
        )


def solved(problems):
    """Amplitudes and scale of all the problems, padded to one shape."""
    psi, active = np.zeros((len(problems), PLACES), np.float32), np.zeros((len(problems), PLACES), bool)
    for row, (own, *_) in enumerate(problems):
        psi[row, : len(own)], active[row, : len(own)] = own, True
    rest = np.array([rest for _, *rest in problems], np.float32).T
    answer = solve_many(psi, active, *rest)
    return [
        (np.asarray(transmit, float)[: len(own)], float(receive))
        for transmit, receive, (own, *_) in zip(*answer, problems, strict=True)
    ]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Systems of nine numbers: threads that wait for each other make the solvers thirty times slower."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def problems():
    return list(instances(np.random.default_rng(11), 600))


@pytest.fixture(scope="module")
def answers(problems):
    return solved(problems)


def most(psi, mean_square, variance):
    """The error of sending nothing: what all errors are measured by."""
    return variance * len(psi) + mean_square * len(psi) ** 2


def test_no_solver_finds_less(problems, answers):
    """600 rounds: the value at our answer, in double precision, is that of the exact active-set solver."""
    for (psi, noise, mean_square, variance), (amplitude, scale) in zip(problems, answers, strict=True):
        assert np.all((amplitude >= 0) & (amplitude <= 1))
        ours = value(psi, amplitude, scale, noise, mean_square, variance)
        exact = by_nnls(psi, noise, mean_square, variance)
        assert ours == pytest.approx(exact, rel=1e-5, abs=1e-9 * most(psi, mean_square, variance))


def test_a_bounded_search_finds_the_same(problems, answers):
    """The first 120 of them: never less than ours, and the same but for a few where the search stops early."""
    draws, same = np.random.default_rng(12), 0
    for (psi, noise, mean_square, variance), (amplitude, scale) in zip(problems[:120], answers[:120], strict=True):
        ours = value(psi, amplitude, scale, noise, mean_square, variance)
        found = by_search(psi, noise, mean_square, variance, draws)
        slack = 1e-8 * most(psi, mean_square, variance)
        assert ours <= found * (1 + 1e-5) + slack
        same += found <= ours * (1 + 1e-3) + slack
    assert same >= 112, same


def test_threshold_structure(problems, answers):
    """The weak send all they can, the strong come down to one level; without noise it is that of alignment."""
    for (psi, noise, _, variance), (amplitude, _) in zip(problems, answers, strict=True):
        arriving = psi * amplitude
        level = arriving.max()
        np.testing.assert_allclose(arriving, np.minimum(psi, level), rtol=1e-5)
        if noise == 0 and variance > 0:
            assert level == pytest.approx(psi.min(), rel=1e-5)


def test_closed_forms_at_the_ends():
    """One client, no variance, no mean and much noise, equal gains: by hand."""
    m, v, noise, psi = 0.4, 1.3, 0.6, np.array([0.5, 1.0, 2.5])
    problems = [
        (psi[:1], noise, m, v),
        (psi, noise, m, 0.0),
        (psi, 1e6, 0.0, v),
        (np.full(4, 1.7), noise, m, v),
        (psi, 0.0, m, 0.0),
    ]
    (one, flat, drowned, equal, silent) = solved(problems)
    assert one[1] == pytest.approx((v + m) * 0.5 / ((v + m) * 0.25 + noise), rel=1e-6)
    assert flat[1] == pytest.approx(m * 3 * 4 / (noise + m * 16), rel=1e-6)
    np.testing.assert_array_equal(flat[0], 1)
    assert drowned[1] == pytest.approx(v * 4 / (1e6 + v * 7.5), rel=1e-6)
    assert equal[1] == pytest.approx(1.7 * (v + 4 * m) * 4 / (1.7**2 * 4 * (v + 4 * m) + noise), rel=1e-6)
    assert silent[1] == pytest.approx(3 / 4, rel=1e-6)  # all that is left is the sum of the coefficients


def test_scales_far_from_one():
    """In units of its own a round is always the same: gains times u, noise times u², messages times w."""
    psi = np.array([0.3, 1.1, 0.9, 4.0])
    (reference,) = solved([(psi, 0.5, 0.2, 0.7)])
    for u, w in ((1e12, 1.0), (1e-12, 1e3), (1.0, 1e-8), (1e6, 1e-6)):
        ((amplitude, scale),) = solved([(psi * u, 0.5 * u**2 * w**2, 0.2 * w**2, 0.7 * w**2)])
        np.testing.assert_allclose(amplitude, reference[0], rtol=1e-4)
        assert scale * u == pytest.approx(reference[1], rel=1e-4)
    # 10^25 between the gains, without noise: the weakest sets the level, its square being lost in single precision.
    ((amplitude, scale),) = solved([(np.array([1e15, 1e-10]), 0.0, 0.5, 0.5)])
    assert amplitude[0] * 1e25 == pytest.approx(1, rel=1e-5)
    assert amplitude[1] == 1
    assert scale == pytest.approx(1e10, rel=1e-5)


def test_a_thousand_clients():
    """Sums of a thousand in single precision lose little: the level is held to bisection in double precision."""
    psi = np.random.default_rng(8).rayleigh(size=1000).astype(np.float32).astype(float)

    def excess(level, ratio):
        return np.sum(psi * np.maximum(level - psi, 0)) - ratio

    for noise, mean_square, variance in ((1.0, 0.01, 1.0), (1e-3, 0.0, 1.0), (1e4, 0.5, 0.1)):
        rest = (jnp.full(1000, 1.0), jnp.full(1000, True), noise, Statistics(mean_square, variance))
        answer = LeastSquares()(jnp.asarray(psi, jnp.float32), *rest)
        level = optimize.brentq(excess, 0, 1e6, args=(noise / variance,), xtol=1e-300, rtol=1e-15)
        np.testing.assert_allclose(answer.transmit, np.minimum(1, level / psi), rtol=1e-4)
        heard = variance * level + mean_square * np.minimum(psi, level).sum()
        assert float(answer.receive) == pytest.approx((variance + mean_square * 1000) / heard, rel=1e-4)


def test_who_cannot_be_heard_still_counts_in_the_aim():
    """ψ = 0 for an active client is the problem with a_k = 0 held there; an inactive one is no part of it."""
    noise, mean_square, variance = 0.3, 0.2, 0.5
    psi = np.array([0.7, 0.0, 1.9])
    ((amplitude, scale),) = solved([(psi, noise, mean_square, variance)])
    assert amplitude[1] == 0
    ours = value(psi, amplitude, scale, noise, mean_square, variance)
    assert ours == pytest.approx(by_nnls(psi, noise, mean_square, variance), rel=1e-5)
    ((_, two),) = solved([(psi[[0, 2]], noise, mean_square, variance)])
    assert scale > two  # a correlated message (m > 0) is partly made up for by the others


def test_it_beats_the_other_rules(problems):
    rules = [Alignment(), TruncatedInversion(0.5), FullPower(), FullPower(Largest(1)), FullPower(BestBound(0.5))]
    everyday = problems[:240:12]
    psi = np.zeros((len(everyday), PLACES), np.float32)
    for row, (own, *_) in enumerate(everyday):
        psi[row, : len(own)] = own
    active, ours = jnp.asarray(psi > 0), solved(everyday)
    for rule in rules:
        answer = jax.jit(jax.vmap(lambda psi, on, rule=rule: rule(psi, on * 1.0, on, 1.0, Statistics())))(psi, active)
        for row, (problem, (amplitude, scale)) in enumerate(zip(everyday, ours, strict=True)):
            own, *rest = problem
            other = np.asarray(answer.transmit[row], float)[: len(own)], float(answer.receive[row])
            assert value(own, amplitude, scale, *rest) <= value(own, *other, *rest) * (1 + 1e-5)


def test_mean_squared_error_is_what_the_problem_says():
    """Messages with mean m and variance v² a coordinate, played: the error of the mean is the value over K².

    The bound is five standard errors, estimated; for one seed in two million a right rule fails.
    """
    draws, psi = np.random.default_rng(3), np.array([0.4, 1.0, 1.1, 3.0])
    noise, mean_square, variance = 0.5, 0.09, 0.8
    answer = LeastSquares()(
        jnp.asarray(psi), jnp.full(4, 0.25), jnp.full(4, True), noise, Statistics(mean_square, variance)
    )
    messages = 0.3 + math.sqrt(variance) * draws.normal(size=(100_000, 4))
    mixed = messages @ (psi * np.asarray(answer.transmit)) + math.sqrt(noise) * draws.normal(size=100_000)
    errors = (mixed * float(answer.receive) - messages.mean(axis=1)) ** 2
    expected = value(psi, np.asarray(answer.transmit), 4 * float(answer.receive), noise, mean_square, variance) / 16
    assert abs(errors.mean() - expected) <= 5 * errors.std() / math.sqrt(len(errors))

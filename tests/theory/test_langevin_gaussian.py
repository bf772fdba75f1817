"""The moments a second way: every step and every draw of clients written out, simulated chains, and closed forms."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.theory.langevin_gaussian import Moments, Target, moments, stationary
from hush.theory.langevin_participation import SCHEMES, effective_temperature

SIGMA = np.array([[5.0, -2.0], [-2.0, 1.0]])


def a_target(seed=0, clients=3, dimension=2, equal=False):
    draws = np.random.default_rng(seed)
    factors = draws.normal(size=(clients, dimension, dimension))
    hessians = factors @ factors.mT + 0.3 * np.eye(dimension)
    shares = np.full(clients, 1 / clients) if equal else draws.dirichlet(np.full(clients, 3.0))
    return Target(2 * draws.normal(size=(clients, dimension)), hessians, shares)


def every_draw(shares, scheme, per_round):
    """Each possible weight vector of a round and how likely it is."""
    N = len(shares)
    if scheme == "all":
        return [(1.0, shares)]
    if scheme == "I":
        found = []
        for drawn in product(range(N), repeat=per_round):
            found.append((np.prod(shares[list(drawn)]), np.bincount(drawn, minlength=N) / per_round))
        return found
    chosen = list(combinations(range(N), per_round))
    return [(1 / len(chosen), np.isin(np.arange(N), ids) * N / per_round * shares) for ids in chosen]


def written_out(
    target, steps, lr, temperature, correlation, scheme, per_round, scale, gradient_noise, mean, covariance
):
    """All clients side by side as one chain in N·d dimensions, step by step; then the mixture over all draws."""
    N, d = target.means.shape
    eye, copies = np.eye(d), np.tile(np.eye(d), (N, 1))
    B = np.zeros((N * d, N * d))
    for c in range(N):
        B[c * d : (c + 1) * d, c * d : (c + 1) * d] = eye - lr * target.hessians[c]
    own = 2 * lr * temperature * (1 - correlation**2) * scale**2 + (lr * gradient_noise) ** 2
    noise = 2 * lr * temperature * correlation**2 * np.kron(np.ones((N, N)), eye) + np.kron(np.diag(own), eye)
    push = np.concatenate([lr * H @ m for H, m in zip(target.hessians, target.means, strict=True)])
    start = Moments(copies @ mean, copies @ covariance @ copies.T)
    # θ itself comes along as an (N + 1)-th client that never moves: θ' = θ + Σ w_c(β_c − θ).
    b, C, cross = start.mean, start.covariance, copies @ covariance
    for _ in range(steps):
        b, C, cross = B @ b + push, B @ C @ B.T + noise, B @ cross
    first, second = np.zeros(d), np.zeros((d, d))
    for chance, w in every_draw(target.shares, scheme, per_round):
        W, rest = np.kron(w, eye), 1 - w.sum()
        new = W @ b + rest * mean
        spread = W @ C @ W.T + rest * (W @ cross + cross.T @ W.T) + rest**2 * covariance
        first, second = first + chance * new, second + chance * (spread + np.outer(new, new))
    return Moments(first, second - np.outer(first, first))


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 10**6),
    dimension=st.integers(1, 3),
    clients=st.integers(1, 4),
    steps=st.integers(1, 9),
    lr=st.floats(0.001, 0.1),
    correlation=st.floats(0, 1),
    scheme=st.sampled_from(SCHEMES),
    scaled=st.booleans(),
)
def test_every_step_and_every_draw_written_out(seed, dimension, clients, steps, lr, correlation, scheme, scaled):
    target = a_target(seed, clients, dimension)
    draws = np.random.default_rng(seed)
    per_round = None if scheme == "all" else int(draws.integers(1, clients + 1))
    scale = draws.uniform(0.5, 2, clients) if scaled else 1 / np.sqrt(target.shares)
    spread = draws.normal(size=(dimension, dimension))
    start = Moments(draws.normal(size=dimension), spread @ spread.T)
    lr = min(lr, 1.9 / np.linalg.eigvalsh(target.hessians).max())
    found = moments(target, 2, steps, lr, 0.7, correlation, scheme, per_round, scale if scaled else None, start, 0.4)
    expected = start
    for number in (1, 2):
        expected = written_out(target, steps, lr, 0.7, correlation, scheme, per_round, scale, 0.4, *expected)
        np.testing.assert_allclose(found.mean[number], expected.mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.covariance[number], expected.covariance, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(found.mean[0], start.mean)
    np.testing.assert_array_equal(found.covariance[0], start.covariance)


def simulate(target, rounds, steps, lr, temperature, correlation, scheme, per_round, chains, seed, scale=None):
    """Eq 11 as it stands, for all clients of all chains, and Algorithm 1's average; from the origin."""
    draws = np.random.default_rng(seed)
    N, d = target.means.shape
    scale = 1 / np.sqrt(target.shares) if scale is None else np.full(N, scale)
    theta = np.zeros((chains, d))
    for _ in range(rounds):
        beta = np.repeat(theta[:, None], N, axis=1)
        for _ in range(steps):
            gradient = np.einsum("cij,rcj->rci", target.hessians, beta - target.means)
            noise = np.sqrt(1 - correlation**2) * scale[:, None] * draws.normal(size=beta.shape)
            if correlation > 0:
                noise += correlation * draws.normal(size=(chains, 1, d))
            beta = beta - lr * gradient + np.sqrt(2 * lr * temperature) * noise
        if scheme == "all":
            w = np.tile(target.shares, (chains, 1))
        elif scheme == "I":
            w = draws.multinomial(per_round, target.shares, size=chains) / per_round
        else:
            heard = np.argsort(draws.uniform(size=(chains, N)), axis=1) < per_round
            w = heard * N / per_round * target.shares
        theta = theta + np.einsum("rc,rci->ri", w, beta - theta[:, None])
    return theta


@pytest.mark.parametrize("scheme", SCHEMES)
def test_moments_by_simulation(scheme):
    """100,000 chains, five standard errors: five expectations in three cases, right ones fail once in 110,000 seeds."""
    target, R = a_target(5), 100_000
    per_round = None if scheme == "all" else 2
    found = moments(target, 3, 4, 0.05, 0.5, 0.6, scheme, per_round)
    theta = simulate(target, 3, 4, 0.05, 0.5, 0.6, scheme, per_round, R, seed=1)
    assert np.all(np.abs(theta.mean(axis=0) - found.mean[-1]) < 5 * theta.std(axis=0) / np.sqrt(R))
    products = np.einsum("ri,rj->rij", theta - found.mean[-1], theta - found.mean[-1])
    assert np.all(np.abs(products.mean(axis=0) - found.covariance[-1]) < 5 * products.std(axis=0) / np.sqrt(R))


def test_one_step_a_round_is_sgld_in_closed_form():
    """C = (I − ηH)C(I − ηH) + 2ητI has C = τ(H(I − ηH/2))^-1, H the clients' mean."""
    target, lr, tau = a_target(1), 0.03, 0.7
    H = np.tensordot(target.shares, target.hessians, axes=1)
    for correlation in (0.0, 0.5, 1.0):
        found = stationary(target, 1, lr, tau, correlation)
        np.testing.assert_allclose(found.mean, target.mode, rtol=1e-10)
        np.testing.assert_allclose(found.covariance, tau * np.linalg.inv(H @ (np.eye(2) - lr * H / 2)), rtol=1e-10)
    np.testing.assert_allclose(target.covariance(tau), tau * np.linalg.inv(H))


def test_with_one_hessian_for_all_the_local_steps_change_nothing():
    """The Gaussian example of section 7.1: K = 5 is SGLD looked at every fifth step, however far apart the clients."""
    draws = np.random.default_rng(2)
    H = np.broadcast_to(np.linalg.inv(SIGMA), (4, 2, 2))
    target = Target(30 * draws.normal(size=(4, 2)), H, np.array([0.1, 0.2, 0.3, 0.4]))
    for correlation in (0.0, 0.7):
        often, seldom = moments(target, 30, 1, 0.05, 1.0, correlation), moments(target, 6, 5, 0.05, 1.0, correlation)
        np.testing.assert_allclose(often.mean[::5], seldom.mean, rtol=1e-10)
        np.testing.assert_allclose(often.covariance[::5], seldom.covariance, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(stationary(target, 5, 0.05).mean, target.mode, rtol=1e-10)


def test_with_different_hessians_local_steps_move_the_mean_to_that_of_the_clients_own_modes():
    target = a_target(3)
    off = [np.linalg.norm(stationary(target, K, 0.02).mean - target.mode) for K in (1, 3, 10, 30)]
    assert off[0] < 1e-10
    assert off[0] < off[1] < off[2] < off[3]
    long = stationary(target, 10_000, 0.02, temperature=0.6)
    np.testing.assert_allclose(long.mean, target.shares @ target.means)
    own = [
        np.linalg.inv(H @ (np.eye(2) - 0.01 * H)) for H in target.hessians
    ]  # each client's chain has settled by then
    np.testing.assert_allclose(long.covariance, 0.6 * np.tensordot(target.shares, own, axes=1))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_settles_is_what_the_rounds_go_to(scheme):
    target = a_target(4, clients=5)
    setting = (3, 0.04, 0.8, 0.3, scheme, None if scheme == "all" else 2)
    last, fixed = moments(target, 3000, *setting), stationary(target, *setting)
    np.testing.assert_allclose(last.mean[-1], fixed.mean, rtol=1e-9)
    np.testing.assert_allclose(last.covariance[-1], fixed.covariance, rtol=1e-9)
    again = moments(target, 1, *setting, start=fixed)
    np.testing.assert_allclose(again.covariance[1], fixed.covariance, rtol=1e-9)


def section_7_1(seed=0, alpha=0.0, clients=50, examples=1000):
    draws = np.random.default_rng(seed)
    centres = np.sqrt(alpha) * draws.normal(size=(clients, 2))
    means = centres + draws.multivariate_normal(np.zeros(2), SIGMA / examples, size=clients)
    hessians = np.broadcast_to(clients * examples * np.linalg.inv(SIGMA), (clients, 2, 2))
    return Target(means, hessians, np.full(clients, 1 / clients))


@pytest.mark.parametrize(
    ("scheme", "correlation", "theory", "simulated"),
    [("II", 0.0, 5.0, 5.10), ("I", 0.0, 5.9, 6.34), ("II", 0.9, 1.76, 1.74), ("II", 1.0, 1.0, 1.07)],
)
def test_the_temperature_of_section_7_1_with_ten_of_fifty_clients(scheme, correlation, theory, simulated):
    """By 300 chains, as in the paper: the mean of two variances with 299 degrees of freedom each is off by 5.8%."""
    target = section_7_1()
    target = Target(np.zeros((50, 2)), target.hessians, target.shares)  # the clients' differences heat it up as well
    found = stationary(target, 100, 1e-7, 1.0, correlation, scheme, 10).covariance
    ratio = np.trace(np.linalg.solve(target.covariance(), found)) / 2
    assert ratio == pytest.approx(theory, rel=0.01)
    assert ratio == pytest.approx(effective_temperature(50, 10, correlation, scheme), rel=0.01)
    assert ratio == pytest.approx(simulated, rel=3 * 0.058)


@pytest.mark.parametrize("scheme", ["I", "II"])
def test_that_temperature_by_simulation_of_chains(scheme):
    """1,500 chains, 4 of 20 clients heard, 25 rounds of 20 steps: five standard errors, √(2/3000) of a variance."""
    draws = np.random.default_rng(6)
    target = Target(0.1 * draws.normal(size=(20, 2)), np.broadcast_to(np.eye(2), (20, 2, 2)), np.full(20, 0.05))
    theta = simulate(target, 25, 20, 0.01, 1.0, 0.0, scheme, 4, 1500, seed=7)
    expected = np.trace(moments(target, 25, 20, 0.01, 1.0, 0.0, scheme, 4).covariance[-1]) / 2
    assert expected > 3.5  # of 5 and 5.75, as η goes to zero
    assert theta.var(axis=0).mean() == pytest.approx(expected, rel=5 * np.sqrt(2 / 3000))


def test_the_other_scale_removes_the_heat_whatever_the_correlation():
    target = Target(np.zeros((50, 2)), section_7_1().hessians, np.full(50, 0.02))
    for correlation in (0.0, 0.5, 1.0):
        found = stationary(target, 100, 1e-8, 1.0, correlation, "II", 10, own_scale=np.sqrt(10))
        np.testing.assert_allclose(found.covariance, target.covariance(), rtol=0.003)
        found = stationary(target, 100, 1e-8, 1.0, correlation, "I", 10, own_scale=np.sqrt(10 / (1 + 9 / 50)))
        np.testing.assert_allclose(found.covariance, target.covariance(), rtol=0.003)


@pytest.mark.parametrize("scheme", ["I", "II"])
def test_the_limit_of_small_steps_is_the_effective_temperature_for_any_target(scheme):
    target = a_target(8, clients=4)
    warm = effective_temperature(target.shares, 2, 0.4, scheme)
    off = []
    for lr in (1e-4, 1e-5):
        found = stationary(target, 5, lr, 0.9, 0.4, scheme, 2)
        off.append(np.abs(found.covariance / (0.9 * warm * target.covariance()) - 1).max())
    assert off[1] == pytest.approx(off[0] / 10, rel=0.05)
    assert off[1] < 2e-3


def test_long_rounds_of_many_clients():
    """10,000 local steps of 50 clients with different Hessians and shared noise, the sum over steps written out."""
    target = a_target(9, clients=50, dimension=3)
    lr = 0.001
    found = moments(target, 1, 10_000, lr, 1.0, 0.9).covariance[1]
    powers, shared, own = np.broadcast_to(np.eye(3), (50, 3, 3)), np.zeros((3, 3)), np.zeros((3, 3))
    for _ in range(10_000):
        mean = np.tensordot(target.shares, powers, axes=1)
        shared += mean @ mean.T
        own += np.tensordot(target.shares, powers @ powers, axes=1)  # p_c² s_c² = p_c
        powers = powers @ (np.eye(3) - lr * target.hessians)
    np.testing.assert_allclose(found, 2 * lr * (0.81 * shared + 0.19 * own), rtol=1e-9)


def test_step_sizes_of_each_round():
    target = a_target(2)
    first = moments(target, 1, 3, 0.05)
    then = moments(target, 2, 3, 0.01, start=Moments(first.mean[1], first.covariance[1]))
    both = moments(target, 3, 3, [0.05, 0.01, 0.01])
    np.testing.assert_allclose(both.mean[1:], then.mean, rtol=1e-12)
    np.testing.assert_allclose(both.covariance[1:], then.covariance, rtol=1e-12)
    with pytest.raises(ValueError, match="one for each of 3 rounds, found 2"):
        moments(target, 3, 3, [0.1, 0.1])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"means": np.zeros((2, 3))}, r"means must be \[N, d\]"),
        ({"hessians": np.array([[[1.0, 1.0], [0.0, 1.0]]] * 2)}, "symmetric"),
        ({"hessians": np.array([np.diag([1.0, -0.1])] * 2)}, "no negative eigenvalues"),
        ({"hessians": np.array([np.diag([1.0, 0.0])] * 2)}, "their mean positive"),
        ({"means": np.full((2, 2), np.nan)}, "finite"),
        ({"shares": np.array([0.5, 0.6])}, "sum to 1"),
        ({"shares": np.array([1.5, -0.5])}, "positive numbers"),
    ],
)
def test_targets_that_are_refused(changed, message):
    parts = {"means": np.zeros((2, 2)), "hessians": np.array([np.eye(2)] * 2), "shares": np.array([0.5, 0.5])}
    with pytest.raises(ValueError, match=message):
        Target(**(parts | changed))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"lr": 2.0}, "own steps need a step size below 2, found 2.0"),
        ({"correlation": 1.1}, "from 0 to 1, found 1.1"),
        ({"scheme": "III"}, "unknown scheme 'III'"),
        ({"scheme": "II", "per_round": 3}, "from 1 to 2, found 3"),
        ({"scheme": "I"}, "per_round must be a whole number"),
        ({"per_round": 1}, "every one of 2 clients is heard"),
        ({"own_scale": [1.0, 2.0, 3.0]}, "own_scale must be one number"),
        ({"start": np.zeros(3)}, r"start must be a point \[1\]"),
        ({"steps": 0}, "steps must be a whole number of at least 1"),
    ],
)
def test_settings_that_are_refused(changed, message):
    target = Target(np.zeros((2, 1)), np.ones((2, 1, 1)), np.array([0.5, 0.5]))
    with pytest.raises(ValueError, match=message):
        moments(**({"target": target, "rounds": 1, "steps": 1, "lr": 0.1} | changed))


def test_rounds_that_never_settle_are_refused():
    """Scheme II with shares that differ: the weights do not sum to one, and a heavy client overshoots when heard."""
    target = Target(np.zeros((3, 1)), np.ones((3, 1, 1)), np.array([0.9, 0.05, 0.05]))
    growth = (1.7**2 + 2 * 0.85**2) / 3  # θ' = (1 − w)θ with w = 2.7 or 0.15
    with pytest.raises(ValueError, match=f"never settle: second moments grow by {growth:.4g} in a round"):
        stationary(target, 50, 1.0, scheme="II", per_round=1)
    assert stationary(target, 50, 0.001, scheme="II", per_round=1).covariance.item() > 1

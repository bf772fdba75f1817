"""Theorem 1 against its numbers by hand, against its own proof, and against what training really does."""

from dataclasses import replace
from itertools import combinations
from math import e, log, sqrt

import equinox as eqx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hush
from hush.theory import Constants, estimate
from hush.theory.fedpaq import (
    Bound,
    Setting,
    affordable_rounds,
    bits_budget,
    qsgd_bits,
    qsgd_variance_for,
    step_size,
    step_size_offset,
    terms_table,
    theorem_1,
    trade_off,
    with_levels,
    within_budget,
)
from hush.uplink import QSGD

CONSTANTS = Constants(
    smoothness=6.0, convexity=2.0, gradient=3.0, noise=1.5, heterogeneity=0.5, distance=4.0, dimension=9
)
SETTING = Setting(rounds=50, steps=4, clients=5, population=20, batch=8, quantiser=0.75)


def test_the_offset_is_what_the_proof_asks_of_the_step_size():
    assert step_size_offset(CONSTANTS, 4, as_printed=True) == 16
    assert step_size_offset(CONSTANTS, 1) == 16 * 3  # 16κ
    assert step_size_offset(CONSTANTS, 4) == pytest.approx(4 * sqrt(2) * 3 * 3)
    assert step_size_offset(replace(CONSTANTS, smoothness=20.0), 2) == pytest.approx(4 * 100)  # 4κ²
    flat = replace(CONSTANTS, smoothness=2.0)
    assert step_size_offset(flat, 7) == pytest.approx(4 * sqrt(2) * 6)
    assert step_size_offset(flat, 3) == 16  # 16κ; the printed 4E alone is never enough
    for kappa in (1.0, 1.7, 5.0, 40.0):
        for steps in (1, 2, 10):
            constants = replace(CONSTANTS, smoothness=2.0 * kappa)
            L, mu, eta = 2 * kappa, 2.0, float(step_size(constants, steps)(0))
            limits = [1 / (mu * steps), mu / L**2, 1 / (4 * L)] + (
                [1 / (sqrt(2) * L * (steps - 1))] if steps > 1 else []
            )
            assert eta == pytest.approx(min(limits), rel=1e-6)
            assert step_size_offset(constants, steps) > step_size_offset(constants, steps, as_printed=True)


def test_equation_18_as_printed_by_hand():
    # µ = 2, L = 6, G² = 9, σ² = 9/4, λ² = 1/4, ‖x_0 − x*‖² = 16; K = 50, E = 4, T = 200, M = 5, N = 20, b = 8, q = 3/4
    found = theorem_1(CONSTANTS, replace(SETTING, privacy=0.5), as_printed=True)
    assert found.initial == pytest.approx(16 * 16 / 40_000 * 16)
    assert found.quantisation == pytest.approx(4 * (2 * 0.75 * 9 / 5 + 0.75 * 9 / 20) * 4 / 200)
    assert found.gradient_noise == pytest.approx(4 * (4 * e * 2.25 / 40 + 2.25 / 160) / 200)
    assert found.heterogeneity == pytest.approx(4 * (3 * 6 * 0.25 / 2) / 200 + 128 * e * 0.25 / 20 * 3 / 200)
    assert found.drift == pytest.approx(128 * 9 / 4 * 9 / 200)
    assert found.total == pytest.approx(sum(found))
    assert theorem_1(CONSTANTS, SETTING, as_printed=True).privacy == 0


def test_the_corrected_bound_by_hand():
    # γ0 = 4√2·3·3 = 50.911688…, T + γ0 = 250.911688…, (N − M)/(MN) = 0.15, 16/µ² = 4.
    found = theorem_1(CONSTANTS, replace(SETTING, privacy=0.5))
    gamma0 = 50.91168824543142
    assert found.initial == pytest.approx(gamma0**2 / (200 + gamma0) ** 2 * 16)
    assert found.quantisation == pytest.approx(4 * (2 * 0.75 * 9 * 0.15 + 0.75 * 9 / 20) * 4 / (200 + gamma0))
    assert found.gradient_noise == pytest.approx(4 * (4 * e * 2.25 / 8 * 0.15 + 2.25 / 160) / (200 + gamma0))
    assert found.heterogeneity == pytest.approx(4 * (2.25 + 8 * e * 0.25 * 0.15 * 4) / (200 + gamma0))
    assert found.drift == pytest.approx(4 * 8 * 9 * 9 / (200 + gamma0))
    assert found.privacy == pytest.approx(4 * 1.75 * 9 / 5 * 0.5 / 4 / (200 + gamma0))
    assert found.total == pytest.approx(sum(found))


def test_the_constant_of_the_privacy_term():
    b, n, epsilon, delta, E, M, G2, d, q, T, mu = 8, 100, 0.5, 1e-4, 4, 5, 9, 9, 0.75, 200, 2.0
    spared = G2 * b**2 * log(1.25 * E * b / (n * delta)) / (n**2 * epsilon**2)
    eq_51 = 128 * spared * E**4  # over η², with ∆ = 4ηEG
    printed = theorem_1(CONSTANTS, replace(SETTING, privacy=eq_51), as_printed=True).privacy
    assert printed == pytest.approx(4096 * d * (1 + q) * spared / M * E**3 / T)
    # ∆ = 2ηEG is four times less noise: 1024/µ² with Lemma 1's 2/M, 512/µ² with the noise counted right, 1/M.
    corrected = theorem_1(CONSTANTS, replace(SETTING, privacy=eq_51 / 4)).privacy
    gamma0 = step_size_offset(CONSTANTS, E)
    assert corrected == pytest.approx(512 / mu**2 * d * (1 + q) * spared / M * E**3 / (T + gamma0))


@pytest.mark.parametrize("steps", [1, 2, 10])
@pytest.mark.parametrize("kappa", [1.0, 3.0, 30.0])
def test_corrections_only_ever_add_but_for_what_was_spared_exactly(steps, kappa):
    """With N ≫ M, and γ0 left out of T + γ0 as the paper does, no corrected term is below the printed one."""
    constants = replace(CONSTANTS, smoothness=2 * kappa)
    setting = replace(SETTING, steps=steps, population=10**9)
    printed, corrected = theorem_1(constants, setting, as_printed=True), theorem_1(constants, setting)
    T = setting.rounds * steps
    stretch = (T + step_size_offset(constants, steps)) / T
    assert corrected.initial * stretch**2 >= printed.initial * (1 - 1e-9)
    for name in ("gradient_noise", "quantisation", "drift"):
        assert getattr(corrected, name) * stretch == pytest.approx(getattr(printed, name), rel=1e-6)
    assert corrected.heterogeneity * stretch > printed.heterogeneity


def test_with_everyone_nothing_is_lost_to_sampling():
    everyone = theorem_1(CONSTANTS, replace(SETTING, clients=20, quantiser=0.0))
    scale = 4 / (200 + step_size_offset(CONSTANTS, 4))
    assert everyone.gradient_noise == pytest.approx(scale * 2.25 / 8 / 20)
    assert everyone.heterogeneity == pytest.approx(scale * 2.25)
    assert theorem_1(CONSTANTS, replace(SETTING, batch=None)).gradient_noise == 0


def cohort_variance(messages, clients):
    """E‖mean of a cohort − mean of all‖² over all cohorts of so many clients."""
    means = [np.mean(chosen, axis=0) for chosen in combinations(messages, clients)]
    return np.mean(np.sum((np.array(means) - messages.mean(0)) ** 2, axis=1))


def test_lemma_1_loses_heterogeneity_at_one_step():
    """E = 1, exact gradients: a cohort's mean is off by sampling alone. Printed, the bound on it is 0."""
    gradients = np.random.default_rng(0).normal(size=(6, 3))
    lambda2 = np.mean(np.sum((gradients - gradients.mean(0)) ** 2, axis=1))
    constants = replace(CONSTANTS, heterogeneity=float(np.sqrt(lambda2)))
    setting = Setting(rounds=10, steps=1, clients=2, population=6)

    def sampling(as_printed):  # what a bound leaves for it, over η²
        length = 10 if as_printed else 10 + step_size_offset(constants, 1)
        return theorem_1(constants, setting, as_printed).heterogeneity * length / 4 - 3 * 6 / 2 * lambda2

    measured = cohort_variance(gradients, 2)
    assert measured == pytest.approx((6 - 2) / (2 * 5) * lambda2)
    assert sampling(as_printed=True) == pytest.approx(0, abs=1e-9)
    assert sampling(as_printed=False) == pytest.approx(8 * e * (6 - 2) / (2 * 6) * lambda2)
    assert sampling(as_printed=False) > measured


def test_noise_and_quantiser_make_one_plus_q_times_the_noise_over_m():
    """Messages Q(∆_i + w_i) of 2 of 4 clients; over 200,000 draws the mean is right to 0.3 %, so 2 % fails it never."""
    draws, times, N, M, d, q, std = np.random.default_rng(1), 200_000, 4, 2, 3, 0.6, 0.7
    moves = draws.normal(size=(N, d))
    noisy = moves + std * draws.normal(size=(times, N, d))
    sent = noisy * (draws.uniform(size=(times, N, 1)) < 1 / (1 + q)) * (1 + q)  # unbiased, off by q‖v‖² exactly
    chosen = np.argsort(draws.uniform(size=(times, N)), axis=1)[:, :M]
    received = np.take_along_axis(sent, chosen[:, :, None], 1).mean(1)
    measured = np.mean(np.sum((received - moves.mean(0)) ** 2, axis=1))
    without = cohort_variance(moves, M) + q * np.mean(np.sum(moves**2, axis=1)) / M
    expected = (1 + q) * d * std**2 / M
    assert measured - without == pytest.approx(expected, rel=0.02)
    bound = theorem_1(replace(CONSTANTS, dimension=d), Setting(10, 2, M, N, quantiser=q, privacy=std**2))
    assert bound.privacy * 2 * (20 + step_size_offset(CONSTANTS, 2)) / 4 == pytest.approx(expected)


def test_what_grows_with_local_steps():
    """Eq 19 and Remarks 6 and 7: λ² grows with E, and the E² term is G²'s, there without any heterogeneity."""
    for as_printed in (True, False):
        by_steps = [theorem_1(CONSTANTS, replace(SETTING, rounds=400 // E, steps=E), as_printed) for E in (1, 2, 4, 8)]
        lengths = [1 if as_printed else 400 + step_size_offset(CONSTANTS, E) for E in (1, 2, 4, 8)]
        grown = [bound.heterogeneity * length for bound, length in zip(by_steps, lengths, strict=True)]
        assert np.all(np.diff(grown) > 0)
        alike = replace(CONSTANTS, heterogeneity=0.0)
        same = [theorem_1(alike, replace(SETTING, rounds=400 // E, steps=E), as_printed) for E in (1, 2, 4, 8)]
        assert [bound.drift for bound in same] == [bound.drift for bound in by_steps]
        assert same[-1].drift > 0 == same[-1].heterogeneity
        assert theorem_1(replace(CONSTANTS, gradient=0.0), SETTING, as_printed).drift == 0
        more = replace(SETTING, quantiser=1.5)
        assert (
            theorem_1(CONSTANTS, more, as_printed).quantisation > theorem_1(CONSTANTS, SETTING, as_printed).quantisation
        )
        fewer = replace(SETTING, clients=2)
        assert theorem_1(CONSTANTS, fewer, as_printed).total > theorem_1(CONSTANTS, SETTING, as_printed).total


def test_equation_19_has_the_wrong_sign():
    """T times the λ² terms, M = αE, N and T large: they never fall with E, as c > 0 would have it."""
    T, alpha, N = 10**9, 3, 10**12
    settings_ = {E: Setting(T // E, E, alpha * E, N, batch=8, quantiser=0.75) for E in (1, 2, 5, 10)}
    lambda2 = 0.25
    for as_printed, c in ((True, -128 * e / (4 * alpha)), (False, 0.0)):
        found = {E: T * theorem_1(CONSTANTS, here, as_printed).heterogeneity for E, here in settings_.items()}
        b = 4 * (9 + 8 * e / alpha)
        for E, value in found.items():
            assert value == pytest.approx(b * lambda2 + c * lambda2 / E, rel=1e-5)
    claimed, right = trade_off(CONSTANTS, settings_[1], as_printed=True), trade_off(CONSTANTS, settings_[1])
    assert claimed.c > 0 == right.c
    assert claimed._replace(c=0.0) == right
    for E, here in settings_.items():  # E² for (E − 1)², σ² for σ²/E: above, and near for large E
        total = T * theorem_1(CONSTANTS, here).total
        assert total <= right(E, 0.5) * (1 + 1e-5)
        assert right(E, 0.0) == pytest.approx(right.a * E**2 + right.d)
    assert T * theorem_1(CONSTANTS, Setting(T // 1000, 1000, 3000, N)).total == pytest.approx(
        trade_off(CONSTANTS, Setting(1, 1, 3, N))(1000, 0.5), rel=0.01
    )


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.integers(0, 10**6), st.integers(1, 10**4), st.floats(0.1, 1e9), st.floats(0, 1e15))
def test_a_budget_and_back(rounds, clients, bits, budget):
    assert affordable_rounds(bits_budget(rounds, clients, bits), clients, bits) == rounds
    found = affordable_rounds(budget, clients, bits)
    assert bits_budget(found, clients, bits) <= budget < bits_budget(found + 1, clients, bits)


def test_qsgd_variance_and_bits():
    assert with_levels(SETTING, 1, 7850).quantiser == pytest.approx(88.6, abs=0.01)  # far above Assumption 4's 1
    assert with_levels(SETTING, 89, 7850).quantiser < 1 < with_levels(SETTING, 88, 7850).quantiser
    assert with_levels(SETTING, 200, 7850).quantiser == pytest.approx(7850 / 200**2)
    for levels in (1, 10, 255):
        assert qsgd_variance_for(qsgd_bits(levels, 50), 50) == pytest.approx(QSGD(levels).variance(50))
    assert qsgd_variance_for(32 + 7850 * 3, 7850) == pytest.approx(2 * sqrt(7850) / (2**3 - 1))
    fewer = [qsgd_variance_for(bits, 50) for bits in (100, 200, 300)]
    assert np.all(np.diff(fewer) < 0)


def test_a_setting_under_a_budget():
    quantised = with_levels(SETTING, 1, 9)
    assert (quantised.quantiser, quantised.bits) == (3.0, qsgd_bits(1, 9))
    assert within_budget(SETTING, 1e5, 9).rounds == 69  # ⌊10⁵ / (5 · 32 · 9)⌋
    assert within_budget(quantised, 1e5, 9).rounds == int(1e5 / (5 * (9 * np.log2(3) + 32)))
    with pytest.raises(ValueError, match="5 clients × 288 bits make no round with 1000 bits"):
        within_budget(SETTING, 1000, 9)


@pytest.mark.parametrize("over", ["steps", "clients", "levels", "rate"])
@pytest.mark.parametrize("keep", ["rounds", "iterations", "bits"])
def test_the_table_is_theorem_1_row_by_row(over, keep):
    values = [0.08, 0.4, 1.0] if over == "rate" else [1, 3, 12]
    setting = replace(SETTING, examples=100)
    found = terms_table(CONSTANTS, setting, over, values, keep=keep)
    assert list(found.columns) == [over, "rounds", *Bound._fields, "total"]
    assert found[over].tolist() == values
    np.testing.assert_allclose(found[list(Bound._fields)].sum(axis=1), found["total"])
    for value, row in zip(values, found.to_dict("records"), strict=True):
        changed = {
            "steps": lambda value: {"steps": value},
            "clients": lambda value: {"clients": value},
            "levels": lambda value: {"quantiser": QSGD(value).variance(9), "bits": qsgd_bits(value, 9)},
            "rate": lambda value: {"batch": round(value * 100 / 4)},
        }[over](value)
        here = replace(setting, **changed)
        rounds = {
            "rounds": 50,
            "iterations": 200 // here.steps,
            "bits": int(50 * 5 * 32 * 9 / (here.clients * (here.bits or 32 * 9))),
        }[keep]
        bound = theorem_1(CONSTANTS, replace(here, rounds=rounds))
        assert row == {over: value, "rounds": rounds, **bound._asdict(), "total": bound.total}
    printed = terms_table(CONSTANTS, setting, over, values, keep=keep, as_printed=True)
    assert not np.allclose(printed["total"], found["total"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: replace(CONSTANTS, convexity=0.0), "convexity must be a positive number, found 0.0"),
        (lambda: replace(CONSTANTS, smoothness=1.0), "smoothness .* at least 2.0, found 1.0"),
        (lambda: replace(CONSTANTS, noise=-1.0), "noise must be a number of at least 0, found -1.0"),
        (lambda: replace(SETTING, clients=21), "clients must be a whole number from 1 to 20, found 21"),
        (lambda: replace(SETTING, steps=0), "steps must be a whole number of at least 1, found 0"),
        (lambda: replace(SETTING, quantiser=-0.1), "quantiser must be a number of at least 0"),
        (lambda: step_size_offset(CONSTANTS, 0), "steps must be a whole number"),
        (lambda: terms_table(CONSTANTS, SETTING, "step", [1]), "unknown thing to vary 'step'; did you mean 'steps'"),
        (lambda: terms_table(CONSTANTS, SETTING, "steps", [1], keep="bit"), "unknown thing to keep 'bit'"),
        (lambda: terms_table(CONSTANTS, SETTING, "rate", [0.1]), "how many examples a client holds, found None"),
        (lambda: qsgd_variance_for(32, 10), "bits must be more than the 32 of the norm, found 32"),
        (lambda: affordable_rounds(-1, 1, 1), "budget must be a number of at least 0, found -1"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def clients_between(mu, L, clients, apart, seed):
    """Quadratics with eigenvalues from µ to L, every client turned its own way, with minima so far apart."""
    draws = np.random.default_rng(seed)
    turns = [np.linalg.qr(draws.normal(size=(3, 3)))[0] for _ in range(clients)]
    A = np.array([np.diag(np.sqrt(np.linspace(mu, L, 3))) @ turn for turn in turns])
    minima = 2 + apart * draws.normal(size=(clients, 3))
    return A, np.einsum("nij,nj->ni", A, minima)


def in_a_ball(A, b):
    """The constants, and x*, proved: gradient steps below 1/L never leave the ball of this radius about x*.

    For y' = y − η∇f_i(y): ‖y' − x*‖ ≤ (1 − ηµ)‖y − x*‖ + η‖∇f_i(x*)‖, and means of models stay within as well.
    """
    H = np.einsum("nij,nik->njk", A, A)
    best = np.linalg.solve(H.mean(0), np.einsum("nij,ni->nj", A, b).mean(0))
    slopes = np.linalg.norm(H @ best - np.einsum("nij,ni->nj", A, b), axis=1)
    eigenvalues = np.linalg.eigvalsh(H)
    L, mu = eigenvalues.max(), eigenvalues.min()
    radius = max(np.linalg.norm(best), slopes.max() / mu)
    apart = np.linalg.norm(H - H.mean(0), ord=2, axis=(1, 2)) * radius + slopes
    constants = Constants(
        smoothness=float(L),
        convexity=float(mu),
        gradient=float((L * radius + slopes).max()),
        noise=0.0,
        heterogeneity=float(np.sqrt(np.mean(apart**2))),
        distance=float(np.linalg.norm(best)),
        dimension=3,
    )
    return constants, best


def measured(algorithm, problem, rounds, repetitions, best):
    """The mean over repetitions of ‖x_k − x*‖² after rounds 1, 2, …, and the models themselves."""
    models = hush.run(
        algorithm, problem, rounds, repetitions=repetitions, evaluate_every=1, keep_models=True, progress=False
    ).history
    models = models[models.shape[0] - rounds :]
    return np.mean(np.sum((models.astype(float) - best) ** 2, axis=2), axis=1), models


@pytest.mark.parametrize(
    ("clients", "steps", "L", "apart"),
    [
        (None, 1, 3.0, 0.3),
        (2, 4, 3.0, 0.3),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((None, 1, 1.0, 0.0), (2, 1, 3.0, 0.3), (None, 4, 3.0, 0.3))
        ),
    ],
)
def test_training_never_goes_above_the_bound(clients, steps, L, apart):
    """Exact gradients, the constants proved for all models that training can meet."""
    A, b = clients_between(1.0, L, 5, apart, seed=2)
    constants, best = in_a_ball(A, b)
    algorithm = hush.fedavg(clients, steps=steps, lr=step_size(constants, steps))
    found, _ = measured(algorithm, hush.tasks.quadratic(A, b), 25, 8, best)
    bound = [theorem_1(constants, Setting(k, steps, clients or 5, 5)).total for k in range(1, 26)]
    assert np.all(found <= bound)
    if apart == 0:  # nothing but the first term: the bound is near
        assert found[0] > 0.4 * bound[0]


@pytest.mark.slow
def test_training_with_batches_and_a_quantiser_stays_below_the_bound_too():
    """The constants are estimates over the models that training met."""
    A, b = clients_between(1.0, 3.0, 5, 0.3, seed=3)
    problem = hush.tasks.quadratic(A, b)
    proved, best = in_a_ball(A, b)
    plain = hush.fedavg(2, steps=3, lr=step_size(proved, 3), batch=1, sampling="replacement")
    algorithm = eqx.tree_at(lambda a: a.uplink, plain, (hush.uplink.QSGD(2),), is_leaf=lambda leaf: leaf == ())
    found, models = measured(algorithm, problem, 25, 16, best)
    constants = estimate(problem, batch=1, model=models[::6, ::4].reshape(-1, 3))
    assert constants.condition == pytest.approx(proved.condition, rel=1e-4)
    setting = Setting(1, 3, 2, 5, batch=1, quantiser=QSGD(2).variance(3))
    bound = [theorem_1(constants, replace(setting, rounds=k)) for k in range(1, 26)]
    assert np.all(found <= [each.total for each in bound])
    assert all(min(each[:5]) > 0 for each in bound)


def test_the_printed_step_size_breaks_the_printed_bound():
    """κ = 6, E = 1, all clients alike: γ0 = 4E starts with η = 1/µ = 6/L, and the model flies off."""
    A, b = np.broadcast_to(np.diag(np.sqrt([1.0, 1.0, 6.0])), (2, 3, 3)), np.ones((2, 3))
    constants, best = in_a_ball(A, b)
    problem = hush.tasks.quadratic(A, b)
    assert constants.heterogeneity == pytest.approx(0, abs=1e-12)
    for as_printed in (True, False):
        algorithm = hush.fedavg(steps=1, lr=step_size(constants, 1, as_printed))
        found, _ = measured(algorithm, problem, 12, 1, best)
        bound = [theorem_1(constants, Setting(k, 1, 2, 2), as_printed).total for k in range(1, 13)]
        if as_printed:
            assert found.max() > 1000 * found[0]
            assert found[7] > 1000 * bound[7]
        else:
            assert np.all(found <= bound)

"""FedPAQ's privacy term: sensitivity by training twice, noise by an accountant, and Theorem 1's last constant."""

from dataclasses import replace
from math import exp, log, sqrt

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from hush.theory import Constants
from hush.theory.fedpaq import Setting, step_size_offset, theorem_1
from hush.theory.fedpaq_privacy import (
    epsilon_of_equation_16,
    least_multiplier,
    perturbation,
    printed_multiplier,
    privacy_term,
    sensitivity,
    with_privacy,
)

CONSTANTS = Constants(
    smoothness=6.0, convexity=2.0, gradient=3.0, noise=1.5, heterogeneity=0.5, distance=4.0, dimension=9
)
SETTING = Setting(rounds=50, steps=4, clients=5, population=20, batch=8, examples=100, quantiser=0.75)


def clipped(gradients, bound):
    """Every row's norm brought to the bound at the most."""
    return gradients * np.minimum(1, bound / np.maximum(np.linalg.norm(gradients, axis=1, keepdims=True), 1e-300))


def train(example_gradients, batches, lr, bound, dimension):
    """Local steps with per-example clipping from 0; `example_gradients(x, rows)` is [b, d]."""
    x = np.zeros(dimension)
    for rows in batches:
        x = x - lr * clipped(example_gradients(x, rows), bound).mean(0)
    return x


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 4), st.sampled_from(["subset", "passes", "replacement"])
)
def test_no_example_moves_an_update_further(seed, steps, batch, kind):
    """A wavy loss that is not convex, one example replaced by the opposite of what it was, the same batches."""
    draws, lr, bound = np.random.default_rng(seed), 0.5, 1.0
    n = steps * batch if kind == "subset" else batch + 2
    inputs = 5 * draws.normal(size=(n, 3))
    other = inputs.copy()
    other[0] = -5 * inputs[0]
    if kind == "replacement":
        batches = draws.integers(0, n, size=(steps, batch))
    elif kind == "subset":
        batches = draws.permutation(n).reshape(steps, batch)
    else:
        batches = np.array([draws.permutation(n)[:batch] for _ in range(steps)])

    def gradients(data):
        return lambda x, rows: np.cos(3 * data[rows] @ x)[:, None] * data[rows] + 4 * np.sin(7 * x + data[rows])

    ends = [train(gradients(data), batches, lr, bound, 3) for data in (inputs, other)]
    case = "any" if kind == "replacement" else "distinct"
    assert np.linalg.norm(ends[0] - ends[1]) <= sensitivity(lr, bound, steps, batch, case=case) + 1e-9


@pytest.mark.parametrize("steps", [1, 2, 7])
@pytest.mark.parametrize("batch", [1, 5])
def test_the_sensitivity_is_met(steps, batch):
    """The others' loss is −|x|: one example turns the first step left or right, and all run on from there."""
    batches = np.arange(steps * batch).reshape(steps, batch)

    def gradients(first):
        return lambda x, rows: np.where(rows[:, None] == 0, first, -3 * np.sign(x))

    left, right = (train(gradients(first), batches, 0.1, 2.0, 1) for first in (9.0, -9.0))
    assert abs(left - right)[0] == pytest.approx(sensitivity(0.1, 2.0, steps, batch))


def test_a_batch_with_the_example_in_every_place_needs_the_wider_bound():
    batches = np.zeros((3, 4), dtype=int)  # drawn with replacement, all the same
    ends = [train(lambda x, rows, s=s: np.full((4, 1), s), batches, 0.1, 1.0, 1) for s in (2.0, -2.0)]
    moved = abs(ends[0] - ends[1])[0]
    assert moved == pytest.approx(sensitivity(0.1, 1.0, 3, 4, case="any"))
    assert moved > sensitivity(0.1, 1.0, 3, 4)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 4), st.booleans(), st.floats(0.05, 1.0))
def test_a_scalar_glm_never_spreads_two_runs(seed, steps, batch, again, share):
    """Logistic regression, clipped: L = ¼ max‖a‖², η up to 2/L, the example in one batch or in all."""
    draws, bound = np.random.default_rng(seed), 0.5
    n = steps * batch
    inputs, labels = 2 * draws.normal(size=(n, 3)), draws.choice([-1.0, 1.0], size=n)
    other, flipped = inputs.copy(), labels.copy()
    other[0], flipped[0] = 2 * draws.normal(size=3), -labels[0]
    L = float(max(np.sum(inputs**2, axis=1).max(), np.sum(other**2, axis=1).max()) / 4)
    batches = draws.permutation(n).reshape(steps, batch)
    if again:
        batches[:, 0] = 0
        batches[:, 1:] = draws.integers(1, n, size=(steps, batch - 1)) if n > 1 else 0
    lr, uses = share * 2 / L, steps if again else 1

    def gradients(data, signs):
        return lambda x, rows: (-signs[rows] / (1 + np.exp(signs[rows] * (data[rows] @ x))))[:, None] * data[rows]

    ends = [train(gradients(*each), batches, lr, bound, 3) for each in ((inputs, labels), (other, flipped))]
    allowed = sensitivity(lr, bound, steps, batch, case="scalar_glm", uses=uses, smoothness=L)
    assert np.linalg.norm(ends[0] - ends[1]) <= allowed + 1e-9


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.floats(0.001, 1), st.floats(0.1, 5), st.integers(1, 50), st.integers(1, 100))
def test_sensitivities_in_order(lr, bound, steps, batch):
    once, general, printed = (
        sensitivity(lr, bound, steps, batch, case="scalar_glm", smoothness=1.0),
        sensitivity(lr, bound, steps, batch),
        sensitivity(lr, bound, steps, batch, as_printed=True),
    )
    widest = sensitivity(lr, bound, steps, batch, case="any")
    assert once <= general * (1 + 1e-12)
    assert general <= widest * (1 + 1e-12)
    assert printed == pytest.approx(2 * widest)


def gaussian_delta(multiplier, epsilon):
    """δ of a Gaussian of this multiplier: Balle and Wang, Theorem 8."""
    z = multiplier
    return norm.cdf(1 / (2 * z) - epsilon * z) - exp(epsilon) * norm.cdf(-1 / (2 * z) - epsilon * z)


@pytest.mark.parametrize(("epsilon", "rate"), [(0.3, 1.0), (1.0, 0.1), (2.0, 0.2), (8.0, 0.05)])
def test_the_least_noise_of_one_release(epsilon, rate):
    """γ δ₀(ε₀) is δ exactly, ε₀ = log(1 + (e^ε − 1)/γ)."""
    z = least_multiplier(epsilon, 1e-4, rate)
    assert rate * gaussian_delta(z, log(1 + (exp(epsilon) - 1) / rate)) == pytest.approx(1e-4, rel=1e-3)
    if epsilon / (2 * rate) <= 1:  # where eqs 13 and 15 hold, eq 16 is only too careful
        assert z <= printed_multiplier(epsilon, 1e-4, rate)


def test_what_equation_16_really_gives():
    assert epsilon_of_equation_16(1.0, 1e-4, 0.1) == pytest.approx(2.25, abs=0.005)
    assert epsilon_of_equation_16(2.0, 1e-4, 0.1) == pytest.approx(8.7, abs=0.05)
    assert epsilon_of_equation_16(0.1, 1e-4, 0.1) < 0.1
    z, epsilon = printed_multiplier(1.0, 1e-4, 0.1), epsilon_of_equation_16(1.0, 1e-4, 0.1)
    assert 0.1 * gaussian_delta(z, log(1 + (exp(epsilon) - 1) / 0.1)) == pytest.approx(1e-4, rel=1e-3)
    assert z < least_multiplier(1.0, 1e-4, 0.1)


def test_noise_over_many_rounds():
    """Without subsets k releases are one of 1/√k the noise; with them a real pair's ε is below the target, not far."""
    once = least_multiplier(1.0, 1e-4)
    assert least_multiplier(1.0, 1e-4, rounds=100) == pytest.approx(10 * once)
    z = least_multiplier(1.0, 1e-4, rate=0.1, rounds=100)
    assert least_multiplier(1.0, 1e-4, rate=0.1) < z < 10 * once
    pair = from_gaussian_mechanism(z, sampling_prob=0.1, value_discretization_interval=1e-3)
    assert 0.9 < pair.self_compose(100).get_epsilon_for_delta(1e-4) < 1.0


def test_the_term_by_hand():
    # γ = 0.32, E = 4, b = 8, C = 3: ∆/η = 2·3·(3 + 1/8)
    arguments = {"delta": 1e-4, "rate": 0.32, "bound": 3.0, "steps": 4, "batch": 8}
    printed = privacy_term(0.5, **arguments, as_printed=True)
    assert printed == pytest.approx(128 * 9 * 8**2 * log(1.25 * 4 * 8 / (100 * 1e-4)) / (100**2 * 0.5**2) * 4**4)
    assert privacy_term(0.5, **arguments, noise_multiplier=2.0) == pytest.approx((2 * 2 * 3 * 3.125) ** 2)
    assert privacy_term(0.5, **arguments, case="any", noise_multiplier=2.0) == pytest.approx((2 * 2 * 3 * 4) ** 2)
    assert privacy_term(0.5, **arguments) == pytest.approx((least_multiplier(0.5, 1e-4, 0.32) * 18.75) ** 2)
    many = privacy_term(0.5, **{**arguments, "rate": 1.0}, rounds=9)
    assert many == pytest.approx(9 * privacy_term(0.5, **{**arguments, "rate": 1.0}), rel=1e-6)


def test_theorem_1_as_printed_gets_its_4096():
    # C in the place of G, b = 8, |D| = 100, ε = ½, δ = 1e-4
    found = theorem_1(CONSTANTS, with_privacy(SETTING, 0.5, 1e-4, bound=3.0, as_printed=True), as_printed=True)
    spared = 9 * 3.0**2 * 8**2 * 1.75 * log(1.25 * 4 * 8 / (100 * 1e-4)) / (5 * 100**2 * 0.5**2)
    assert found.privacy == pytest.approx(4096 * spared * 4**3 / 200)


def test_theorem_1_corrected_has_512_over_mu_squared():
    """Eq 16's noise with Δ = 2ηEC and (1 + q)dς²/M a round; 2(1 + q)dς²/M would make it 1024/µ²."""
    z = printed_multiplier(0.5, 1e-4, 0.32)
    term = privacy_term(0.5, 1e-4, 0.32, 3.0, 4, 8, case="any", noise_multiplier=z)
    found = theorem_1(CONSTANTS, replace(SETTING, privacy=term)).privacy
    spared = 9 * 3.0**2 * 8**2 * 1.75 * log(1.25 * 4 * 8 / (100 * 1e-4)) / (5 * 100**2 * 0.5**2)
    length = 200 + step_size_offset(CONSTANTS, 4)
    assert found == pytest.approx(512 / 2.0**2 * spared * 4**3 / length)
    # And with the least noise and the sensitivity that can be proved: 64/µ² · d(1 + q)C²z²(E − 1 + 1/b)²/(ME).
    found = theorem_1(CONSTANTS, with_privacy(SETTING, 0.5, 1e-4, bound=3.0)).privacy
    z = least_multiplier(0.5, 1e-4, 0.32)
    assert found == pytest.approx(64 / 4 * 9 * 1.75 * 9 * z**2 * 3.125**2 / (5 * 4) / length)


@pytest.mark.parametrize("batch", [1, 20])
def test_noise_at_the_steps_is_never_worse_but_for_a_scalar_glm(batch):
    for steps in range(1, 51):
        for uses in {1, steps}:
            output, step = perturbation(0.1, 1.0, steps, batch, uses=uses)
            assert output / step == pytest.approx(((steps - 1) * batch + 1) ** 2 / (steps * uses))
            assert step <= output * (1 + 1e-12)
            assert (step == pytest.approx(output)) == (steps == 1 or (batch == 1 and uses == steps))
            output, step = perturbation(0.1, 1.0, steps, batch, uses=uses, case="scalar_glm", smoothness=20.0)
            assert output <= step * (1 + 1e-12)
            assert output / step == pytest.approx(uses / steps)


@pytest.mark.parametrize("uses", [1, 6])
def test_both_places_of_the_noise_are_as_private_and_as_loud_as_said(uses):
    """Six steps of a loss without curvature. 100,000 draws: a variance right to 0.5 %, so 3 % fails it never."""
    steps, batch, lr, bound, z = 6, 4, 0.1, 2.0, 1.3
    found = perturbation(lr, bound, steps, batch, z, uses=uses)
    draws = np.random.default_rng(8)
    at_steps = z * sqrt(uses) * 2 * bound / batch
    moved = lr * at_steps * draws.normal(size=(100_000, steps)).sum(axis=1)
    assert np.var(moved) == pytest.approx(found.step, rel=0.03)
    once = z * sensitivity(lr, bound, steps, batch) * draws.normal(size=100_000)
    assert np.var(once) == pytest.approx(found.output, rel=0.03)
    epsilons = []
    for multiplier, releases in ((z, 1), (at_steps / (2 * bound / batch), uses)):
        accountant = rdp.RdpAccountant()
        accountant.compose(dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(multiplier), releases))
        epsilons.append(accountant.get_epsilon(1e-5))
    assert epsilons[0] == pytest.approx(epsilons[1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sensitivity(0.1, 1.0, 2, 0), "batch must be a whole number"),
        (lambda: sensitivity(0.1, 1.0, 2, 4, case="glm"), "unknown case 'glm'; known: any, distinct, scalar_glm"),
        (lambda: sensitivity(0.1, 1.0, 2, 4, uses=3), "uses must be a whole number from 1 to 2, found 3"),
        (lambda: sensitivity(0.1, 1.0, 2, 4, case="scalar_glm"), "scalar_glm needs lr of at most 2/smoothness"),
        (lambda: sensitivity(0.5, 1.0, 2, 4, case="scalar_glm", smoothness=5.0), "lr 0.5 and smoothness 5.0"),
        (lambda: least_multiplier(1.0, 0.2, 0.1), "delta must be above 0 and below the rate 0.1, found 0.2"),
        (lambda: privacy_term(1.0, 1e-4, 1.1, 1.0, 2, 4), "rate must be above 0 and at most 1, found 1.1"),
        (lambda: privacy_term(1.0, 1e-4, 0.1, 1.0, 2, 4, 5, as_printed=True), "as printed, .* is one round's"),
        (lambda: with_privacy(replace(SETTING, batch=None), 1.0, 1e-4, 1.0), "privacy needs a batch"),
    ],
)
def test_what_fedpaq_s_privacy_refuses(make, message):
    with pytest.raises(ValueError, match=message):
        make()

"""The power rules against the paper's equations, the estimators they make, and what no gain may break.

Every closed form is written out here a second time, with the papers' symbols, in double precision.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.channel.fading import Estimated, Gains, GaussianReal, Groups, Rayleigh, from_decibel
from hush.channel.optimal import LeastSquares
from hush.channel.power import (
    DIVISORS,
    Alignment,
    BestBound,
    FullPower,
    Given,
    Largest,
    Scaling,
    TruncatedInversion,
    effective,
    of_clients,
)
from hush.core.contract import Statistics
from hush.core.keys import root

RULES = {
    "alignment": Alignment(),
    "truncated_inversion": TruncatedInversion(0.5),
    "full_power": FullPower(),
    "full_power_largest": FullPower(Largest(2)),
    "full_power_given": FullPower(Given(3.0)),
    "full_power_best_bound": FullPower(BestBound(0.5)),
    "least_squares": LeastSquares(),
}
KNOWN = Statistics(0.04, 0.3)
NOISE = 0.7
PSI = np.array([2.0, -0.8, 0.1, 1.5, -4.0])


@jax.jit
def scale(rule, psi, weights, active, noise_variance, statistics):
    return rule(psi, weights, active, noise_variance, statistics)


def scaling(rule, psi, weights=None, active=None, noise_variance=NOISE, statistics=KNOWN):
    """A round of these ψ; the mean of all active clients unless told otherwise. Padded, so that programs are shared."""
    psi = np.asarray(psi, np.float32)
    active = np.ones(len(psi), bool) if active is None else np.asarray(active)
    weights = active / max(active.sum(), 1) if weights is None else weights
    padding = (0, max(0, 5 - len(psi)))
    padded = [jnp.asarray(np.pad(part, padding)) for part in (psi, np.asarray(weights, np.float32), active)]
    answer = scale(rule, *padded, noise_variance, statistics)
    return Scaling(np.asarray(answer.transmit, float)[: len(psi)], float(answer.receive))


def truth(name, psi):
    """√α_k and c of the mean, by the equations."""
    psi, count = np.abs(psi), len(psi)
    if name == "alignment":
        return psi.min() / psi, count * psi.min()
    if name == "truncated_inversion":
        loud = psi >= 0.5
        return np.where(loud, psi[loud].min() / psi, 0), loud.sum() * psi[loud].min()
    if name == "least_squares":  # the level κ by bisection of its equation N0 = v² Σ ψ (κ − ψ)₊
        low, high = psi.min(), psi.max() + NOISE / (KNOWN.variance * psi.sum()) + psi.max()
        for _ in range(200):
            middle = (low + high) / 2
            above = KNOWN.variance * np.sum(psi * np.maximum(middle - psi, 0)) > NOISE
            low, high = (low, middle) if above else (middle, high)
        taken = KNOWN.variance * low + KNOWN.mean_square * np.minimum(psi, low).sum()
        return np.minimum(1, low / psi), count * taken / (KNOWN.variance + KNOWN.mean_square * count)
    total, square = psi.sum(), np.sum(psi**2)
    divisors = {"": total, "_largest": 6.0, "_given": 3.0, "_best_bound": total + 0.5 * square / total}
    return np.ones(count), divisors[name.removeprefix("full_power")]


def test_every_rule_is_here():
    assert {type(rule.divisor) for rule in RULES.values() if isinstance(rule, FullPower)} == set(DIVISORS.values())
    assert [name for name, rule in RULES.items() if rule.aware] == ["least_squares"]


@pytest.mark.parametrize("name", RULES)
def test_the_equations(name):
    amplitude, divisor = truth(name, PSI)
    transmit, receive = scaling(RULES[name], PSI)
    np.testing.assert_allclose(transmit, np.sign(PSI) * amplitude, rtol=1e-5)
    assert receive == pytest.approx(1 / divisor, rel=1e-5)


@pytest.mark.parametrize("name", RULES)
def test_mean_and_variance_of_the_estimator(name):
    """The air, played: y = Σ h_k x_k + n, ĝ = y/c, for gradients with mean g and E‖g_k‖² = (1 + ε)‖g‖².

    Var ĝ = (Σa_k²) ε‖g‖² + d N0/c²: paper alignment, section III.A.2, with a_k = ψ_k/c. Bounds of five standard errors:
    for one seed in a hundred thousand a right rule fails.
    """
    draws, (rounds, d) = np.random.default_rng(5), (20_000, 3)
    power, bound = np.array([4.0, 1.0, 0.25, 9.0, 4.0]), 2.0
    gains = PSI * bound / np.sqrt(power)
    g, epsilon = np.array([0.2, -0.1, 0.3]), 0.5
    deviation = math.sqrt(epsilon * np.sum(g**2) / d)
    transmit, receive = scaling(RULES[name], PSI)
    gradients = g + deviation * draws.normal(size=(rounds, 5, d))
    sent = (transmit * np.sqrt(power) / bound)[:, None] * gradients
    y = np.sum(gains[:, None] * sent, axis=1) + math.sqrt(NOISE) * draws.normal(size=(rounds, d))
    estimate = y * receive
    amplitude, divisor = truth(name, PSI)
    coefficients = np.abs(PSI) * amplitude / divisor
    mean, variance = coefficients.sum() * g, np.sum(coefficients**2) * deviation**2 + NOISE / divisor**2
    assert np.all(np.abs(estimate.mean(axis=0) - mean) <= 5 * math.sqrt(variance / rounds))
    errors = np.sum((estimate - mean) ** 2, axis=1)
    assert abs(errors.mean() - d * variance) <= 5 * variance * math.sqrt(2 * d / rounds)
    mixing = Scaling(jnp.asarray(transmit), receive).mixing(jnp.asarray(PSI), jnp.sqrt(power) / bound, NOISE)
    np.testing.assert_allclose(mixing.coefficients, coefficients, rtol=1e-5)
    assert float(mixing.noise) == pytest.approx(math.sqrt(NOISE) / divisor, rel=1e-5)
    np.testing.assert_allclose(mixing.transmit, transmit * np.sqrt(power) / bound, rtol=1e-5)


def test_which_rules_are_unbiased_and_what_they_cost():
    """Aligned: every client alike. Full power: the sum is one; its noise is never more than the alignment's."""
    for psi in (PSI, [1.0], [3.0, 3.0, 3.0]):
        aligned, full = scaling(RULES["alignment"], psi), scaling(RULES["full_power"], psi)
        np.testing.assert_allclose(psi * aligned.transmit * aligned.receive, 1 / len(psi), rtol=1e-5)
        assert np.sum(psi * full.transmit * full.receive) == pytest.approx(1, rel=1e-5)
        assert full.receive <= aligned.receive * (1 + 1e-6)
    best = scaling(RULES["full_power_best_bound"], PSI)
    assert best.receive < scaling(RULES["full_power"], PSI).receive  # the bias that helps the bound shrinks
    assert scaling(RULES["full_power_largest"], PSI).receive > scaling(RULES["full_power"], PSI).receive
    everyone = scaling(FullPower(Largest(7)), PSI)  # more than there are: all of them
    assert everyone.receive == pytest.approx(scaling(RULES["full_power"], PSI).receive, rel=1e-6)


def test_the_heterogeneous_setting_of_the_paper():
    """Noise of about 35 a coordinate when aligned at L = 1, 1/50 at full power, c = 20 for r = 2."""
    fading = Groups(GaussianReal(1.0, 0.01), GaussianReal(0.004, 1e-6), 5)
    amplitude = jnp.sqrt(of_clients(np.repeat([from_decibel(20), from_decibel(0)], 5), jnp.arange(10)))
    rounds = jax.vmap(lambda number: effective(fading(root(0), jnp.arange(10), number), amplitude).known)(
        jnp.arange(200)
    )
    ask = (jnp.full(10, 0.1), jnp.full(10, True), 1.0, KNOWN)
    noise = {
        name: np.median(jax.jit(jax.vmap(lambda psi, rule=rule: rule(psi, *ask).receive))(rounds))
        for name, rule in (("aligned", Alignment()), ("full", FullPower()), ("two", FullPower(Largest(2))))
    }
    assert 30 < noise["aligned"] < 45
    assert noise["full"] == pytest.approx(1 / 50, rel=0.05)
    assert 1 / 24 < noise["two"] < 1 / 20


def test_weights_that_differ():
    weights = np.array([0.1, 0.5, 0.0, 0.2, 0.4])  # W = 1.2, and nobody asks for the third
    asked = weights > 0
    for name, rule in RULES.items():
        transmit, receive = scaling(rule, PSI, weights)
        coefficients = PSI * transmit * receive
        assert np.array_equal(transmit != 0, asked)
        if name in ("alignment", "truncated_inversion"):
            np.testing.assert_allclose(coefficients, weights, rtol=1e-5)
            assert np.abs(transmit).max() == pytest.approx(1)  # no more noise than need be
        else:
            once = scaling(rule, PSI[asked])  # the plain mean of those asked, W times
            np.testing.assert_allclose(transmit[asked], once.transmit, rtol=1e-5)
            assert receive == pytest.approx(1.2 * once.receive, rel=1e-5)


@pytest.mark.parametrize("name", RULES)
def test_imperfect_knowledge(name):
    """The rule reads ĥ, the air multiplies by h: a_k is off by h_k/ĥ_k, for inversion exactly so."""
    gains = Estimated(Rayleigh(), 0.2)(root(3), jnp.arange(5), 4)
    psi = effective(gains, 2.0)
    transmit, receive = scaling(RULES[name], psi.known)
    mixing = Scaling(jnp.asarray(transmit), receive).mixing(psi.true, 2.0, NOISE)
    believed = psi.known * transmit * receive
    np.testing.assert_allclose(mixing.coefficients, believed * psi.true / psi.known, rtol=1e-5, atol=1e-7)
    if name == "alignment":
        np.testing.assert_allclose(mixing.coefficients, psi.true / psi.known / 5, rtol=1e-5)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("broken", [0.0, math.nan, math.inf, 1e-30, -1e30])
def test_who_cannot_be_heard_is_silent(name, broken):
    """Zero power, zero gain, not a number: the others carry on as if alone, where only the least squares miss them."""
    psi = np.array([2.0, broken, -0.9])
    transmit, receive = scaling(RULES[name], psi)
    alone = scaling(RULES[name], psi[[0, 2]])
    assert transmit[1] == 0
    if name != "least_squares":
        np.testing.assert_allclose(transmit[[0, 2]], alone.transmit, rtol=1e-6)
        assert receive == pytest.approx(alone.receive, rel=1e-6)
    mixing = Scaling(jnp.asarray(transmit), receive).mixing(jnp.asarray(psi), 1.0, NOISE)
    assert np.all(np.isfinite(mixing.coefficients))
    assert mixing.coefficients[1] == 0
    assert np.all(mixing.coefficients >= 0)


@pytest.mark.parametrize("name", RULES)
def test_nobody(name):
    for psi, active in ((PSI, np.zeros(5, bool)), ([0.0, math.nan], [True, True])):
        transmit, receive = scaling(RULES[name], psi, active=np.asarray(active))
        assert not transmit.any()
        assert receive == 0
    silent = scaling(TruncatedInversion(100.0), PSI)
    assert not silent.transmit.any()
    assert silent.receive == 0


@pytest.mark.parametrize("name", RULES)
def test_one_client_and_one_that_dominates(name):
    transmit, receive = scaling(RULES[name], [-1.5])
    assert transmit[0] == -1
    if name in ("alignment", "truncated_inversion", "full_power", "full_power_largest"):
        assert -1.5 * transmit[0] * receive == pytest.approx(1, rel=1e-6)
    transmit, receive = scaling(RULES[name], [1e9, 1.0, 1.0])
    expected = {"alignment": 1 / 3, "truncated_inversion": 1 / 3, "full_power_given": 1e9 / 3}
    share = 1e9 * transmit[0] * receive
    assert np.isfinite(share)
    if name != "least_squares":
        close_to_one = 1 / 1.5 if name == "full_power_best_bound" else 1
        assert share == pytest.approx(expected.get(name, close_to_one), rel=1e-5)


gain = st.one_of(
    st.floats(-(2.0**80), 2.0**80, width=32), st.floats(-3, 3, width=32), st.sampled_from([0.0, math.nan, math.inf])
)


@jax.jit
def scale_by_all(*asked):
    return {name: rule(*asked) for name, rule in RULES.items()}


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    gains=st.lists(gain, min_size=5, max_size=5),
    weights=st.lists(st.floats(0, 4, width=32), min_size=5, max_size=5),
    active=st.lists(st.booleans(), min_size=5, max_size=5),
    noise_variance=st.floats(0, 2.0**40, width=32),
    mean_square=st.floats(0, 2.0**20, width=32),
    variance=st.floats(0, 2.0**20, width=32),
)
def test_nobody_ever_sends_above_its_power(gains, weights, active, noise_variance, mean_square, variance):
    """‖x_k‖² ≤ P_k for ‖message‖ ≤ L, whatever the gains; and nothing but finite numbers comes out."""
    power, bound = np.array([100.0, 1.0, 0.5, 3.0, 0.0]), 1.5
    with np.errstate(invalid="ignore"):  # an infinite gain of a client without power
        psi = (np.array(gains) * np.sqrt(power) / bound).astype(np.float32)
    weights = [weight if weight > 1e-6 else 0.0 for weight in weights]
    silent = ~np.array(active) | (np.array(weights) == 0) | ~np.isfinite(psi) | (psi == 0)
    asked = (psi, np.array(weights, np.float32), np.array(active), noise_variance, Statistics(mean_square, variance))
    for name, (transmit, receive) in scale_by_all(*asked).items():
        transmit = np.asarray(transmit, float)
        energy = (transmit * np.sqrt(power) / bound * bound) ** 2  # of the longest message
        assert np.all(np.abs(transmit) <= 1), name
        assert np.all(energy <= power * (1 + 1e-12)), name
        assert math.isfinite(receive), name
        assert receive >= 0, name
        assert not transmit[silent].any(), name


@pytest.mark.parametrize("name", RULES)
def test_order_does_not_matter_and_rounds_are_mapped(name):
    order = np.array([3, 0, 4, 1, 2])
    weights, active = jnp.full(5, 0.25), jnp.array([True, True, False, True, True])
    together = jax.jit(jax.vmap(lambda psi, active: RULES[name](psi, weights, active, NOISE, KNOWN)))(
        jnp.stack([PSI, PSI[order]]), jnp.stack([active, active[order]])
    )
    np.testing.assert_allclose(together.transmit[0][order], together.transmit[1], rtol=1e-6)
    assert together.receive[0] == pytest.approx(float(together.receive[1]), rel=1e-6)
    alone = scaling(RULES[name], PSI, np.asarray(weights), np.asarray(active))
    np.testing.assert_allclose(together.transmit[0], alone.transmit, rtol=1e-5)


def test_settings_are_swept():
    psi, rest = jnp.asarray(PSI, jnp.float32), (jnp.full(5, 0.2), jnp.full(5, True), NOISE, KNOWN)

    def sweep(make, values):
        return jax.jit(jax.vmap(lambda value: make(value)(psi, *rest)))(jnp.array(values))

    heard = np.sum(sweep(TruncatedInversion, [0.0, 0.5, 1.8, 9.0]).transmit != 0, axis=1)
    assert heard.tolist() == [5, 4, 2, 0]
    given = sweep(lambda value: FullPower(Given(value)), [2.0, 8.0]).receive
    np.testing.assert_allclose(given, [0.5, 0.125], rtol=1e-6)
    bound = sweep(lambda epsilon: FullPower(BestBound(epsilon)), [0.0, 0.5]).receive
    total, square = np.abs(PSI).sum(), np.sum(PSI**2)
    np.testing.assert_allclose(bound, [1 / total, 1 / (total + 0.5 * square / total)], rtol=1e-6)


def test_effective_gains():
    psi = effective(Gains(jnp.array([1.0, -2.0]), jnp.array([1.5, -1.0])), jnp.sqrt(jnp.array([4.0, 9.0])) / 2)
    np.testing.assert_allclose(psi.true, [1, -3])
    np.testing.assert_allclose(psi.known, [1.5, -1.5])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TruncatedInversion(-1.0), "threshold must be a number of at least 0"),
        (lambda: Largest(0), "count must be a whole number of at least 1"),
        (lambda: Given(0.0), "value must be a positive number"),
        (lambda: BestBound(math.inf), "epsilon must be a number of at least 0"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()

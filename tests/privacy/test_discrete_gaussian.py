"""Noise on the integers: what is accounted is never below what two lattices of probabilities show."""

from itertools import product
from math import exp, inf, sqrt

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp
from scipy.special import logsumexp

from hush.privacy import (
    NoGuarantee,
    Poisson,
    Release,
    Subset,
    delta_at,
    epsilon_spent,
    noise_multiplier_for,
    renyi,
    spent,
)
from hush.privacy.releases import LAWS

ON_INTEGERS = "discrete gaussian"


def release(noise):
    return Release(noise, "replace", law=ON_INTEGERS)


def on_a_line(deviation, at=0):
    """Log-probabilities of the discrete Gaussian around a whole number, on −60 … 60."""
    exponents = -((np.arange(-60, 61) - at) ** 2) / (2 * deviation**2)
    return exponents - logsumexp(exponents)


def losses(deviation, shift):
    """Probabilities and privacy losses of one release in as many dimensions as the shift has: exact, every point."""
    first = second = np.zeros(1)
    for step in shift:
        first = np.add.outer(first, on_a_line(deviation, step)).ravel()
        second = np.add.outer(second, on_a_line(deviation)).ravel()
    return np.exp(first), first - second


def exact_delta(parts, epsilon):
    """E max(0, 1 − e^(ε − loss)), of releases together: every pair of outcomes."""
    (mass, loss), *others = parts
    for more, other in others:
        kept, seen = mass > 1e-14, more > 1e-14
        mass, loss = np.outer(mass[kept], more[seen]).ravel(), np.add.outer(loss[kept], other[seen]).ravel()
        loss, place = np.unique(np.round(loss, 9), return_inverse=True)
        mass = np.bincount(place, mass)
    return float(np.sum(mass * -np.expm1(np.minimum(0, epsilon - loss))))


@pytest.mark.parametrize("deviation", [0.6, 1.0, 3.0])
@pytest.mark.parametrize("shift", [(1, 0), (1, 1), (2, -1), (3, 0)])
@pytest.mark.parametrize("count", [1, 2])
def test_never_below_the_exact_delta_in_two_dimensions(deviation, shift, count):
    one = release(deviation / sqrt(sum(step**2 for step in shift)))
    parts = [losses(deviation, shift)] * count
    if count == 2:  # outcomes repeat: on a lattice few losses differ
        loss, place = np.unique(np.round(parts[0][1], 9), return_inverse=True)
        parts = [(np.bincount(place, parts[0][0]), loss)] * 2
    for epsilon in (0.1, 1.0, 4.0):
        assert exact_delta(parts, epsilon) <= delta_at({one: count}, epsilon) * (1 + 1e-6)
    for delta in (1e-2, 1e-5):
        assert exact_delta(parts, spent({one: count}, delta).epsilon) <= delta * (1 + 1e-6)


def test_the_gaussians_closed_form_does_not_hold():
    """With little noise an odd ε is found at which the Gaussian of the same σ/Δ promises less than what is shown."""
    found = [
        (exact_delta([losses(0.5, shift)], epsilon), delta_at({Release(0.5 / sqrt(2), "replace"): 1}, epsilon))
        for shift, epsilon in product([(1, 1)], np.linspace(0, 8, 41))
    ]
    assert any(shown > promised * 1.01 for shown, promised in found)


def test_with_ordinary_gaussians():
    """A Gaussian's losses on a fine lattice, each cell's a little below the truth: still no more than is accounted."""
    ordinary, discrete = Release(2.0, "replace"), release(1.0)
    x = np.linspace(-20, 20, 4001)
    density = np.exp(-0.5 * ((x - 1) / 2.0) ** 2)
    gaussian = density / density.sum(), (x - 0.5) / 4.0
    loss, place = np.unique(np.round(losses(1.0, (1, 0))[1], 9), return_inverse=True)
    lattice = np.bincount(place, losses(1.0, (1, 0))[0]), loss
    together = {ordinary: 1, discrete: 1}
    for epsilon in (0.2, 1.0, 3.0):
        assert exact_delta([gaussian, lattice], epsilon) <= delta_at(together, epsilon)
    found = spent(together, 1e-5)
    assert found.pld is None
    assert found.unsampled == inf
    assert found.epsilon == found.rdp == spent({Release(sqrt(0.8), "replace"): 1}, 1e-5).rdp


def test_only_renyi_divergences_are_known():
    found = spent({release(2.0): 3}, 1e-5)
    assert found.pld is None
    assert found.unsampled == inf
    assert found.epsilon == found.rdp == spent({Release(2.0, "replace"): 3}, 1e-5).rdp
    with pytest.raises(NoGuarantee, match=r"known for Gaussian noise.*found .*discrete gaussian"):
        epsilon_spent({release(2.0): 3}, 1e-5, "pld")
    assert epsilon_spent({release(2.0): 3}, 1e-5, "rdp") == found.rdp
    # δ by Rényi alone, at the best order: e^((α − 1)(D − ε)) / α · (1 − 1/α)^(α − 1), Canonne, Kamath, Steinke.
    orders = 1 + np.geomspace(0.02, 1000, 20_000)
    exponents = (orders - 1) * (3 * orders / 8 - 2.0 + np.log1p(-1 / orders)) - np.log(orders)
    assert delta_at({release(2.0): 3}, 2.0) == pytest.approx(exp(np.min(exponents)), rel=0.02)
    assert delta_at({release(0.0): 1}, 2.0) == 1.0
    assert spent({release(0.0): 1}, 1e-5).epsilon == inf


def test_noise_for_an_epsilon():
    noise = noise_multiplier_for(1.0, 1e-5, 10, "replace", Release(1.0, "replace").sampling, law=ON_INTEGERS)
    assert spent({release(noise): 10}, 1e-5).epsilon <= 1.0 < spent({release(noise * (1 - 3e-4)): 10}, 1e-5).epsilon
    assert noise > noise_multiplier_for(1.0, 1e-5, 10, "replace", Release(1.0, "replace").sampling)


@pytest.mark.parametrize(
    ("sampling", "least", "most"), [(Release(1.0, "replace").sampling, 1.05, 1.12), (Subset(12, 143), 1.35, 1.6)]
)
def test_what_it_takes_more_than_ideal_noise_is_as_documented(sampling, least, most):
    """ε = 4 after 20 rounds of two steps, 143 examples: a tenth more, and half as much again with batches of 12."""
    asked = (4.0, 1e-4, 40, "replace", sampling)
    assert least < noise_multiplier_for(*asked, law=ON_INTEGERS) / noise_multiplier_for(*asked) < most


def test_what_is_refused():
    assert LAWS == ("gaussian", ON_INTEGERS)
    with pytest.raises(ValueError, match="unknown law 'discrete'"):
        Release(1.0, "replace", law="discrete")
    with pytest.raises(NoGuarantee, match="Poisson sampling is accounted for with Gaussian noise, found discrete"):
        Release(1.0, "add-or-remove", Poisson(0.1), ON_INTEGERS)
    assert not Release(1.0, "replace", Subset(10, 10), ON_INTEGERS).sampled


@pytest.mark.parametrize(("deviation", "rate"), [(0.6, 0.3), (1.0, 0.1), (3.0, 0.02), (8.0, 0.1)])
def test_a_subset_on_the_integers_is_never_below_the_exact_divergence(deviation, rate):
    """D_α of (1 − γ)Q + γP from Q and back, every point of the line summed up; and better than without sampling."""
    away, at_home = on_a_line(deviation, 1), on_a_line(deviation)
    mixed = np.logaddexp(np.log1p(-rate) + at_home, np.log(rate) + away)
    orders = np.arange(2, 33)
    exact = [
        max(logsumexp(a * first + (1 - a) * second) / (a - 1) for first, second in ((mixed, at_home), (at_home, mixed)))
        for a in orders
    ]
    accounted = renyi.subset_of_any(deviation, rate)[np.searchsorted(renyi.ORDERS, orders)]
    assert (accounted >= np.array(exact) * (1 - 1e-9)).all()
    assert accounted[0] < orders[0] / (2 * deviation**2)
    sampled = Release(deviation, "replace", Subset(round(1000 * rate), 1000), ON_INTEGERS)
    assert spent({sampled: 3}, 1e-5).epsilon <= spent({release(deviation): 3}, 1e-5).epsilon


def test_the_event_is_a_concentrated_one():
    assert release(2.0).event(0) == dp_accounting.NoOpDpEvent()
    accountant = rdp.RdpAccountant([2.0, 8.0], dp_accounting.NeighboringRelation.REPLACE_ONE)
    found = accountant.compose(release(2.0).event(4)).rdp
    np.testing.assert_allclose(found, [4 * order / 8 for order in (2.0, 8.0)])

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
    assert LAWS == ("gaussian", ON_INTEGERS, "skellam")
    with pytest.raises(ValueError, match="unknown law 'discrete'"):
        Release(1.0, "replace", law="discrete")
    with pytest.raises(NoGuarantee, match="Poisson sampling is accounted for add-or-remove, found 'replace'"):
        Release(1.0, "replace", Poisson(0.1), ON_INTEGERS)
    assert not Release(1.0, "replace", Subset(10, 10), ON_INTEGERS).sampled


def mixture(rate, first, second):
    """Log-probabilities of (1 − γ)·first + γ·second."""
    return np.logaddexp(np.log1p(-rate) + first, np.log(rate) + second)


def divergence(order, first, second):
    return logsumexp(order * first + (1 - order) * second) / (order - 1)


@pytest.mark.parametrize(("deviation", "rate"), [(0.6, 0.3), (1.0, 0.1), (3.0, 0.02), (8.0, 0.1)])
def test_a_subset_on_the_integers_is_never_below_the_exact_divergence(deviation, rate):
    """D_α of (1 − γ)P + γQ from (1 − γ)P + γQ', the unit replaced: three points a step from one another at most.

    Every point of the line is summed up; and what is accounted is better than without sampling.
    """
    orders = np.concatenate([np.arange(2, 33), renyi.ORDERS[renyi.ORDERS < 3]])
    accounted = renyi.subset(deviation, rate)[np.searchsorted(renyi.ORDERS, orders)]
    for absent, one, other in product((0, 1), repeat=3):
        first, second = (mixture(rate, on_a_line(deviation, absent), on_a_line(deviation, at)) for at in (one, other))
        exact = [divergence(order, first, second) for order in orders]
        assert (accounted >= np.array(exact) * (1 - 1e-9) - 1e-12).all()
    assert accounted[0] < orders[0] / (2 * deviation**2)
    sampled = Release(deviation, "replace", Subset(round(1000 * rate), 1000), ON_INTEGERS)
    assert spent({sampled: 3}, 1e-5).epsilon <= spent({release(deviation): 3}, 1e-5).epsilon


def shifted(deviation, shift):
    """Log-probabilities on a lattice wide enough for the orders below, around a whole number; in float64."""
    reach = int(40 * deviation + 40 * abs(shift))
    exponents = -((np.arange(-reach, reach + 1) - np.array([[0], [shift]])) ** 2) / (2 * deviation**2)
    return exponents - logsumexp(exponents, axis=1, keepdims=True)


@pytest.mark.parametrize("deviation", [0.7, 4, 9, 20])
@pytest.mark.parametrize("shift", [1, 2, -5])
@pytest.mark.parametrize("rate", [1e-3, 0.05, 0.5, 0.99])
def test_poisson_sampling_on_the_integers_by_summing_up(deviation, shift, rate):
    """Whole orders of M from P to rounding; the others, and P from M at every order, never above what is accounted."""
    at_home, away = shifted(deviation, shift)
    mixed = mixture(rate, at_home, away)
    accounted = renyi.poisson_on_integers(deviation / abs(shift), rate)
    for index in np.flatnonzero(renyi.ORDERS <= 16):
        order = renyi.ORDERS[index]
        towards, back = divergence(order, mixed, at_home), divergence(order, at_home, mixed)
        assert back <= towards * (1 + 1e-9) + 1e-12
        assert towards <= accounted[index] * (1 + 1e-9) + 1e-12
        if order == round(order):
            assert accounted[index] == pytest.approx(towards, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("shift", [(1, 1), (2, -1), (3, 0)])
def test_poisson_sampling_in_two_dimensions(shift):
    """The distance is that of the vector, whatever its direction; every point of the plane summed up."""
    deviation, rate = 3.0, 0.1
    parts = [shifted(deviation, step) for step in shift]
    width = min(part.shape[1] for part in parts)
    cut = [part[:, (part.shape[1] - width) // 2 :][:, :width] for part in parts]
    at_home, away = (np.add.outer(cut[0][side], cut[1][side]).ravel() for side in (0, 1))
    mixed = mixture(rate, at_home, away)
    accounted = renyi.poisson_on_integers(deviation / sqrt(sum(step**2 for step in shift)), rate)
    for order in (2, 5, 12):
        found = accounted[np.searchsorted(renyi.ORDERS, order)]
        assert found == pytest.approx(divergence(order, mixed, at_home), rel=1e-9)
        assert divergence(order, at_home, mixed) <= found


@pytest.mark.parametrize("sampling", [Poisson(0.1), Subset(10, 100)])
def test_sampled_releases_are_accounted_by_renyi_divergences_alone(sampling):
    relation = "add-or-remove" if isinstance(sampling, Poisson) else "replace"
    ordinary, discrete = Release(2.0, relation, sampling), Release(2.0, relation, sampling, ON_INTEGERS)
    found, ideal = spent({discrete: 50}, 1e-5), spent({ordinary: 50}, 1e-5)
    assert found.pld is None
    assert found.unsampled == inf
    assert ideal.epsilon < ideal.rdp <= found.epsilon == found.rdp < ideal.rdp * 1.01
    assert delta_at({discrete: 50}, ideal.rdp) >= delta_at({ordinary: 50}, ideal.rdp)


def test_the_event_is_a_concentrated_one():
    assert release(2.0).event(0) == dp_accounting.NoOpDpEvent()
    accountant = rdp.RdpAccountant([2.0, 8.0], dp_accounting.NeighboringRelation.REPLACE_ONE)
    found = accountant.compose(release(2.0).event(4)).rdp
    np.testing.assert_allclose(found, [4 * order / 8 for order in (2.0, 8.0)])

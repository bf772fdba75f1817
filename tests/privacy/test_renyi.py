"""Rényi divergences, held to dp_accounting where it is sound, to integrals, and to arithmetic of a thousand digits."""

from decimal import Decimal, localcontext
from itertools import pairwise
from math import comb, exp, log, log1p, sqrt

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from hush.privacy import Poisson, Release, Subset, renyi

ADD_OR_REMOVE = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE = dp_accounting.NeighboringRelation.REPLACE_ONE


def poisson(noise, rate):
    return Release(noise, "add-or-remove", Poisson(rate))


def subset(noise, size=120, of=600):
    return Release(noise, "replace", Subset(size, of))


def library_curve(release, orders):
    relation = ADD_OR_REMOVE if release.relation == "add-or-remove" else REPLACE
    return rdp.RdpAccountant(orders, relation).compose(release.event()).rdp


def ours_at(curve, orders):
    return curve[np.searchsorted(renyi.ORDERS, orders)]


@pytest.mark.parametrize("noise", [0.3, 1.0, 4.3, 30.0])
@pytest.mark.parametrize("size", [1, 120, 420])
def test_whole_orders_are_the_librarys(noise, size):
    orders = [2, 3, 5, 8, 12, 24, 41]
    found = ours_at(renyi.poisson(noise, size / 600), orders)
    np.testing.assert_allclose(found, library_curve(poisson(noise, size / 600), orders), rtol=1e-8)
    found = ours_at(renyi.subset(noise, size / 600), orders)
    capped = np.minimum(library_curve(subset(noise, size), orders), np.array(orders) / (2 * noise**2))
    # The library's differences have lost half their digits where ours are a little below.
    np.testing.assert_allclose(found, capped, rtol=1e-4 if noise > 4 else 1e-8)


@pytest.mark.parametrize(("noise", "rate"), [(0.3, 0.1), (1.0, 0.04), (1.5, 0.7), (5.0, 0.3), (50.0, 0.01)])
def test_broken_orders_of_poisson_sampling_by_integration(noise, rate):
    """The density ratio to the power α, integrated piecewise by another rule."""
    for index in np.flatnonzero(renyi.ORDERS < 11)[::20]:
        order = renyi.ORDERS[index]

        def integrand(x, order=order):
            ratio = np.logaddexp(log1p(-rate), log(rate) + x / noise - 0.5 / noise**2)
            return exp(order * ratio - x**2 / 2) / sqrt(2 * np.pi)

        edges = np.linspace(-10, order / noise + 10, 12)
        moment = sum(quad(integrand, *edge)[0] for edge in pairwise(edges))
        found = renyi.poisson(noise, rate)[index] * (order - 1)
        assert found == pytest.approx(log(moment), rel=1e-7, abs=3e-14)


@pytest.mark.parametrize("noise", [0.5, 3.0, 30.0, 300.0])
def test_even_moments_in_exact_arithmetic(noise):
    """Σ (−1)^(l − i) C(l, i) e^(i(i − 1)/2z²) with a thousand digits, which is what cancels in floating point."""
    moments = renyi._even_moments(noise)
    with localcontext() as context:
        context.prec = 1000
        growth = (Decimal(1) / (2 * Decimal(noise) ** 2)).exp()
        for half in (1, 2, 5, 32, 100):
            l = 2 * half  # noqa: E741
            exact = sum((-1) ** (l - i) * comb(l, i) * growth ** (i * (i - 1)) for i in range(l + 1))
            assert moments[half] == pytest.approx(float(exact.ln()), rel=1e-11, abs=1e-11)


def test_where_the_librarys_subsets_are_lost_in_rounding():
    """At a rate of a fifth its divergence of order 128 is above that without sampling."""
    assert library_curve(subset(100.0), [128])[0] > 128 / (2 * 100.0**2)
    expected = ours_at(renyi.subset(100.0, 0.2), [63]) / 63
    order = renyi.ORDERS[np.searchsorted(renyi.ORDERS, 128)]
    assert ours_at(renyi.subset(100.0, 0.2), [order]) / order == pytest.approx(expected, rel=0.02)


@given(st.floats(0.05, 1000), st.floats(1e-4, 0.999))
@settings(deadline=None, max_examples=40)
def test_curves_rise_with_the_order_and_stay_below_no_sampling(noise, rate):
    for curve in (renyi.poisson(noise, rate), renyi.subset(noise, rate)):
        assert np.all(np.isfinite(curve))
        assert np.all(curve > 0)
        assert np.all(np.diff(curve * (renyi.ORDERS - 1)) > -3e-14)
        assert np.all(curve <= renyi.unsampled(noise) * (1 + 1e-9) + 1e-12)


@pytest.mark.parametrize(("noise", "rate"), [(0.6, 0.1), (2.0, 0.3), (6.0, 0.02), (6.0, 0.9)])
def test_the_bound_is_above_the_divergence_of_a_pair(noise, rate):
    x = np.linspace(-120, 120, 480_001)
    second = norm.logpdf(x, 0, noise)
    first = np.logaddexp(log1p(-rate) + second, log(rate) + norm.logpdf(x, 1, noise))
    for index in range(0, len(renyi.ORDERS), 25):
        order = renyi.ORDERS[index]
        if order / noise < 50:  # the peak is in the window
            true = log(np.trapezoid(np.exp(order * first + (1 - order) * second), x)) / (order - 1)
            assert renyi.subset(noise, rate)[index] >= true - 1e-9

"""What a sum of noise in whole numbers hides: bounds against exact distributions, the Gaussian, and published code."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import logsumexp

import hush
from hush.core.laws import DiscreteGaussian, Skellam
from hush.network.secure_sum import Terms
from hush.privacy import NoGuarantee, Release, Summed, describe, renyi
from hush.privacy.accounting import divergences, spent
from hush.privacy.clients import client_level
from hush.privacy.integers import gap, release
from hush.privacy.who import EqualClients
from hush.uplink.modular import longest

WHOLE = (2, 3, 5, 8, 12)


def at_order(curve, order):
    return curve[np.flatnonzero(order == renyi.ORDERS)[0]]


def logs_of_sum(noise, clients, reach):
    """log P(x) of the sum of so many clients' noise, x from −reach to reach, by convolution of exact masses."""
    x = np.arange(-reach, reach + 1)
    if noise.law == "skellam":
        with np.errstate(divide="ignore"):
            return stats.skellam.logpmf(x, clients * noise.std**2 / 2, clients * noise.std**2 / 2)
    one = np.exp(-(x**2) / (2 * noise.std**2))
    one /= one.sum()
    whole = one
    for _ in range(clients - 1):
        whole = np.convolve(whole, one, "same")
    with np.errstate(divide="ignore"):
        return np.log(whole)


def exact_divergence(logs, shift, order, reach):
    """D_α of the sum moved by a whole number from the sum itself: log Σ p^α q^(1 − α) / (α − 1)."""
    inner = slice(reach // 2 - shift, 3 * reach // 2 - shift), slice(reach // 2, 3 * reach // 2)
    moved, there = (logs[each] for each in inner)
    kept = np.isfinite(moved) & np.isfinite(there) & (moved > -600) & (there > -600)
    return logsumexp(order * moved[kept] + (1 - order) * there[kept]) / (order - 1)


@pytest.mark.parametrize("kind", [DiscreteGaussian, Skellam])
@pytest.mark.parametrize(("std", "clients"), [(0.8, 3), (1.5, 2), (1.0, 10), (3.0, 4)])
@pytest.mark.parametrize("shift", [1, 2, 4])
def test_bounds_are_above_what_is_exact_in_one_dimension(kind, std, clients, shift):
    """By numerical sums over the whole distribution, which cut off less than e^-600 of it."""
    noise, reach = kind(std), 400
    logs = logs_of_sum(noise, clients, reach)
    curve = divergences({release(noise, clients, shift, 1): 1})
    for order in WHOLE:
        exact = exact_divergence(logs, shift, order, reach)
        assert exact <= at_order(curve, order) * (1 + 1e-9)


@pytest.mark.parametrize("kind", [DiscreteGaussian, Skellam])
def test_bounds_are_near_what_is_exact_where_noise_is_ample(kind):
    noise, reach, clients = kind(3.0), 500, 20
    logs = logs_of_sum(noise, clients, reach)
    curve = divergences({release(noise, clients, 3, 1): 1})
    for order in WHOLE:
        exact = exact_divergence(logs, 3, order, reach)
        assert at_order(curve, order) == pytest.approx(exact, rel=0.03)


@pytest.mark.parametrize("kind", [DiscreteGaussian, Skellam])
@pytest.mark.parametrize("shift", [(1, 1, 1, 1), (2, 0, 0, 0), (1, 1, 1, 0), (3, 1, 0, 2)])
def test_divergences_add_up_over_numbers(kind, shift):
    """In several dimensions, whole numbers of one L2 norm and different L1 norms: the bound covers them all."""
    noise, reach, clients = kind(1.1), 300, 5
    logs = logs_of_sum(noise, clients, reach)
    curve = divergences({release(noise, clients, math.sqrt(sum(s**2 for s in shift)), 4): 1})
    for order in WHOLE:
        exact = sum(exact_divergence(logs, each, order, reach) for each in shift if each)
        assert exact <= at_order(curve, order) * (1 + 1e-9)


# (clients, numbers, L2 sensitivity, σ of a client) to the divergences at orders 2, 8 and 64 that the functions
# compute_rdp_dgaussian and _skellam_rdp of google-research/federated (distributed_dp/accounting_utils.py) give.
PUBLISHED = {
    (100, 10_000, 50.0, 10.0): ((0.25, 1.0, 8.0), (0.25005625, 1.00013125, 8.00083125)),
    (1000, 2**14, 20.0, 1.2): ((0.2779218384, 1.111687353, 8.893498828), (0.2782118056, 1.112123843, 8.895302855)),
    (1000, 2**14, 20.0, 1.0): ((0.4198808763, 1.679523505, 13.43618804), (0.4009, 1.6021, 12.8133)),
    (50, 650, 5.0, 1.5): ((0.2222222329, 0.8888889317, 7.111111454), (0.2266666667, 0.8992592593, 7.176790123)),
}


@pytest.mark.parametrize("case", PUBLISHED)
def test_published_code_gives_the_same(case):
    """Theirs takes the least of three bounds for discrete Gaussians, of which one is ours."""
    clients, numbers, sensitivity, std = case
    for noise, expected in zip((DiscreteGaussian(std), Skellam(std)), PUBLISHED[case], strict=True):
        curve = divergences({release(noise, clients, sensitivity, numbers): 1})
        # Order 64 lies between two of ours, where a chord is a little above.
        for order, value in zip((2, 8), expected[:2], strict=True):
            assert at_order(curve, order) == pytest.approx(value, rel=2e-6)
        assert np.interp(64, renyi.ORDERS, curve) == pytest.approx(expected[2], rel=1e-3)


@settings(max_examples=40)
@given(z=st.floats(0.3, 10), numbers=st.integers(1, 10**6))
def test_in_the_limit_of_fine_steps_both_are_the_gaussian(z, numbers):
    std, clients = 4000.0, 50
    gaussian = renyi.unsampled(z)
    for kind in (DiscreteGaussian, Skellam):
        curve = divergences({release(kind(std), clients, std * math.sqrt(clients) / z, numbers): 1})
        assert (curve >= gaussian * (1 - 1e-12)).all()
        whole = renyi.ORDERS % 1 == 0  # between them a chord is a little above
        np.testing.assert_allclose(curve[whole], gaussian[whole], rtol=2e-4)


def test_the_gap_is_its_sum():
    for std, clients in ((0.7, 2), (1.0, 40), (0.5, 500), (2.0, 3)):
        plain = 10 * sum(math.exp(-2 * math.pi**2 * std**2 * k / (k + 1)) for k in range(1, clients))
        assert plain * (1 - 1e-12) <= gap(std, clients) <= plain * 1.3
    assert gap(0.5, 10**6) < math.inf


def test_what_skellam_says_and_others_do_not():
    with pytest.raises(ValueError, match="Skellam noise, and no other, says what is Summed"):
        Release(1.0, "replace", law="skellam")
    with pytest.raises(ValueError, match="Skellam noise, and no other, says what is Summed"):
        Release(1.0, "replace", summed=Summed(4.0, 10))
    with pytest.raises(NoGuarantee, match="without sampling"):
        Release(1.0, "replace", hush.privacy.Subset(1, 10), "skellam", Summed(4.0, 10))
    assert spent({Release(1.0, "replace", law="skellam", summed=Summed(4.0, 10)): 3}, 1e-5).pld is None


SIZES = {"clip": 0.5, "dimension": 650, "noise_multiplier": 3.0, "steps": 2, "batch": 8}


class TestDescribed:
    def described(self, trust=None, **other):
        algorithm = hush.secure_dp_fedavg(30, 100, **SIZES | {"threshold": 20} | other)
        return algorithm, describe(algorithm, EqualClients(100), 20, trust=trust, dimension=650)

    @pytest.mark.parametrize("noise", ["skellam", "discrete_gaussian"])
    def test_the_multiplier_is_that_of_the_fewest_over_twice_the_longest(self, noise):
        """Of 20 survivors, less three of the round's 30 clients, who may be in league with the server."""
        algorithm, found = self.described(noise=noise)
        stage = algorithm.uplink[0]
        ((made, count),) = found.first.of(0)
        by_hand = stage.noise.std * math.sqrt(17) / (2 * longest(stage.scale * stage.bound, 650))
        assert count == 1
        assert made.noise_multiplier == pytest.approx(by_hand, rel=1e-6)
        assert (made.relation, made.sampled, found.first.trust, found.per_client) == ("replace", False, "sum", True)
        assert "17 clients together, where only the sum of 20 or more is seen" in found.first.mechanism
        assert any(
            "more than 3 of its 30 clients (a share of 0.1) in league" in each for each in found.first.assumptions
        )

    def test_fewer_survivors_cost_more(self):
        """The same stage with another threshold: noise is counted for as few as may be left."""
        algorithm, found = self.described()
        few = replace(algorithm, channel=hush.channel.SecureSum(5))
        there = describe(few, EqualClients(100), 20, dimension=650)
        assert there.most(1e-5) > 1.5 * found.most(1e-5)

    def test_who_colludes_takes_its_noise_away(self):
        """More who may: the same noise is worth less, and none where everybody may."""
        algorithm, _ = self.described()
        found = [
            describe(
                replace(algorithm, channel=hush.channel.SecureSum(20, share)), EqualClients(100), 20, dimension=650
            )
            for share in (0.0, 0.1, 0.5)
        ]
        multipliers = [each.first.of(0)[0][0].noise_multiplier for each in found]
        ratios = [each / multipliers[0] for each in multipliers]
        np.testing.assert_allclose(ratios, np.sqrt(np.array([20, 17, 5]) / 20), rtol=1e-9)
        with pytest.raises(NoGuarantee, match="nobody whose noise counts"):
            describe(replace(algorithm, channel=hush.channel.SecureSum(20, 0.7)), EqualClients(100), 20, dimension=650)
        with pytest.raises(ValueError, match="nobody's noise is left to count"):
            self.described(colluding=0.7)

    @pytest.mark.parametrize(("threshold", "withstood"), [(17, True), (16, False), (4, False)])
    def test_a_server_that_lies_is_named_only_where_devices_would_agree(self, threshold, withstood):
        """Of 30 clients with three who may collude, two lists of 16 survivors could both be signed."""
        algorithm, _ = self.described()
        low = replace(algorithm, channel=hush.channel.SecureSum(threshold))
        assumptions = " ".join(describe(low, EqualClients(100), 20, dimension=650).first.assumptions)
        assert ("from one that lies, too" in assumptions) == withstood
        assert ("the server is honest but curious" in assumptions) != withstood
        try:
            Terms.of(b"context", tuple(range(30)), 16, 650, threshold)
        except ValueError:
            assert not withstood
        else:
            assert withstood

    def test_a_threshold_that_no_cohort_reaches_has_no_number(self):
        algorithm, _ = self.described()
        never = replace(algorithm, channel=hush.channel.SecureSum(1000))
        with pytest.raises(NoGuarantee, match="a sum of 1000 clients at least is never opened in cohorts of 30"):
            describe(never, EqualClients(100), 20, dimension=650)

    def test_the_same_sum_without_its_channel_is_not_trusted(self):
        """Trust in a sum is claimed where a secure sum sees to it; elsewhere it is called an assumption."""
        plain = hush.dp_fedavg(30, 100, clip=0.5, noise_multiplier=3.0, steps=2, noise="client", draw="uniform")
        with pytest.raises(NoGuarantee, match=r"use the channel SecureSum .*trust='assumed-sum'"):
            describe(plain, EqualClients(100), 20, trust="sum")
        noisy = hush.dp_fedavg(30, 100, clip=0.5, noise_multiplier=3.0, steps=2)
        with pytest.raises(NoGuarantee, match="use the channel SecureSum"):
            describe(noisy, EqualClients(100), 20, trust="sum")
        assert describe(plain, EqualClients(100), 20, trust="assumed-sum").first.trust == "assumed-sum"

    def test_without_trust_in_the_sum_each_has_its_own_noise_alone(self):
        _, found = self.described()
        _, alone = self.described(trust="local")
        ratio = found.first.of(0)[0][0].noise_multiplier / alone.first.of(0)[0][0].noise_multiplier
        assert ratio == pytest.approx(math.sqrt(17), rel=1e-6)

    @pytest.mark.parametrize("trust", ["server", "secret-sum", "air"])
    def test_other_trust_is_refused(self, trust):
        with pytest.raises(NoGuarantee, match="trust must be 'sum' or 'local'"):
            self.described(trust=trust)

    def test_circles_that_betray_somebody_come_off_delta(self):
        """From 100 clients on they are drawn: 2**-40 for every round, in the sum alone; a δ below that is no δ."""
        sizes = {"clip": 0.5, "dimension": 650, "noise_multiplier": 20.0, "steps": 2, "batch": 8, "bits": 20}
        for clients, risk in ((99, 0.0), (100, 2.0**-40)):
            algorithm = hush.secure_dp_fedavg(clients, 100, **sizes)
            found = describe(algorithm, EqualClients(100), 20, dimension=650)
            releases = {found.first.of(0)[0][0]: 20}
            for delta in (1e-5, 21 * 2.0**-40):
                assert found.most(delta) == spent(releases, delta - 20 * risk).epsilon
            assert (found.most(20 * 2.0**-40) == math.inf) == (risk > 0)
            assert describe(algorithm, EqualClients(100), 20, dimension=650, trust="local").first.failure == 0

    def test_targets_that_no_noise_reaches_say_why(self):
        out_of_reach = {"epsilon": 0.01, "delta": 1e-9, "rounds": 1000, "noise_multiplier": None}
        with pytest.raises(ValueError, match=r"31 bits have no room for it: no noise multiplier .* or ask for less"):
            self.described(**out_of_reach)
        sizes = {"clip": 0.5, "dimension": 650, "steps": 2, "epsilon": 1.0, "delta": 1e-12, "rounds": 2}
        with pytest.raises(NoGuarantee, match=r"with a probability of 1\.8e-12 in all: no noise makes up for that"):
            hush.secure_dp_fedavg(100, 100, **sizes)

    def test_several_messages_move_the_sum_together(self):
        """In the local model: clients that remember what they sent have no guarantee in a sum."""
        algorithm, _ = self.described()
        stage = algorithm.uplink[0]
        plain = hush.scaffold(30, steps=2, weighting="equal")
        made = hush.Algorithm(plain.cohort, plain.local, (stage,), hush.channel.SecureSum(20), plain.server)
        ((two, _),) = client_level(made, EqualClients(100), 10, "local", 650).of(0)
        ((one, _),) = client_level(algorithm, EqualClients(100), 10, "local", 650).of(0)
        assert two.noise_multiplier == pytest.approx(one.noise_multiplier / math.sqrt(2), rel=1e-9)
        assert two.summed.numbers == 1300

    def test_noise_in_whole_numbers_is_no_noise_elsewhere(self):
        """Nor is there a sum with other noise on top, or at the server, or of another law."""
        algorithm, _ = self.described()
        noisy = hush.channel.Noisy(0.1, hush.channel.SecureSum(20))
        with pytest.raises((NoGuarantee, ValueError)):
            describe(replace(algorithm, channel=noisy), EqualClients(100), 10, dimension=650)

        class Loud(Skellam):
            pass

        stage = replace(algorithm.uplink[0], noise=Loud(100.0))
        with pytest.raises(NoGuarantee, match="no proof is known for the noise Loud"):
            describe(replace(algorithm, uplink=(stage,)), EqualClients(100), 10, dimension=650)

    @pytest.mark.parametrize("noise", ["skellam", "discrete_gaussian"])
    def test_noise_for_an_epsilon_is_found_and_keeps_it(self, noise):
        target = {"epsilon": 4.0, "delta": 1e-5, "rounds": 20, "noise_multiplier": None, "noise": noise}
        _, found = self.described(**target)
        assert 3.9 < found.most(1e-5) <= 4.0
        least = hush.privacy.noise_multiplier_for(4.0, 1e-5, 20, relation="replace", sampling=hush.privacy.Unsampled())
        made = found.first.of(0)[0][0].noise_multiplier
        assert least < made < 1.1 * least

    @pytest.mark.parametrize("target", [{}, {"epsilon": 4.0, "delta": 1e-5, "rounds": 20, "noise_multiplier": None}])
    def test_as_few_bits_as_cost_a_twentieth(self, target):
        """By trying all of them: the noise over the clipping bound, beside that with 31 bits."""

        def noise(bits):
            stage = self.described(**target | {"bits": bits})[0].uplink[0]
            return stage.noise.std / stage.scale

        chosen = self.described(**target)[0].uplink[0].width
        few, enough = (noise(bits) / noise(31) for bits in (chosen - 1, chosen))
        assert enough <= 1.05 < few

    def test_bits_too_few_for_an_epsilon_say_so(self):
        target = {"epsilon": 0.05, "delta": 1e-5, "rounds": 20, "noise_multiplier": None, "bits": 4}
        with pytest.raises(ValueError, match=r"take 6 bits or more"):
            self.described(**target)

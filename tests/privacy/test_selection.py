"""The best of a random number of runs: its ε held to dp_accounting, to exact small cases and to published limits."""

from math import inf, log

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import chi2, geom, logser

import hush
from hush.core.problem import Population
from hush.privacy import (
    EqualClients,
    NoGuarantee,
    Poisson,
    Release,
    Trials,
    behind_server,
    describe,
    noise_growth,
    renyi,
    selected,
)
from hush.privacy.guarantee import Description, Guarantee
from hush.privacy.selection import TRIALS, best_of

DELTA = 1e-5
CLIENTS = EqualClients(400)
laws = st.sampled_from(sorted(TRIALS))
means = st.floats(1.01, 300)


def run_of(*releases, trust="server", unit="client", rounds=1, failure=0.0):
    """A description of one phase with these releases in each round."""
    phase = Guarantee(unit, trust, "noise", {0: tuple((each, 1) for each in releases)}, failure=failure)
    return Description((phase,), CLIENTS, rounds)


def gaussian(noise):
    return run_of(Release(noise, "add-or-remove"))


class TestTheLibrary:
    @pytest.mark.parametrize("law", TRIALS)
    @pytest.mark.parametrize("mean", [1.5, 10, 250])
    def test_gaussian_runs(self, law, mean):
        """The same orders, its own Gaussian curve, its own γ (which it rounds by 1e-9)."""
        for noise, rounds in ((0.7, 1), (3.0, 1), (12.0, 50)):
            run = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(noise), rounds)
            event = RepeatAndSelectDpEvent(run, mean, TRIALS[law])
            theirs = rdp.RdpAccountant(renyi.ORDERS).compose(event).get_epsilon(DELTA)
            ours = selected([run_of(Release(noise, "add-or-remove"), rounds=rounds)], DELTA, Trials(law, mean))
            assert ours == pytest.approx(theirs, rel=1e-7)

    @pytest.mark.parametrize("law", TRIALS)
    def test_sampled_runs(self, law):
        """At whole orders its curve is the same; ours may be a little lower, for it has more orders."""
        whole = renyi.ORDERS[np.floor(renyi.ORDERS) == renyi.ORDERS]
        release = Release(1.2, "add-or-remove", Poisson(0.05))
        event = RepeatAndSelectDpEvent(release.event(100), 10, TRIALS[law])
        theirs = rdp.RdpAccountant(whole).compose(event).get_epsilon(DELTA)
        ours = selected([run_of(release, rounds=100)], DELTA, Trials(law, 10))
        assert 0.98 * theirs < ours < theirs * (1 + 1e-7)


def two_ways(chances, others):
    """Rényi divergences of two laws on a few outcomes at the orders, the larger of the two ways round."""
    ways = []
    for p, q in ((np.log(chances), np.log(others)), (np.log(others), np.log(chances))):
        sums = logsumexp(renyi.ORDERS[:, None] * p + (1 - renyi.ORDERS[:, None]) * q, axis=1)
        ways.append(sums / (renyi.ORDERS - 1))
    return np.max(ways, axis=0)


def best(chances, trials):
    """The exact law of the best of K outcomes 0 < 1 < …: P(best ≤ m) = E[F(m)^K]."""
    at_most, stop = np.cumsum(chances)[:-1], np.exp(-trials.surprise)
    if trials.law == "geometric":
        generating = stop * at_most / (1 - (1 - stop) * at_most)
    else:
        generating = np.log1p(-(1 - stop) * at_most) / log(stop)
    return np.diff(np.concatenate([[0], generating, [1]]))


class TestExactCases:
    @given(st.floats(0.01, 0.99), st.floats(0.01, 0.99), laws, means)
    def test_a_run_with_two_outcomes(self, chance, other, law, mean):
        one, two = np.array([1 - chance, chance]), np.array([1 - other, other])
        trials = Trials(law, mean)
        exact = two_ways(best(one, trials), best(two, trials))
        assert (exact <= best_of(two_ways(one, two), trials) * (1 + 1e-9) + 1e-9).all()

    @given(st.lists(st.tuples(st.floats(0.02, 1), st.floats(0.02, 1)), min_size=3, max_size=5), laws, means)
    def test_a_run_with_a_few(self, weights, law, mean):
        one, two = np.array(weights).T / np.sum(weights, axis=0)[:, None]
        trials = Trials(law, mean)
        exact = two_ways(best(one, trials), best(two, trials))
        assert (exact <= best_of(two_ways(one, two), trials) * (1 + 1e-9) + 1e-9).all()

    def test_choosing_does_cost(self):
        """A coin of 1/3 or 2/3: with many runs the two laws of the best are twice as far apart as the coins."""
        one, two, trials = np.array([2 / 3, 1 / 3]), np.array([1 / 3, 2 / 3]), Trials("geometric", 1000)
        assert two_ways(one, two)[-1] == pytest.approx(log(2), rel=0.01)
        assert two_ways(best(one, trials), best(two, trials))[-1] == pytest.approx(2 * log(2), rel=0.02)

    @pytest.mark.parametrize("law", TRIALS)
    def test_without_delta_it_is_two_to_three_times_epsilon(self, law):
        """Corollary 3: a run that is (ε, 0)-private becomes ((2 + η)ε, 0); Liu and Talwar's three for the geometric."""
        for epsilon in (0.3, 2.0):
            found = best_of(np.full(len(renyi.ORDERS), epsilon), Trials(law, 10))[-1]
            allowance = 5 * log(10) / renyi.ORDERS[-1]  # what a last order below infinity costs
            assert (2 + TRIALS[law]) * epsilon - allowance < found < (2 + TRIALS[law]) * epsilon + allowance


class TestTrials:
    @pytest.mark.parametrize("law", TRIALS)
    @pytest.mark.parametrize("mean", [1.2, 10, 40])
    def test_draws_follow_their_law(self, law, mean):
        """Mean within 4.5 standard errors, χ² below its 1 − 10⁻⁵ quantile: a right law fails one in 5 · 10⁴ times."""
        trials, draws = Trials(law, mean), np.random.default_rng(5)
        found = np.array([trials.draw(draws) for _ in range(20_000)])
        stop = np.exp(-trials.surprise)
        truth = geom(stop) if law == "geometric" else logser(1 - stop)
        assert truth.mean() == pytest.approx(mean, rel=1e-9)
        assert abs(found.mean() - mean) < 4.5 * truth.std() / np.sqrt(len(found))
        edges = np.unique(truth.ppf(np.linspace(0.01, 0.98, 12)).astype(int))
        chances = np.diff(truth.cdf(np.concatenate([[0], edges, [np.inf]])))
        counts = np.histogram(found, np.concatenate([[1], edges + 1, [np.inf]]))[0]
        statistic = np.sum((counts - len(found) * chances) ** 2 / (len(found) * chances))
        assert statistic < chi2(len(edges)).ppf(1 - 1e-5)
        assert found.min() >= 1

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"law": "poisson"}, "may be none"),
            ({"law": "geometrical"}, "did you mean 'geometric'"),
            ({"mean": 1}, "above 1"),
            ({"mean": 0.5}, "above 1"),
            ({"mean": 1e9}, "at most"),
            ({"mean": float("nan")}, "positive number"),
        ],
    )
    def test_what_is_refused(self, settings, message):
        with pytest.raises(ValueError, match=message):
            Trials(**settings)


class TestCandidates:
    def test_the_worst_candidate_counts_at_every_order(self):
        """Two candidates whose curves cross cost more than either, and a third below both costs nothing."""
        trials = Trials("geometric", 10)
        many = run_of(Release(1.0, "add-or-remove", Poisson(0.01)), rounds=1000)
        once = gaussian(1.0)
        alone = [selected([each], DELTA, trials) for each in (many, once)]
        both = selected([many, once], DELTA, trials)
        assert both >= max(alone)
        assert selected([once, many, gaussian(50.0)], DELTA, trials) == both

    def test_every_client_counts(self):
        """The client with the fewest examples, for whom a batch is the largest share."""
        algorithm = hush.private_fedpaq(5, steps=2, batch=4, noise_multiplier=1.5)

        def found(sizes):
            described = describe(algorithm, Population(np.asarray(sizes * 5)), 10)
            assert described.per_client
            return selected([behind_server(described)], DELTA, Trials("logarithmic", 5))

        assert found([20, 80]) == pytest.approx(found([20, 20]), rel=1e-9)
        assert found([20, 80]) > 1.2 * found([80, 80])

    def test_more_trials_cost_more_and_never_less_than_one_run(self):
        run = gaussian(2.0)
        found = [selected([run], DELTA, Trials("logarithmic", mean)) for mean in (1.0001, 2, 10, 100)]
        assert [run.most(DELTA, "rdp"), *found] == sorted([run.most(DELTA, "rdp"), *found])

    def test_rounds_drawn_otherwise_come_off_delta(self):
        release, trials = Release(2.0, "add-or-remove"), Trials("geometric", 10)
        found = selected([gaussian(2.0), run_of(release, failure=DELTA / 20)], DELTA, trials)
        assert found == pytest.approx(selected([gaussian(2.0)], DELTA / 2, trials), rel=1e-9)
        assert selected([run_of(release, failure=DELTA / 10)], DELTA, trials) == inf

    def test_no_noise_is_no_privacy(self):
        assert selected([gaussian(0.0)], DELTA, Trials()) == inf

    def test_noise_on_a_grid(self):
        """A discrete Gaussian has the Gaussian's curve where it is not sampled."""
        found = selected([run_of(Release(2.0, "replace", law="discrete gaussian"))], DELTA, Trials())
        assert found == pytest.approx(selected([run_of(Release(2.0, "replace"))], DELTA, Trials()), rel=1e-12)

    def test_what_is_refused(self):
        with pytest.raises(ValueError, match="found none"):
            selected([], DELTA, Trials())
        with pytest.raises(ValueError, match="delta"):
            selected([gaussian(1.0)], 0.0, Trials())
        for other, name in ((run_of(Release(1.0, "replace")), "relation"), (local(), "trust"), (example(), "unit")):
            with pytest.raises(NoGuarantee, match=f"differ in their {name}"):
                selected([gaussian(1.0), other], DELTA, Trials())

    def test_a_server_that_sees_every_run_is_refused_unless_it_is_trusted(self):
        with pytest.raises(NoGuarantee, match="see every run"):
            selected([local()], DELTA, Trials())
        trusted = behind_server(local())
        assert "trusted with all runs" in " ".join(trusted.table(DELTA).values())
        assert selected([trusted], DELTA, Trials()) == selected([gaussian(1.0)], DELTA, Trials())


class TestGrowth:
    def test_it_is_enough_and_hardly_more(self):
        trials = Trials("geometric", 10)

        def described(factor):
            sizes = ((20, 1.0), (40, 1.6))
            made = [hush.dp_fedavg(size, 400, clip=1.0, noise_multiplier=factor * noise) for size, noise in sizes]
            return [describe(algorithm, CLIENTS, 50) for algorithm in made]

        target = max(each.most(DELTA, "rdp") for each in described(1.0))
        factor = noise_growth(described, target, DELTA, trials)
        assert factor > 1.2
        assert selected(described(factor), DELTA, trials) <= target
        assert selected(described(factor * 0.999), DELTA, trials) > target
        assert noise_growth(described, 100.0, DELTA, trials) == 1

    def test_what_cannot_be_reached(self):
        with pytest.raises(ValueError, match="best of 10 geometric trials"):
            noise_growth(lambda factor: [gaussian(factor)], 1e-6, DELTA, Trials(), most=10)


def local():
    return run_of(Release(1.0, "add-or-remove"), trust="local")


def example():
    return run_of(Release(1.0, "add-or-remove"), unit="example")

"""Membership inference: the curves are scikit-learn's, the ratio is the paper's, and who overfits is caught."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, norm
from sklearn.metrics import roc_auc_score, roc_curve

import hush
from hush.audits import asserted
from hush.audits.findings import Scores
from hush.audits.likelihood import MANY, confidences, each_in_turn, likelihood_ratio
from hush.audits.membership import LOSS, RATIO, membership, membership_of
from hush.audits.rates import clopper_pearson_interval, rates, threshold_at

pytestmark = pytest.mark.slow

some = st.lists(st.integers(0, 12).map(float), min_size=1, max_size=40).map(np.array)


class TestRates:
    @given(some, some)
    def test_are_scikit_learns(self, included, excluded):
        found = rates(Scores(included, excluded))
        members = np.repeat([1, 0], [len(included), len(excluded)])
        false, true, _ = roc_curve(members, np.concatenate([included, excluded]), drop_intermediate=False)
        np.testing.assert_allclose(found.false_positives, false)
        np.testing.assert_allclose(found.true_positives, true)
        np.testing.assert_allclose(found.auc, roc_auc_score(members, np.concatenate([included, excluded])))
        np.testing.assert_allclose(found.accuracy, max((true + 1 - false) / 2))
        for rate, interval in found.at.items():
            assert interval.rate == true[false <= rate].max()
            assert interval.low <= interval.rate <= interval.high
            assert np.mean(excluded >= threshold_at(found, rate)) <= rate

    @given(st.integers(1, 500), st.data())
    def test_intervals_are_scipys(self, trials, data):
        hits = data.draw(st.integers(0, trials))
        expected = binomtest(hits, trials).proportion_ci(0.95, "exact")
        np.testing.assert_allclose(clopper_pearson_interval(hits, trials, 0.95)[::2], expected, atol=1e-9)


def plain_ratio(target, shadows, coins, online):
    """Algorithm 1 of the paper, an example after the other, with the deviations of all examples together."""
    kinds = {}
    for name, chosen in (("in", coins), ("out", ~coins)):
        residuals, freedom, means = [], 0, []
        for example in range(len(target)):
            found = shadows[chosen[:, example], example]
            means.append(found.mean())
            residuals += list(found - found.mean())
            freedom += len(found) - 1
        kinds[name] = means, np.sqrt(np.sum(np.square(residuals)) / freedom)
    scores = []
    for example, value in enumerate(target):
        (inside, wide), (out, broad) = ((kinds[name][0][example], kinds[name][1]) for name in ("in", "out"))
        if online:
            scores.append(np.log(norm.pdf(value, inside, wide) / norm.pdf(value, out, broad)))
        else:
            scores.append(np.log(1 - norm.sf(value, out, broad)))
    return np.array(scores)


class TestLikelihoodRatio:
    def given(self, shadows, examples=6, seed=0):
        draws = np.random.default_rng(seed)
        coins = draws.random((shadows, examples)) < 0.5
        coins[0], coins[1] = True, False  # so that each example has both kinds
        return draws.normal(size=examples), draws.normal(size=(shadows, examples)) + coins, coins

    @pytest.mark.parametrize("online", [True, False])
    def test_is_the_papers(self, online):
        given = self.given(10)
        np.testing.assert_allclose(likelihood_ratio(*given, online), plain_ratio(*given, online), rtol=1e-9)

    def test_with_many_shadows_each_example_has_its_own_deviation(self):
        target, shadows, coins = self.given(4 * MANY)
        shadows[:, 0] *= 10
        expected = []
        for example, value in enumerate(target):
            own = [shadows[chosen[:, example], example] for chosen in (coins, ~coins)]
            logs = [norm.logpdf(value, part.mean(), part.std(ddof=1)) for part in own]
            expected.append(logs[0] - logs[1])
        np.testing.assert_allclose(likelihood_ratio(target, shadows, coins), expected, rtol=1e-9)

    def test_says_nothing_of_who_no_shadow_has_seen(self):
        target, shadows, coins = self.given(5)
        coins[:, 2], coins[:, 3] = False, True
        assert (likelihood_ratio(target, shadows, coins)[2:4] == 0).all()

    def test_a_target_is_none_of_its_shadows(self):
        _, found, coins = self.given(8)
        every = each_in_turn(found, coins)
        np.testing.assert_allclose(every[3], likelihood_ratio(found[3], np.delete(found, 3, 0), np.delete(coins, 3, 0)))

    def test_confidences_are_logits_and_finite(self):
        p = np.array([0.1, 0.5, 0.9])
        np.testing.assert_allclose(confidences(-np.log(p)), np.log(p / (1 - p)), atol=1e-12)
        assert np.isfinite(confidences(np.array([0.0, 200.0]))).all()


def noise_problem(examples=160, dimension=120, clients=8):
    """Labels that nothing tells of: all that a model knows of them it has learnt by heart."""
    draws = np.random.default_rng(0)
    x, y = draws.normal(size=(2 * examples, dimension)).astype(np.float32), draws.integers(0, 4, 2 * examples)
    names = np.array([f"clinic {number}" for number in range(clients)])
    held = np.repeat(names, examples // clients)
    return hush.tasks.arrays(x[:examples], y[:examples], held, model="softmax", test=(x[examples:], y[examples:]))


@pytest.fixture(scope="module")
def by_heart():
    return membership(hush.fedavg(steps=10, lr=0.1), noise_problem(), 10, delta=1e-4, shadows=15)


class TestMembership:
    def test_who_learns_by_heart_is_caught(self, by_heart):
        for attack in by_heart.attacks.values():
            assert attack.auc > 0.8
        assert by_heart.best == RATIO
        assert by_heart.attacks[RATIO].at[0.01].low > 0.1
        assert by_heart.finding.bound > 0.5
        assert not by_heart.finding.refuted  # nothing was claimed

    def test_clients_are_named_and_all_exposed(self, by_heart):
        assert by_heart.clients["client_name"][3] == "clinic 3"
        assert (by_heart.clients[f"{RATIO}: auc"] > 0.8).all()
        assert len(by_heart.clients) == 8

    @pytest.mark.parametrize("unit", ["client", "example"])
    def test_a_claim_of_little_is_refuted(self, unit):
        algorithm = hush.fedavg(steps=10, lr=0.1)
        if unit == "example":  # next to no noise
            algorithm = hush.private_fedpaq(
                8, steps=30, lr=0.3, batch=None, clip=10.0, noise_multiplier=1e-4, levels=None
            )
        claim = asserted(0.3, 1e-4, unit=unit, relation="replace", trust="server")
        found = membership(algorithm, noise_problem(), 10, delta=1e-4, shadows=15, claim=claim)
        assert found.finding.refuted

    def test_leaving_out_is_no_replacing_where_examples_are_not_clipped(self):
        claim = asserted(0.3, 1e-4, unit="example", relation="replace", trust="server")
        found = membership(hush.fedavg(steps=10, lr=0.1), noise_problem(), 10, delta=1e-4, shadows=15, claim=claim)
        assert found.finding.bound > 0.3
        assert not found.finding.refuted
        assert "held to none" in found.words

    def test_with_noise_nobody_is(self):
        """The AUC of 16 · 160 independent scores that tell nothing has a deviation of about 0.012: held to four."""
        algorithm = hush.private_fedpaq(8, steps=1, batch=None, noise_multiplier=20.0, levels=None)
        found = membership(algorithm, noise_problem(), 10, delta=1e-4, shadows=15, online=False)
        assert abs(found.attacks[RATIO].auc - 0.5) < 0.05
        assert found.attacks[LOSS].auc < 0.55
        assert found.finding.claim.epsilon < 2
        assert not found.finding.refuted

    def test_a_claim_about_clients_that_are_added_says_nothing_of_examples(self):
        claim = asserted(0.1, 1e-4, unit="client", relation="add-or-remove", trust="server")
        found = membership(hush.fedavg(steps=10, lr=0.1), noise_problem(), 10, delta=1e-4, shadows=15, claim=claim)
        assert not found.finding.refuted
        assert "held to none" in found.words


class TestFinishedRuns:
    def test_members_are_told_from_the_test_set(self, tmp_path, unpainted):
        problem = noise_problem()
        hush.run(hush.fedavg(steps=20, lr=0.1), problem, rounds=10, folder=tmp_path / "run")
        found = membership_of(tmp_path / "run", problem)
        assert found.attacks[LOSS].auc > 0.8
        assert found.finding is None
        assert "no bound" in found.words
        assert (found.clients[f"{LOSS}: auc"] > 0.6).all()

    def test_without_a_test_set_there_are_no_others(self, tmp_path, unpainted):
        problem = dataclasses.replace(noise_problem(), test=None)
        hush.run(hush.fedavg(steps=1), problem, rounds=1, folder=tmp_path / "run")
        with pytest.raises(ValueError, match="no members"):
            membership_of(tmp_path / "run", problem)


class TestRefused:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"shadows": 2}, "shadows"),
            ({"online": 1}, "online"),
            ({"delta": 0.0}, "delta"),
            ({"claim": 1.0}, "must be a Claim"),
            ({"claim": asserted(1.0, 1e-3, unit="example", relation="replace", trust="local")}, "made at δ"),
        ],
    )
    def test_bad_input(self, options, words):
        with pytest.raises(ValueError, match=words):
            membership(hush.fedavg(steps=1), noise_problem(), 1, **{"delta": 1e-4} | options)

    def test_examples_that_several_hold(self):
        problem = noise_problem()
        shared = dataclasses.replace(problem, index=problem.index.at[0].set(problem.index[1]))
        with pytest.raises(ValueError, match="must be one client's"):
            membership(hush.fedavg(steps=1), shared, 1, delta=1e-4)

    def test_models_that_are_no_numbers(self):
        problem = noise_problem()
        broken = dataclasses.replace(problem, train=dataclasses.replace(problem.train, x=problem.train.x * jnp.nan))
        with pytest.raises(ValueError, match="no finite numbers"):
            membership(hush.fedavg(steps=1), broken, 1, delta=1e-4, shadows=3)

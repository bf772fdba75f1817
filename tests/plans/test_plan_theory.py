"""What Theorem 1 says of trials: the bound itself, its rank beside a known one, and what its order would have saved."""

from dataclasses import replace
from itertools import permutations
from math import comb, exp, nan, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hush
from hush.core.problem import Population
from hush.plans.budgets import Budgets
from hush.plans.families import PLAIN
from hush.plans.orders import agreement, expected_position, order
from hush.plans.private import KINDS
from hush.plans.theory import (
    ALL,
    AS_RUN,
    COVERED,
    FIRST,
    TO_THE_END,
    WHOLE,
    bounds_of,
    constants_of,
    rank,
    ranked,
    setting_of,
    spent,
    why_not,
)
from hush.theory.constants import Constants, estimate
from hush.theory.fedpaq import Setting, theorem_1

CONSTANTS = Constants(
    smoothness=2.0, convexity=0.5, gradient=3.0, noise=2.0, heterogeneity=1.0, distance=4.0, dimension=100
)
POPULATION = Population(np.full(50, 40))
SEVERAL = [{"steps": steps, "clients": clients} for steps in (1, 2, 5, 10) for clients in (5, 10, 50)]


def only(table, **where):
    """The one row in which columns have these values."""
    for name, value in where.items():
        table = table[table[name] == value]
    assert len(table) == 1
    return table.iloc[0]


class TestBound:
    def test_is_the_theorem_at_the_candidates_numbers(self, trials):
        row = {"family": "fedpaq", "steps": 5, "batch": 4, "clients": 7, "variance": 1.5, "rounds": 30, "run": 12}
        found = bounds_of(CONSTANTS, trials([row]).last(), POPULATION).iloc[0]
        own = replace(CONSTANTS, gradient=sqrt(3.0**2 + 2.0**2 / 4))
        setting = Setting(rounds=30, steps=5, clients=7, population=50, batch=4, quantiser=1.5)
        assert found["bound"] == pytest.approx(theorem_1(own, setting).total)
        assert found["bound_as_run"] == pytest.approx(theorem_1(own, replace(setting, rounds=12)).total)
        assert found["why"] == ""

    def test_all_of_a_clients_examples_have_no_gradient_noise(self, trials):
        found = bounds_of(CONSTANTS, trials([{"batch": 0}]).last(), POPULATION).iloc[0]
        setting = Setting(rounds=80, steps=10, clients=10, population=50)
        assert found["bound"] == pytest.approx(theorem_1(CONSTANTS, setting).total)

    def test_noise_is_that_of_what_is_sent(self):
        """A client that sees no gradient sends −η times the sum of its steps' noise: simulated."""
        row = {
            "rounds": 10, "steps": 6, "batch": 8, "clients": 5, "noise": 1.7, "clip": 0.3, "variance": 0.0,
            "message_bits": 1.0,
        }  # fmt: skip
        lr, one_step = 0.05, 1.7 * 2 * 0.3 / 8
        generator = np.random.default_rng(0)
        sent = -lr * generator.normal(0, one_step, (200_000, 6)).sum(1)
        # The deviation of a variance of n draws is √(2/n) of it: 0.3 %; five of them fail once in 10⁶ seeds.
        assert setting_of(row, POPULATION).privacy == pytest.approx(sent.var() / lr**2, rel=5 * sqrt(2 / 200_000))

    def test_noise_of_a_whole_client_goes_by_the_smallest(self):
        row = {"rounds": 10, "steps": 2, "clients": 5, "noise": 1.0, "clip": 2.0, "variance": 0.0, "message_bits": 1.0}
        population = Population(np.array([10, 40, 30, 20, 50]))
        whole = setting_of(row | {"batch": 0}, population)
        assert whole.batch is None
        assert whole.privacy == pytest.approx(setting_of(row | {"batch": 10}, population).privacy)

    def test_clipped_gradients_are_no_longer_than_the_clip(self):
        assert constants_of(CONSTANTS, {"batch": 0, "noise": 1.0, "clip": 0.25}).gradient == 0.25
        assert constants_of(CONSTANTS, {"batch": 0, "noise": 1.0, "clip": 9.0}).gradient == CONSTANTS.gradient

    def test_more_noise_is_a_larger_bound(self, trials):
        rows = [{"family": "private_fedpaq", "noise": noise, "clip": 1.0, "epsilon": 1.0} for noise in (0.5, 1.0, 4.0)]
        assert bounds_of(CONSTANTS, trials(rows).last(), POPULATION)["bound"].is_monotonic_increasing

    @pytest.mark.parametrize("batch", [1, 5, 20])
    def test_the_gradient_of_a_batch_is_at_least_what_is_estimated_for_it(self, batch, digits_softmax):
        """The largest of a sum is no more than the sum of the largest."""
        problem, whole = digits_softmax
        direct = estimate(problem, batch, weight_decay=1e-3).gradient
        assert direct <= constants_of(whole, {"batch": batch, "noise": 0.0}).gradient * (1 + 1e-6)


class TestWhatIsCovered:
    def test_every_family_of_a_plan_is_covered_or_has_a_reason_of_its_own(self):
        reasons = {name: why_not(name) for name in (*PLAIN, *KINDS, "private_fedpaq", "over_the_air")}
        assert {name for name, why in reasons.items() if why is None} == set(COVERED)
        assert not any("not known" in (why or "") for why in reasons.values())
        assert "mixed by the channel" in (why_not("over the air") or "")

    def test_unknown_families_are_left_out(self, trials):
        found = ranked(CONSTANTS, trials([{"family": "something new"}, {}]), POPULATION)
        assert found.left_out == {"something new": "Theorem 1 is not known to cover it"}
        assert found.bounds["bound"].isna().tolist() == [True, False]

    def test_what_is_left_out_does_not_count(self, trials):
        rows = [*SEVERAL, {"family": "scaffold", "score": 0.99}, {"family": "dp_fedavg adaptive", "score": 0.98}]
        found = ranked(CONSTANTS, trials(rows), POPULATION)
        assert only(found.agreement, family=ALL, reading=WHOLE)["candidates"] == len(SEVERAL)
        assert set(found.left_out) == {"scaffold", "dp_fedavg adaptive"}
        assert "scaffold" in found.in_words()

    @pytest.mark.parametrize("wrong", [{"clients": 51}, {"variance": nan}, {"family": "private_fedpaq", "noise": 1.0}])
    def test_a_row_that_makes_no_setting_is_left_out_with_its_reason(self, wrong, trials):
        found = ranked(CONSTANTS, trials([wrong, {}]), POPULATION)
        assert found.bounds["bound"].isna().tolist() == [True, False]
        assert found.bounds["why"][0]

    def test_nothing_covered_is_said(self, trials):
        found = ranked(CONSTANTS, trials([{"family": "scaffold"}]), POPULATION)
        assert found.in_words().startswith("Theorem 1 covers none")
        assert found.orders.empty

    def test_no_trials(self, trials):
        assert ranked(CONSTANTS, trials([]), POPULATION).bounds.empty


class TestAgreement:
    @pytest.mark.parametrize("sign", [1, -1])
    def test_scores_made_from_the_bound(self, sign, trials):
        bounds = bounds_of(CONSTANTS, trials(SEVERAL).last(), POPULATION)["bound"]
        rows = [row | {"score": -sign * bound} for row, bound in zip(SEVERAL, bounds, strict=True)]
        found = ranked(CONSTANTS, trials(rows), POPULATION)
        tau = only(found.agreement, family=ALL, reading=WHOLE)
        assert tau["tau"] == pytest.approx(sign)
        assert tau["p_value"] < 1e-6
        assert f"τ = {sign:.2f}" in found.in_words()
        best = only(found.orders, family=ALL, wanted="the best")
        assert best["by_bound"] == (1 if sign == 1 else len(SEVERAL))

    def test_the_readings_differ_where_looks_do(self, trials):
        """A score by the rounds that were run: the bound of those agrees, that of whole runs knows nothing of them."""
        rows = [{"run": run, "score": run / 80} for run in (10, 20, 40)]
        found = ranked(CONSTANTS, trials(rows), POPULATION).agreement
        assert only(found, family=ALL, reading=AS_RUN)["tau"] == pytest.approx(1)
        assert np.isnan(only(found, family=ALL, reading=WHOLE)["tau"])
        assert only(found, family=ALL, reading=TO_THE_END)["candidates"] == 0

    def test_first_looks_are_compared_with_each_other(self, trials):
        """Who did badly at first was not looked at again; who did well came far, the last of them to the end."""
        first = [{"trial": n, "steps": s, "run": 10, "score": 0.5 - n / 10} for n, s in enumerate((1, 2, 5))]
        later = [{"trial": 2, "steps": 5, "run": 80, "score": 0.9}]
        found = ranked(CONSTANTS, trials([*first, *later]), POPULATION).agreement
        assert only(found, family=ALL, reading=FIRST)["tau"] == pytest.approx(1)
        assert only(found, family=ALL, reading=WHOLE)["tau"] == pytest.approx(-1 / 3)

    def test_families_apart(self, trials):
        rows = [{"family": name, "steps": steps, "score": sign * steps / 20}
                for name, sign in (("fedavg", -1), ("fedpaq", 1)) for steps in (1, 2, 5, 10)]  # fmt: skip
        found = ranked(CONSTANTS, trials(rows), POPULATION).agreement
        taus = [only(found, family=name, reading=WHOLE)["tau"] for name in ("fedavg", "fedpaq")]
        assert taus == pytest.approx([-taus[1], taus[1]])
        assert abs(taus[0]) == pytest.approx(1)

    @given(st.lists(st.floats(-10, 10), min_size=2, max_size=12, unique=True))
    def test_of_any_decreasing_function_of_the_bound_is_one(self, bounds):
        ranks = np.argsort(np.argsort(bounds))
        assert agreement(bounds, [exp(-0.3 * rank) for rank in ranks])["tau"] == pytest.approx(1)
        assert agreement(bounds, [rank**3 for rank in ranks])["tau"] == pytest.approx(-1)

    @given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=10))
    def test_is_counted_by_hand(self, points):
        """τ_b: (concordant − discordant) over the root of the pairs untied in each."""
        bound, score = np.array(points, float).T
        signs = [
            (np.sign(bound[j] - bound[i]), np.sign(score[i] - score[j])) for i in range(len(points)) for j in range(i)
        ]
        untied = [sum(pair[side] != 0 for pair in signs) for side in (0, 1)]
        found = agreement(bound, score)["tau"]
        if min(untied) == 0:
            assert np.isnan(found)
        else:
            assert found == pytest.approx(sum(a * b for a, b in signs) / sqrt(untied[0] * untied[1]), abs=1e-9)

    def test_who_diverged_is_the_worst(self):
        assert agreement([1.0, 2.0, 3.0], [0.9, 0.8, -np.inf])["tau"] == pytest.approx(1)

    def test_random_scores(self):
        """At n = 60, τ has deviation √(2(2n+5)/(9n(n−1))) = 0.088; four of them fail once in 16,000 seeds."""
        generator = np.random.default_rng(3)
        found = agreement(generator.random(60), generator.random(60))
        assert abs(found["tau"]) < 4 * sqrt(2 * 125 / (9 * 60 * 59))


class TestOrders:
    @given(st.lists(st.booleans(), min_size=1, max_size=6).filter(any))
    def test_the_formula_for_a_random_order_is_the_mean_over_all_orders(self, good):
        positions = [each.index(True) + 1 for each in permutations(good)]
        assert expected_position(np.zeros(len(good)), good) == pytest.approx(np.mean(positions))

    @given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=6))
    def test_ties_are_broken_at_random(self, candidates):
        keys, good = [key for key, _ in candidates], [each for _, each in candidates]
        if not any(good):
            with pytest.raises(ValueError, match="must be good, found none"):
                expected_position(keys, good)
            return
        orders = [sorted(each, key=lambda pair: pair[0]) for each in permutations(candidates)]
        positions = [[is_good for _, is_good in each].index(True) + 1 for each in orders]
        assert expected_position(keys, good) == pytest.approx(np.mean(positions))

    @given(st.integers(1, 8), st.data())
    def test_the_chance_of_being_as_early(self, candidates, data):
        good = data.draw(st.lists(st.booleans(), min_size=candidates, max_size=candidates).filter(any))
        found = order(range(candidates), range(candidates), good)
        where = good.index(True) + 1
        later = comb(candidates - where, sum(good)) / comb(candidates, sum(good))
        assert found["by_bound"] == found["as_tried"] == where
        assert found["chance"] == pytest.approx(1 - later)
        assert 0 < found["chance"] <= 1

    def test_who_is_within_half_a_point_is_good(self, trials):
        rows = [{"score": score} for score in (0.5, 0.896, 0.90, 0.8)]
        found = ranked(CONSTANTS, trials(rows), POPULATION).orders
        assert only(found, family=ALL, wanted="the best")["as_tried"] == 3
        near = only(found, family=ALL, wanted="within 0.005 of the best")
        assert (near["good"], near["as_tried"]) == (2, 2)
        assert near["by_bound"] == near["at_random"] == pytest.approx(5 / 3)  # all bounds are one and the same


class TestSpent:
    def test_the_product_of_eq_11(self, trials):
        rows = [{"rounds": 7, "clients": 20, "message_bits": 100.0, "bits": 14_000.0, "client_bits": 300.0}]
        found = spent(trials(rows).last(), Budgets(client_bits=600, bits=28_000), POPULATION).iloc[0]
        assert found["product"] == found["bits"] == 7 * 20 * 100
        assert found["client_product"] == found["client_bits"] == 300  # 140 turns of 50 clients: three at most
        assert (found["of_budget"], found["of_client_budget"]) == (0.5, 0.5)

    def test_no_budget_has_no_share(self, trials):
        found = spent(trials([{}]).last(), Budgets(rounds=80), POPULATION).iloc[0]
        assert np.isnan(found["of_budget"])
        assert np.isnan(found["of_client_budget"])


@pytest.fixture(scope="module")
def digits_softmax():
    problem = hush.tasks.digits(clients=10, classes_per_client=2, model="softmax")
    return problem, estimate(problem, None, weight_decay=1e-3)


class TestOnDigits:
    def test_softmax_is_ranked(self, digits_softmax, trials):
        problem, constants = digits_softmax
        rows = [{"steps": steps, "batch": 10, "clients": 5, "score": 0.9 - steps / 100} for steps in (1, 2, 5)]
        found = rank(problem, trials(rows))
        assert found.refusal is None
        assert found.constants == constants
        assert only(found.agreement, family=ALL, reading=WHOLE)["tau"] == pytest.approx(1)

    def test_a_model_that_is_not_convex_is_refused(self, trials):
        found = rank(hush.tasks.digits(clients=4, model="mlp", model_options={"hidden": 4}), trials([{}]))
        assert found.refusal is not None
        assert "convex" in found.in_words()
        assert found.bounds["bound"].isna().all()

    def test_without_weight_decay_it_is_refused(self, digits_softmax, trials):
        found = rank(digits_softmax[0], trials([{}]), weight_decay=0.0)
        assert "weight_decay must be above 0" in (found.refusal or "")

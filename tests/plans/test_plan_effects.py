"""What trials say of each choice: tables made from known values, which must come out again."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.plans.effects import BY_MODEL, BY_PAIRS, UNTOLD, binned, fitted, in_words, main_effects
from hush.plans.pairs import equal_shares, level, pairs, prepared

# What each level adds to the score; they do not interact.
STEPS = {1: 0.0, 5: 0.06, 20: 0.02}
CLIENTS = {5: 0.0, 10: 0.01, 50: 0.015}
CODING = {"1 dense": -0.04, "16 dense": 0.0, "none": 0.03}
WHOLE = [
    {"steps": steps, "clients": clients, "coding": coding, "score": 0.5 + STEPS[steps] + CLIENTS[clients] + value}
    for steps, clients, (coding, value) in product(STEPS, CLIENTS, CODING.items())
]


def of(effects, choice):
    """The row of one choice."""
    found = effects[effects["choice"] == choice]
    assert len(found) == 1
    return found.iloc[0]


class TestPairs:
    def test_of_a_whole_grid(self, trials):
        """27 candidates: each of 9 settings of the others has three pairs of levels."""
        found = list(pairs(prepared(trials(WHOLE).table()), "steps"))
        assert len(found) == 27
        for one, other in found:
            assert one["steps"] != other["steps"]
            assert (one["clients"], one["coding"]) == (other["clients"], other["coding"])

    def test_two_choices_at_once_both_differ(self, trials):
        found = list(pairs(prepared(trials(WHOLE).table()), "steps", "clients"))
        assert len(found) == 3 * 9 * 4 // 2
        assert all(one["steps"] != other["steps"] and one["clients"] != other["clients"] for one, other in found)

    @given(
        st.lists(
            st.tuples(st.sampled_from([1, 5]), st.sampled_from([5, 10]), st.sampled_from([20, 40, 80])), max_size=12
        )
    )
    def test_are_those_of_a_plain_loop(self, trials, drawn):
        rows = [{"steps": steps, "clients": clients, "run": run} for steps, clients, run in sorted(drawn)]
        found = {
            frozenset((one["trial"], other["trial"])) for one, other in pairs(prepared(trials(rows).table()), "steps")
        }
        wanted = {
            frozenset((i, j))
            for i, one in enumerate(rows)
            for j, other in enumerate(rows[:i])
            if one["steps"] != other["steps"] and (one["clients"], one["run"]) == (other["clients"], other["run"])
        }
        assert found == wanted

    def test_only_looks_at_the_same_part_of_a_run_compare_and_the_latest_of_these(self, trials):
        rows = [
            {"trial": 0, "steps": 1, "run": 10, "score": 0.1},
            {"trial": 0, "steps": 1, "run": 40, "score": 0.3},
            {"trial": 0, "steps": 1, "run": 80, "score": 0.9},
            {"trial": 1, "steps": 5, "run": 10, "score": 0.2},
            {"trial": 1, "steps": 5, "run": 40, "score": 0.5},
        ]
        [(one, other)] = pairs(prepared(trials(rows).table()), "steps")
        assert (one["run"], other["run"]) == (40, 40)

    def test_a_share_of_few_rounds_is_rounded_up(self):
        """An eighth of 10 rounds is two, of 80 it is ten."""
        few, many = ({"rounds": n, "run": run, "share": run / n, "repetitions": 1} for n, run in ((10, 2), (80, 10)))
        assert equal_shares(few, many)
        assert not equal_shares(few, many | {"share": 0.5})
        assert not equal_shares(few, many | {"repetitions": 3})

    def test_fedpaq_without_a_quantiser_is_fedavg(self, trials):
        rows = [{"family": "fedavg"}, {"family": "fedpaq", "coding": "1 dense"}, {"family": "fedprox"}]
        ready = prepared(trials(rows).table())
        assert [{row["family"] for row in pair} for pair in pairs(ready, "coding")] == [{"fedavg", "fedpaq"}]
        assert [{row["family"] for row in pair} for pair in pairs(ready, "family")] == [{"fedavg", "fedprox"}]

    def test_rounds_are_a_choice_where_they_cost_privacy(self, trials):
        rows = [
            {"rounds": rounds, "run": rounds, "epsilon": epsilon} for rounds in (40, 80) for epsilon in (1.0, np.nan)
        ]
        ready = prepared(trials(rows).table())
        assert [level(row, "rounds") for row in ready.to_dict("records")] == [40, "none", 80, "none"]

    def test_a_choice_that_nobody_has_heard_of_is_one(self, trials):
        rows = [{"steps": 1, "power": "a"}, {"steps": 5, "power": "b"}, {"steps": 5, "power": "a"}]
        ready = prepared(trials(rows).table())
        assert [{one["trial"], other["trial"]} for one, other in pairs(ready, "steps")] == [{0, 2}]
        assert [{one["trial"], other["trial"]} for one, other in pairs(ready, "power")] == [{1, 2}]

    def test_what_only_some_families_have(self, trials):
        """Who has no bands compares with who has none either."""
        rows = [{"steps": 1}, {"steps": 5}, {"steps": 5, "bands": 4}, {"steps": 1, "bands": 8}]
        assert len(list(pairs(prepared(trials(rows).table()), "steps"))) == 1


class TestByPairs:
    def test_a_whole_grid_gives_the_truth(self, trials):
        effects = main_effects(trials(WHOLE).table())
        for choice, truth in (("steps", STEPS), ("clients", CLIENTS), ("coding", CODING)):
            found = of(effects, choice)
            assert found["effect"] == pytest.approx(100 * (max(truth.values()) - min(truth.values())))
            assert found["best"] == max(truth, key=truth.__getitem__)
            assert (found["how"], found["behind"], found["levels"]) == (BY_PAIRS, 27, 3)
        assert list(effects["choice"]) == ["coding", "steps", "clients"]
        assert of(effects, "steps")["typical"] == pytest.approx(100 * np.mean([0.06, 0.02, 0.04]))

    def test_a_chain_of_neighbours_is_enough(self, trials):
        """Neighbour moves compare 1 with 5 and 5 with 20; 1 and 20 meet nowhere."""
        rows = [{"steps": 1, "score": 0.5}, {"steps": 5, "score": 0.56},
                {"steps": 5, "clients": 50, "score": 0.7}, {"steps": 20, "clients": 50, "score": 0.66}]  # fmt: skip
        found = of(main_effects(trials(rows).table()), "steps")
        assert (found["best"], found["levels"], found["behind"]) == (5, 3, 2)
        assert found["effect"] == pytest.approx(6.0)

    def test_one_pair_is_better_than_a_model(self, trials):
        rows = [{"steps": 1, "score": 0.5}, {"steps": 5, "score": 0.54}, {"steps": 1, "clients": 50, "score": 0.9}]
        found = of(main_effects(trials(rows).table()), "steps")
        assert (found["how"], found["behind"], found["best"]) == (BY_PAIRS, 1, 5)
        assert found["effect"] == pytest.approx(4.0)

    def test_levels_that_never_meet_are_not_compared(self, trials):
        """Two islands: 1 with 2, which differ by a point, and 5, 10 and 20, which differ by less; no bridge."""
        rows = [{"steps": 1, "score": 0.1}, {"steps": 2, "score": 0.11},
                {"steps": 5, "clients": 50, "score": 0.9}, {"steps": 10, "clients": 50, "score": 0.903},
                {"steps": 20, "clients": 50, "score": 0.902}]  # fmt: skip
        found = of(main_effects(trials(rows).table()), "steps")
        assert (found["best"], found["levels"]) == (10, 3)
        assert found["effect"] == pytest.approx(0.3)

    def test_who_diverged_says_nothing_of_size(self, trials):
        rows = [*WHOLE, {"steps": 1, "clients": 5, "coding": "2 dense", "score": -np.inf}]
        assert of(main_effects(trials(rows).table()), "coding")["levels"] == 3

    def test_noise_averages_out(self, trials):
        """60 pairs of noisy scores: the mean gain has deviation 0.01 √(2/60); five fail once in 10⁶ seeds."""
        generator = np.random.default_rng(5)
        rows = [
            {"steps": number, "clients": clients, "score": 0.5 + 0.02 * (clients == 50) + generator.normal(0, 0.01)}
            for number in range(60)
            for clients in (10, 50)
        ]
        found = of(main_effects(trials(rows).table()), "clients")
        assert (found["best"], found["behind"]) == (50, 60)
        assert found["effect"] == pytest.approx(2.0, abs=5 * np.sqrt(2 / 60))


class TestByModel:
    def test_an_additive_truth_without_pairs(self, trials):
        """Every two candidates of this Latin square differ in two choices or three."""
        rows = [
            {"steps": steps, "clients": clients, "batch": batch, "score": 0.5 + STEPS[steps] + CLIENTS[clients]}
            for i, steps in enumerate(STEPS)
            for j, clients in enumerate(CLIENTS)
            for batch in [(5, 10, 20)[(i + j) % 3]]
        ]
        effects = main_effects(trials(rows).table())
        assert set(effects["how"]) == {BY_MODEL}
        assert of(effects, "steps")["effect"] == pytest.approx(6.0)
        assert of(effects, "clients")["effect"] == pytest.approx(1.5)
        assert of(effects, "batch")["effect"] == pytest.approx(0.0, abs=1e-6)

    def test_how_far_a_candidate_was_run_is_no_merit_of_its_choices(self, trials):
        """All that was run to the end has a step size of 0.3, and so has half of the rest."""
        rows = [
            row | {"run": run, "lr": 0.3 if run == 80 or number % 2 else 0.1, "score": row["score"] + run / 200}
            for number, (row, run) in enumerate(zip(WHOLE, [80, 8, 8, 80, 8] * 6, strict=False))
        ]
        assert of(main_effects(trials(rows).table()), "lr")["effect"] == pytest.approx(0.0, abs=1e-6)

    def test_as_many_unknowns_as_candidates_explain_anything(self, trials):
        """Three scores, and three unknowns: a constant, steps that go with clients, and a step size."""
        rows = [{"steps": 1}, {"steps": 5, "clients": 50, "score": 0.7}, {"steps": 5, "lr": 0.3, "clients": 50}]
        assert of(main_effects(trials(rows).table()), "lr")["how"] == UNTOLD

    def test_choices_that_always_go_together_are_not_told_apart(self, trials):
        rows = [{"steps": s, "clients": c, "score": 0.5 + s / 100} for s, c in ((1, 5), (5, 50))] * 4
        effects = main_effects(trials(rows).table())
        assert effects["effect"].isna().all()
        assert "not told apart" in in_words(effects)

    def test_a_step_size_among_pairs(self, trials):
        rows = [row | {"lr": lr, "score": row["score"] + (0.05 if lr == 0.3 else 0.0)}
                for row, lr in zip(WHOLE, [0.1, 0.3, 0.3, 0.1, 0.3] * 6, strict=False)]  # fmt: skip
        found = of(main_effects(trials(rows).table()), "lr")
        assert (found["how"], found["best"]) == (BY_MODEL, "0.3")
        assert found["effect"] == pytest.approx(5.0)

    def test_what_only_some_families_choose(self, trials):
        rows = [{"family": "a", "clients": m, "steps": s, "score": 0.5} for m in (5, 10) for s in (1, 5)] + [
            {"family": "b", "clients": 5, "steps": s, "bands": b, "score": 0.6 + b / 100}
            for s, b in ((1, 2), (5, 4), (10, 2), (20, 4))
        ]
        rows += [{"family": "b", "clients": 10, "steps": s, "bands": b, "score": 0.6 + b / 100} for s, b in ((10, 4),)]
        found = of(main_effects(trials(rows).table()), "bands")
        assert found["best"] == 4
        assert found["effect"] == pytest.approx(2.0)

    def test_nothing_varies(self, trials):
        effects = main_effects(trials([{}, {}]).table())
        assert effects.empty
        assert in_words(effects) == "Nothing varies among what was tried."
        assert main_effects(trials([]).table()).empty


class TestFit:
    @given(
        st.lists(st.floats(-1, 1), min_size=2, max_size=5),
        st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=10),
    )
    def test_differences_give_the_values_of_who_is_connected(self, values, edges):
        """The group is the largest connected part of the graph, found a second way by merging."""
        count = len(values)
        edges = [(a, b) for a, b in edges if a != b and max(a, b) < count]
        parts = [{each} for each in range(count)]
        for a, b in edges:
            joined = next(part for part in parts if a in part) | next(part for part in parts if b in part)
            parts = [part for part in parts if not part & joined] + [joined]
        design = np.array([[float(k == a) - float(k == b) for k in range(count)] for a, b in edges]).reshape(-1, count)
        found = fitted(design, design @ np.array(values), list(range(count)))
        largest = max(len(part) for part in parts)
        if largest == 1:
            assert found is None
            return
        assert found is not None
        assert set(found.levels) in [part for part in parts if len(part) == largest]
        truth = np.array([values[each] for each in found.levels])
        assert found.spread == pytest.approx(np.ptp(truth), abs=1e-6)

    def test_few_values_are_levels_and_many_are_thirds(self):
        assert list(binned(pd.Series([0.1, 0.3, np.nan]))) == ["0.1", "0.3", "none"]
        many = binned(pd.Series([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, np.nan]))
        assert list(many) == ["1 to 2"] * 2 + ["3 to 4"] * 2 + ["5 to 6"] * 2 + ["none"]

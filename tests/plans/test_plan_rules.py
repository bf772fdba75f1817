"""The paper's rules beside made-up trials in which they hold, fail, or are not tried."""

import numpy as np
import pandas as pd
import pytest

from hush.plans.choices import CODINGS
from hush.plans.rules import (
    ABOUT_TEN,
    AGREES,
    AS_GOOD,
    CLEAR,
    DOES_NOT,
    FEW,
    LEAST,
    NOT_TRIED,
    RULES,
    SMALLER_EPSILON,
    in_words,
    judged,
    levels_of,
)

MORE_STEPS, PER_ITERATION, MORE_CLIENTS_OR_LEVELS, ABOUT_TEN_LEVELS, THAN_FEW, MORE_CLIENTS, CLIPS = (
    rule.name for rule in RULES
)


def verdict(found, rule):
    """The row of one rule."""
    [row] = found[found["rule"] == rule].to_dict("records")
    return row


def both(trials, rows, rule):
    """The verdicts on rows and on rows with the scores the other way around."""
    contrary = [row | {"score": 1 - row["score"]} for row in rows]
    return [verdict(judged(trials(each).table()), rule)["verdict"] for each in (rows, contrary)]


class TestEqualRounds:
    def test_larger_steps(self, trials):
        rows = [{"steps": steps, "clients": m, "score": 0.5 + steps / 100} for steps in (1, 5) for m in (5, 10, 50)]
        assert both(trials, rows, MORE_STEPS) == [AGREES, DOES_NOT]

    def test_not_at_other_rounds(self, trials):
        rows = [{"steps": s, "clients": m, "run": 4 * s, "score": s / 10} for s in (1, 5) for m in (5, 10, 50)]
        assert verdict(judged(trials(rows).table()), MORE_STEPS)["comparisons"] == 0

    def test_at_equal_iterations(self, trials):
        """20 steps in all, in 20 rounds or in 4."""
        rows = [{"steps": s, "clients": m, "run": 20 // s, "score": 0.9 - s / 100} for s in (1, 5) for m in (5, 10, 50)]
        assert both(trials, rows, PER_ITERATION) == [AGREES, DOES_NOT]
        assert verdict(judged(trials(rows).table()), MORE_STEPS)["verdict"] == NOT_TRIED

    @pytest.mark.parametrize("hindrance", [{"noise": 1.0}, {"decay": 9.0}])
    def test_a_longer_plan_is_another_thing_where_it_is_felt(self, hindrance, trials):
        """After ten rounds each, of 80 planned and of 40."""
        rows = [{"clients": m, "run": 10, "rounds": 800 // m, "score": m / 100} for m in (5, 10, 20, 40)]
        assert verdict(judged(trials(rows).table()), MORE_CLIENTS)["comparisons"] == 6
        hindered = [row | hindrance for row in rows]
        assert verdict(judged(trials(hindered).table()), MORE_CLIENTS)["comparisons"] == 0

    def test_very_few_clients(self, trials):
        rows = [{"clients": m, "steps": s, "score": 0.5 if m <= FEW else 0.8} for m in (1, 10, 20) for s in (1, 5)]
        assert both(trials, rows, THAN_FEW) == [AGREES, DOES_NOT]
        found = judged(trials(rows).table())
        assert verdict(found, THAN_FEW)["comparisons"] == 4
        # 10 and 20 clients do as well as each other: 4 of 6 are as the rule says.
        assert (verdict(found, MORE_CLIENTS)["hold"], verdict(found, MORE_CLIENTS)["comparisons"]) == (4, 6)

    @pytest.mark.parametrize("sizes", [(10, 50), (2, 9)])
    def test_neither_many_nor_nearly_as_few_are_compared_with_few(self, sizes, trials):
        rows = [{"clients": m, "steps": s} for m in sizes for s in (1, 2, 5)]
        found = judged(trials(rows).table())
        assert [verdict(found, rule)["comparisons"] for rule in (THAN_FEW, MORE_CLIENTS)] == [0, 3]

    def test_who_diverged_is_behind(self, trials):
        rows = [{"clients": m, "steps": s, "score": -np.inf if m == 1 else 0.5} for m in (1, 10) for s in (1, 2, 5)]
        found = verdict(judged(trials(rows).table()), THAN_FEW)
        assert (found["verdict"], found["median"]) == (AGREES, 100)

    def test_two_that_diverged_do_not_compare(self, trials):
        rows = [{"clients": m, "steps": s, "score": -np.inf} for m in (1, 10) for s in (1, 2, 5)]
        assert verdict(judged(trials(rows).table()), THAN_FEW)["verdict"] == NOT_TRIED


class TestLevels:
    @staticmethod
    def rows(behind, coding="16 dense"):
        coded = {"family": "fedpaq", "coding": coding, "variance": 3.0, "score": 0.8 - behind / 100}
        return [{"steps": steps} | each for steps in (1, 5, 10) for each in ({"score": 0.8}, coded)]

    @pytest.mark.parametrize(
        ("behind", "wanted"), [(0.0, AGREES), (0.9 * AS_GOOD, AGREES), (1.1 * AS_GOOD, DOES_NOT), (-5.0, AGREES)]
    )
    def test_about_ten(self, behind, wanted, trials):
        found = verdict(judged(trials(self.rows(behind)).table()), ABOUT_TEN_LEVELS)
        assert (found["verdict"], found["comparisons"]) == (wanted, 3)

    def test_other_levels_do_not_count(self, trials):
        assert verdict(judged(trials(self.rows(9.0, "1 dense")).table()), ABOUT_TEN_LEVELS)["verdict"] == NOT_TRIED

    def test_the_menu_has_some(self):
        levels = {coding: levels_of(coding) for coding in CODINGS}
        assert [name for name, s in levels.items() if ABOUT_TEN[0] <= s <= ABOUT_TEN[1]] == ["7/256 dense", "16 dense"]
        assert [name for name, s in levels.items() if s == 0] == ["none"]

    def test_more_clients_against_finer_levels(self, trials):
        coarse = {"coding": "1 dense", "variance": 25.0, "clients": 40, "message_bits": 1000.0, "score": 0.8}
        fine = {"coding": "16 dense", "variance": 2.0, "clients": 10, "message_bits": 3900.0, "score": 0.7}
        rows = [{"family": "fedpaq", "steps": steps} | each for steps in (1, 5, 10) for each in (coarse, fine)]
        assert both(trials, rows, MORE_CLIENTS_OR_LEVELS) == [AGREES, DOES_NOT]
        for other in ({"message_bits": 2000.0}, {"variance": 25.0}, {"bits": 8e6}):
            unequal = [row | (other if row["clients"] == 10 else {}) for row in rows]
            assert verdict(judged(trials(unequal).table()), MORE_CLIENTS_OR_LEVELS)["comparisons"] == 0


class TestClips:
    @staticmethod
    def rows(clips):
        private = {"family": "private_fedpaq", "noise": 1.0, "epsilon": 1.0}
        return [
            private | {"steps": steps, "batch": batch, "clip": clip}
            for steps, pair in enumerate(clips, start=1)
            for batch, clip in zip((5, 20), pair, strict=True)
        ]

    @pytest.mark.parametrize(
        ("clips", "wanted"),
        [
            ([(0.3, 0.9)] * 3, AGREES),
            ([(0.9, 0.3 * 3**0.5)] * 3, AGREES),
            ([(0.3, 0.3)] * 3, DOES_NOT),
            ([(0.3, 0.9), (0.9, 0.3)] * 2, DOES_NOT),  # back and forth is no move
            ([(0.3, 0.9)] * 2, NOT_TRIED),
        ],
    )
    def test_move_with_the_batch(self, clips, wanted, trials):
        assert verdict(judged(trials(self.rows(clips)).table()), CLIPS)["verdict"] == wanted

    def test_of_whole_updates_is_another_clip(self, trials):
        rows = [row | {"family": "dp_fedavg"} for row in self.rows([(0.3, 0.9)] * 3)]
        assert verdict(judged(trials(rows).table()), CLIPS)["verdict"] == NOT_TRIED


class TestEpsilon:
    @pytest.mark.parametrize(
        ("scores", "wanted"),
        [((0.5, 0.6, 0.7, 0.8), AGREES), ((0.8, 0.7, 0.6, 0.5), DOES_NOT), ((0.5, 0.6, 0.7), NOT_TRIED)],
    )
    def test_fronts(self, scores, wanted, trials):
        fronts = pd.DataFrame({"epsilon": [1.0, 2.0, 4.0, 8.0][: len(scores)], "score": scores})
        shuffled = fronts.sample(frac=1, random_state=0)
        assert verdict(judged(trials([{}]).table(), shuffled), SMALLER_EPSILON.name)["verdict"] == wanted

    def test_other_budgets_are_kept_apart(self, trials):
        """More ε goes with fewer bits: within each budget of bits ε helps, over all it would seem to harm."""
        fronts = pd.DataFrame(
            [
                {"epsilon": epsilon + shift, "client_bits": 1e6 / shift, "score": 1 - shift / 10 + epsilon / 100}
                for shift in (1, 5)
                for epsilon in (1, 2, 3)
            ]
        )
        found = verdict(judged(trials([{}]).table(), fronts), SMALLER_EPSILON.name)
        assert (found["verdict"], found["comparisons"]) == (AGREES, 4)

    def test_no_fronts(self, trials):
        assert verdict(judged(trials([{}]).table()), SMALLER_EPSILON.name)["verdict"] == NOT_TRIED


class TestVerdicts:
    def test_nothing_tried(self, trials):
        found = judged(trials([]).table())
        assert len(found) == len(RULES) + 1
        assert set(found["verdict"]) == {NOT_TRIED}
        assert in_words(found).count("not tried") == len(found)

    def test_too_few_comparisons_are_no_try(self, trials):
        rows = [{"steps": steps, "clients": m, "score": steps / 10} for steps in (1, 5) for m in range(10, 9 + LEAST)]
        found = verdict(judged(trials(rows).table()), MORE_STEPS)
        assert (found["verdict"], found["comparisons"]) == (NOT_TRIED, LEAST - 1)

    def test_a_lead_that_is_not_clear_does_not_count(self, trials):
        small = 0.9 * CLEAR / 100
        rows = [{"steps": steps, "clients": m, "score": small * (steps > 1)} for steps in (1, 5) for m in (5, 10, 50)]
        found = verdict(judged(trials(rows).table()), MORE_STEPS)
        assert (found["verdict"], found["hold"], found["against"]) == (DOES_NOT, 0, 0)
        assert "does not: larger E" in in_words(judged(trials(rows).table()))

    def test_scores_at_random_seldom_agree(self, trials):
        """Of 12 comparisons 8 must hold: one in five by chance, and less as gains must be clear; 60 tables, fixed seed.

        More than 24 of 60 at a rate of one in five would be once in 10⁴ seeds.
        """
        generator = np.random.default_rng(2)
        tables = [
            [{"steps": s, "clients": m, "score": generator.random()} for s in (1, 5) for m in range(5, 17)]
            for _ in range(60)
        ]
        agreeing = [verdict(judged(trials(rows).table()), MORE_STEPS)["verdict"] == AGREES for rows in tables]
        assert sum(agreeing) <= 24

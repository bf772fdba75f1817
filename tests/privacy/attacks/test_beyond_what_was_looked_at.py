"""A schedule was looked at for 10,000 rounds, while an ε could pay for more, and the step size grow after them.

Output noise follows the step size of its own round, Langevin noise does not: with a larger step it hides less.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.execution.lanes import lay_out
from hush.privacy import NoGuarantee, describe
from hush.runs import spending

STEP, LATER, LENGTH = 1e-8, 1e-2, 2


def late(count):
    """Tiny steps, until nobody looks any more."""
    return jnp.where(count < LENGTH * spending.LONG, STEP, LATER)


SLEEPER = hush.fa_ld(steps=LENGTH, lr=late, batch=5, clip=1.0)
PROBLEM = hush.tasks.logistic_regression(3, 20, dimension=4)


def test_a_budget_does_not_pay_for_rounds_that_were_not_looked_at():
    found = spending.Spending(SLEEPER, PROBLEM, lay_out(1, None), None, 1e-5)
    assert found.allowance(1e3).max() <= spending.LONG
    later = describe(SLEEPER, PROBLEM, spending.LONG + 1)
    taken = np.ones((1, 3), int)
    assert later.epsilons(1, taken, 1e-5).max() > 100 * found.epsilons(1, taken[:, None])[0].max()


def test_a_guarantee_says_nothing_of_more_rounds_than_it_was_asked_for():
    with pytest.raises(NoGuarantee, match="asked for 10 rounds in all, and says nothing of 11"):
        describe(SLEEPER, PROBLEM, 10).spent((11,), 20, 1e-5)


def test_a_run_that_goes_on_is_looked_at_further(monkeypatch):
    """Where only a budget of bits ends a run, its later step sizes are looked at as it gets there."""
    monkeypatch.setattr(spending, "LONG", 4)
    awake = hush.fa_ld(steps=LENGTH, lr=lambda count: jnp.where(count < 2 * 4, STEP, LATER), batch=5, clip=1.0)
    found = spending.Spending(awake, PROBLEM, lay_out(1, None), None, 1e-5)
    before = found.epsilons(4, np.full((1, 1, 3), 4)).max()
    after = found.epsilons(5, np.full((1, 1, 3), 5)).max()
    assert after > 100 * before


def test_where_that_fails_there_is_no_number(monkeypatch):
    monkeypatch.setattr(spending, "LONG", 4)
    broken = hush.fa_ld(steps=LENGTH, lr=lambda count: jnp.where(count < 2 * 4, STEP, jnp.nan), batch=5, clip=1.0)
    found = spending.Spending(broken, PROBLEM, lay_out(1, None), None, 1e-5)
    assert np.isfinite(found.epsilons(4, np.full((1, 1, 3), 4))).all()
    assert np.isinf(found.epsilons(5, np.full((1, 1, 3), 5))).all()

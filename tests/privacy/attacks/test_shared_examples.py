"""An example that several clients hold is released by each of them; accounted as if one held it, ε is far too small.

What every client sends is private for itself. An adversary who looks for one example listens to all that hold it: their
releases compose, as more rounds of one client would.
"""

from math import sqrt

import numpy as np
import pytest
from dp_accounting import get_epsilon_gaussian
from scipy.stats import norm

import hush
from hush.core.problem import Population
from hush.execution.lanes import lay_out
from hush.privacy import NoGuarantee, describe
from hush.privacy.sharing import sharing
from hush.runs.spending import Spending

CLIENTS, ROUNDS, DELTA = 6, 3, 1e-5
Z = 2.0


def held_by(parts):
    """A problem whose clients hold these rows of one table."""
    rows = 1 + max(max(part) for part in parts)
    x = np.linspace(-1, 1, 2 * rows).reshape(rows, 2)
    return hush.tasks.problem.supervised(
        (x.astype(np.float32), np.zeros(rows, np.float32)),
        [np.array(part) for part in parts],
        hush.tasks.analytic.Linear(2),
        hush.tasks.measures.regression,
    )


ALL_SHARE = held_by([[0, 1, 2, 3]] * CLIENTS)
ALGORITHM = hush.private_fedpaq(steps=1, batch=None, lr=0.1, noise_multiplier=Z, levels=None)


def test_six_messages_tell_more_than_one_was_said_to():
    """The likelihood ratio of all holders' messages together, against the ε of one of them.

    Each message tells N(0, Z²) from N(1, Z²) at worst; the mean of k of them is as good as noise Z/√k.
    """
    count = CLIENTS * ROUNDS
    one = get_epsilon_gaussian(Z / sqrt(ROUNDS), DELTA)
    threshold = 6 * Z / sqrt(count)  # false alarms once in a billion
    hit, false_alarm = norm.sf((threshold - 1) / (Z / sqrt(count))), norm.sf(threshold / (Z / sqrt(count)))
    assert np.log((hit - DELTA) / false_alarm) > one  # which no mechanism of that ε allows


def test_the_claim_is_that_of_all_holders_together():
    description = describe(ALGORITHM, ALL_SHARE, ROUNDS)
    taken = np.full((1, CLIENTS), ROUNDS)
    found = description.epsilons(ROUNDS, taken, DELTA)
    assert description.holders == CLIENTS
    np.testing.assert_allclose(found, get_epsilon_gaussian(Z / sqrt(CLIENTS * ROUNDS), DELTA), rtol=1e-6)
    assert "6 clients hold one example, which adds up" in description.table(DELTA)["composition"]


def test_by_counting_holders_of_every_example():
    """A second way: for each example the rounds of all that hold it, in plain loops."""
    parts = [[0, 1], [1, 2], [2, 3], [4, 5], [0, 1], [6, 7]]
    taken = np.array([[3, 1, 2, 2, 1, 0]])
    worst = [
        max(sum(int(taken[0, k]) for k, other in enumerate(parts) if example in other) for example in part)
        for part in parts
    ]
    found = sharing([row for part in parts for row in part], [2] * 6)
    assert found.most == 3
    assert found.worst(taken)[0].tolist() == worst


def test_a_budget_is_shared_too():
    spending = Spending(ALGORITHM, ALL_SHARE, lay_out(1, None), 60, DELTA)
    apart = held_by([[4 * k + i for i in range(4)] for k in range(CLIENTS)])
    alone = Spending(ALGORITHM, apart, lay_out(1, None), 60, DELTA)
    limit = float(describe(ALGORITHM, ALL_SHARE, 60).spent((12,), 4, DELTA).epsilon)
    assert alone.allowance(limit).max() == 12
    assert spending.allowance(limit).max() == 12 // CLIENTS
    result = hush.run(ALGORITHM, ALL_SHARE, 60, epsilon=limit, when_spent="retire", progress=False)
    assert result.clients["epsilon"].max() <= limit
    assert result.clients["rounds"].max() == 2


def test_overlapping_digits():
    """`overlap=True` lets clients draw independently: the figure follows who really shares what."""
    apart, shared = (
        describe(ALGORITHM, hush.tasks.digits(8, examples_per_client=150, overlap=overlap), ROUNDS)
        for overlap in (False, True)
    )
    taken = np.full((1, 8), ROUNDS)
    assert (apart.holders, shared.holders > 2) == (1, True)
    assert shared.epsilons(ROUNDS, taken, DELTA).max() > 1.5 * apart.epsilons(ROUNDS, taken, DELTA).max()


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([[0, 1], [1, 2, 3]], "clients hold the same example, and different numbers of them"),
        ([[0, 0], [1, 2]], "holds an example more than once"),
    ],
)
def test_what_is_not_worked_out_is_refused(parts, reason):
    batches = hush.private_fedpaq(steps=1, batch=2, lr=0.1, noise_multiplier=Z, levels=None)
    with pytest.raises(NoGuarantee, match=reason):
        describe(batches, held_by(parts), ROUNDS)


def test_a_population_alone_cannot_tell_and_says_so():
    table = describe(ALGORITHM, Population(np.full(6, 4)), ROUNDS).table(DELTA)
    assert any("no example is held by two clients" in text for text in table.values())

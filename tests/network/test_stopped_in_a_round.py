"""A server that is stopped inside a round: what devices may have sent by then is in the ε that it shows."""

import numpy as np
import pytest
from summed import PROBLEM, SUMMED, enrolled

import hush
from hush.network.federation import federation
from hush.settings import NetworkSettings


class Stopped:
    """A desk at which the server is told to stop once a round is open."""

    def wait_for(self, devices, stopped):
        return True

    def gather(self, opened, told, deadline, wanted, stopped):
        return None


def stopped(algorithm, verifier=None):
    made = federation(algorithm, PROBLEM, NetworkSettings(), b"agreement", True, 3, verifier)
    made.exchange = Stopped()
    return made


def test_a_plain_round_counts_until_it_goes_on():
    """The same answers come again then, so that nobody pays for the round twice."""
    algorithm = hush.fedavg(3, steps=1, lr=0.1)
    first = stopped(algorithm)
    assert first.advance(1) == 0
    assert (first.round, first.ledger.client_rounds.sum()) == (0, 3)
    again = stopped(algorithm)
    again.restore(first.state())
    assert again.ledger.client_rounds.sum() == 0
    again.advance(1)
    np.testing.assert_array_equal(again.ledger.client_rounds, first.ledger.client_rounds)


def test_a_secure_sum_is_over(tmp_path):
    """No device answers a round twice: it was thrown away, and all who were asked have paid for it."""
    made = stopped(SUMMED, enrolled(tmp_path)[1])
    assert made.advance(1) == 1
    assert (made.round, made.abandoned) == (1, 1)
    assert made.ledger.client_rounds[0, 0].tolist() == [1] * 5
    again = stopped(SUMMED, made.coordinator._verifier)
    again.restore(made.state())
    assert again.ledger.client_rounds[0, 0].tolist() == [1] * 5


@pytest.mark.parametrize("missing", [True, False])
def test_checkpoints_of_before_can_be_read(missing):
    made = stopped(hush.fedavg(3, steps=1, lr=0.1))
    state = {name: value for name, value in made.state().items() if not (missing and name == "network/stopped_in")}
    made.restore(state)
    assert made.ledger.client_rounds.sum() == 0

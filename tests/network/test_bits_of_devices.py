"""A budget of bits for each device: a federation keeps it as a simulation does, and cannot take back what was sent."""

import contextlib
import signal
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import hush
from hush.channel import Noisy
from hush.cohort import Cyclic, Poisson
from hush.core.algorithm import InTurn
from hush.core.costs import costs
from hush.network.serving import serve, through_bytes
from hush.settings import RunSettings
from hush.uplink import QSGD, Clip

pytestmark = pytest.mark.slow  # many small runs, which add up

PROBLEM = hush.tasks.logistic_regression(6, 30, dimension=6)
DENSE = hush.fedpaq(clients=3, steps=1, lr=0.1, batch=None, levels=20)
ELIAS = replace(DENSE, uplink=(QSGD(20, code="elias"),))
POISSON = replace(DENSE, cohort=Poisson(0.5))
BOTH = InTurn((DENSE, replace(POISSON, uplink=(QSGD(3),))))
CENTRAL = hush.Algorithm(Poisson(0.5, "equal"), DENSE.local, (Clip(1.0),), Noisy(std=1.0, grid=hush.Grid()))


@pytest.mark.parametrize("when", ["stop", "retire"])
@pytest.mark.parametrize("made", [DENSE, POISSON, BOTH, CENTRAL], ids=["uniform", "poisson", "two phases", "private"])
def test_as_in_a_simulation(made, when):
    budget = 3 * costs(made, PROBLEM).client_uplink_bits.most
    asked = {"rounds": 8, "client_bit_budget": budget, "when_spent": when}
    simulated = hush.run(made, PROBLEM, **asked, progress=False)
    here = through_bytes(made, PROBLEM, RunSettings(**asked), progress=False)
    columns = ["rounds", "uplink_bits", "downlink_bits"]
    pd.testing.assert_frame_equal(here.clients[columns], simulated.clients[columns])
    assert (here.status["message"], here.status["round"]) == (simulated.status["message"], simulated.status["round"])
    np.testing.assert_allclose(here.vector, simulated.vector, atol=1e-4)
    assert here.clients["uplink_bits"].max() <= budget


def test_a_round_that_may_cost_too_much_is_not_begun():
    """A simulation would take it back: here every client still has a longest message's bits left before its last."""
    most = costs(ELIAS, PROBLEM).client_uplink_bits.most
    run = RunSettings(rounds=12, client_bit_budget=2.5 * most)
    clients = through_bytes(ELIAS, PROBLEM, run, progress=False).clients
    simulated = hush.run(ELIAS, PROBLEM, 12, client_bit_budget=2.5 * most, progress=False).clients
    assert clients["uplink_bits"].max() <= simulated["uplink_bits"].max() <= 2.5 * most
    assert clients["rounds"].sum() <= simulated["rounds"].sum()


class Interrupting:
    """Devices during whose first round the server is told to stop."""

    def wait_for(self, devices, stopped):
        return True

    def gather(self, *round_):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("asked", [{"bit_budget": 1e9}, {"client_bit_budget": 1e9}])
def test_a_server_that_is_told_to_stop_has_spent_nothing(asked):
    run = RunSettings(rounds=4, **asked)
    with pytest.raises(hush.Interrupted, match="interrupted after round 0 of 4"):
        serve(DENSE, PROBLEM, run, lambda desk: contextlib.nullcontext(Interrupting()), rehearsal=True, progress=False)


def test_a_server_without_any_examples_knows_what_a_message_costs():
    here = hush.tasks.remote([12, 20, 9], shape=[3], outputs=2)
    run = RunSettings(rounds=4, client_bit_budget=20, when_spent="retire")
    with pytest.raises(ValueError, match="a client_bit_budget of 20 does not pay for one message, which costs"):
        serve(DENSE, here, run, connect=None, progress=False)


@pytest.mark.parametrize(
    ("made", "asked", "message"),
    [
        (CENTRAL, {"client_bit_budget": 1e6}, "no client_bit_budget may end the run"),
        (CENTRAL, {"bit_budget": 1e6}, "no bit_budget may end the run"),
        (replace(CENTRAL, cohort=Cyclic(3)), {"bit_budget": 1e6}, "no bit_budget may end the run"),
        (
            replace(CENTRAL, cohort=Cyclic(3)),
            {"client_bit_budget": 1e6, "when_spent": "retire"},
            "when_spent must be 'stop'",
        ),
    ],
)
def test_refused_before_any_device_is_asked(made, asked, message):
    with pytest.raises(ValueError, match=message):
        serve(made, PROBLEM, RunSettings(rounds=4, **asked), connect=None, progress=False)

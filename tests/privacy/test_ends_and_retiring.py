"""Which budgets of bits a guarantee admits: by who is trusted, how the cohort is drawn, whether lengths are known."""

from dataclasses import replace

import pytest

import hush
from hush.channel import Noisy
from hush.cohort import Cyclic, Everyone, Poisson, Uniform
from hush.core.algorithm import InTurn
from hush.local import LocalSGD
from hush.uplink import QSGD, Clip, Gaussian

pytestmark = pytest.mark.slow  # many small runs, which add up

SGD = LocalSGD(0.05, steps=1)
CENTRAL = hush.Algorithm(Uniform(3, "equal"), SGD, (Clip(1.0),), Noisy(std=1.0))
POISSON = replace(CENTRAL, cohort=Poisson(0.5, "equal"))
TURNS = replace(CENTRAL, cohort=Cyclic(3))
ALL = replace(CENTRAL, cohort=Everyone("equal"))
LOCAL = hush.Algorithm(Uniform(3, "equal"), SGD, (Clip(1.0), Gaussian(1.0)))
ELIAS = QSGD(4, code="elias")
LENGTHS, NUMBERS, CLIENTS = "how long a message is", "how many clients take part", "who takes part in a round"
OF_ALL, OF_EACH = {"bit_budget": 1e6}, {"client_bit_budget": 1e5}
RETIRE = OF_EACH | {"when_spent": "retire"}

KEPT = [
    (CENTRAL, OF_ALL, "server"),  # a round costs the same, whoever comes
    (TURNS, OF_EACH, "server"),
    (ALL, OF_EACH | OF_ALL, "server"),
    (POISSON, RETIRE, "server"),
    (InTurn((POISSON, POISSON)), RETIRE, "server"),
    (POISSON, RETIRE, "secret-sum"),
    (LOCAL, OF_EACH | OF_ALL, "assumed-sum"),  # who takes part is seen
    (LOCAL, OF_EACH | OF_ALL, "local"),
    (LOCAL, RETIRE, "local"),
    (replace(LOCAL, uplink=(*LOCAL.uplink, ELIAS)), OF_EACH | OF_ALL, "local"),  # a noisy message's length
    (replace(LOCAL, uplink=(*LOCAL.uplink, ELIAS), cohort=Poisson(0.5)), RETIRE, "local"),
]
LOST = [
    (POISSON, OF_ALL, "server", NUMBERS),
    (POISSON, OF_EACH, "server", rf"{CLIENTS}.*end it by rounds and when_spent='retire'"),
    (replace(POISSON, cohort=Poisson(1.0, "equal")), OF_ALL, "server", NUMBERS),  # whether there is a client at all
    (POISSON, OF_ALL | RETIRE, "server", NUMBERS),
    (POISSON, OF_ALL, "secret-sum", NUMBERS),
    (InTurn((POISSON, POISSON)), OF_EACH, "server", CLIENTS),
    (CENTRAL, OF_EACH, "server", rf"{CLIENTS}.*end it by rounds$"),
    (replace(CENTRAL, uplink=(ELIAS, Clip(1.0))), OF_ALL, "server", LENGTHS),
    (replace(ALL, uplink=(ELIAS, Clip(1.0))), OF_EACH, "server", LENGTHS),
    (replace(CENTRAL, uplink=(ELIAS, Clip(1.0))), OF_EACH, "assumed-sum", LENGTHS),
]
REFUSED = [
    (CENTRAL, "server", "when_spent must be 'stop', or the cohort Poisson"),
    (ALL, "server", "when_spent must be 'stop', or the cohort Poisson"),
    (TURNS, "server", "when_spent must be 'stop', or the cohort Poisson"),
    (LOCAL, "assumed-sum", "on which their ε rests: when_spent must be 'stop'$"),
    (POISSON, "assumed-sum", "on which their ε rests: when_spent must be 'stop'$"),
]


def go(made, problem, **asked):
    return hush.run(made, problem, 2, progress=False, **asked)


@pytest.mark.parametrize(("made", "asked", "trust"), KEPT)
def test_kept_with_the_epsilon_of_a_run_without(quadratic, made, asked, trust):
    found = go(made, quadratic, trust=trust, **asked)
    assert found.status["privacy"]["epsilon"] == go(made, quadratic, trust=trust).status["privacy"]["epsilon"]


@pytest.mark.parametrize(("made", "asked", "trust", "reason"), LOST)
def test_refused_if_a_guarantee_was_asked_for_and_lost_if_none_was(quadratic, made, asked, trust, reason):
    for more in ({}, {"epsilon": 1e3}):
        with pytest.raises(ValueError, match=f"the guarantee that was asked for cannot be kept: {reason}"):
            go(made, quadratic, trust=trust, **(asked | more))
    if trust == "server":  # what is found if nothing is said
        for named in ({"epsilon": 1e3}, {"unit": "client"}):
            with pytest.raises(ValueError, match=reason):
                go(made, quadratic, **(asked | named))
        status = go(made, quadratic, **asked).status["privacy"]
        assert status["guarantee"] == "none"
        assert status["reason"].startswith(reason.split(".*")[0])


@pytest.mark.parametrize(("made", "trust", "reason"), REFUSED)
def test_nobody_retires_where_weights_are_handed_on(quadratic, made, trust, reason):
    with pytest.raises(ValueError, match=reason):
        go(made, quadratic, trust=trust, **RETIRE)
    if trust == "server":
        with pytest.raises(ValueError, match=reason):
            go(made, quadratic, **RETIRE)


def test_bits_retire_clients_while_the_epsilon_of_all_ends_the_run(quadratic):
    limit = go(POISSON, quadratic, trust="server").status["privacy"]["epsilon"]
    result = hush.run(POISSON, quadratic, 9, epsilon=limit, **(RETIRE | {"client_bit_budget": 96}), progress=False)
    assert result.status["round"] == 2
    assert "the privacy budget is spent" in result.status["message"]
    assert result.clients["rounds"].max() == 1

"""Bits: what each client said, budgets that end a run at the last round they pay for, and time on the channel."""

import json
from dataclasses import replace

import numpy as np
import pytest

import hush
from hush.uplink import QSGD

pytestmark = pytest.mark.usefixtures("unpainted")

DENSE = hush.fedpaq(clients=3, steps=2, lr=0.1, batch=4, levels=2)
ELIAS = replace(DENSE, uplink=(QSGD(2, code="elias"),))
MESSAGE = 8 * (4 + 6 + 4)  # 18 numbers of 5 values in 6 bytes, a scale, and the seal


def quiet(*arguments, **settings):
    return hush.run(*arguments, progress=False, **settings)


def test_the_ledger_counts_every_client(unequal):
    result = quiet(ELIAS, unequal, rounds=6, repetitions=2, evaluate_every=6, keep_models=True)
    clients = result.clients
    assert clients.columns.tolist() == ["repetition", "client", "rounds", "uplink_bits", "downlink_bits"]
    assert len(clients) == 2 * 7
    for name in ("uplink_bits", "downlink_bits"):
        totals = clients.groupby("repetition")[name].sum().to_numpy()
        np.testing.assert_array_equal(totals, result.records[name].tail(2))
    assert (clients["downlink_bits"] == clients["rounds"] * 32 * 18).all()
    assert clients["downlink_bits"].sum() == 2 * 6 * 3 * 32 * 18
    assert (clients["uplink_bits"] % 8 == 0).all()


def test_a_message_costs_what_its_code_says(unequal):
    assert DENSE.uplink[0].fixed_bits(18) == MESSAGE
    records = quiet(DENSE, unequal, rounds=4, evaluate_every=1).records
    assert records["uplink_bits"].tolist() == [3 * MESSAGE * rounds for rounds in (0, 1, 2, 3, 4)]


@pytest.mark.parametrize(("budget", "rounds"), [(10 * 3 * MESSAGE, 10), (11 * 3 * MESSAGE - 1, 10), (3 * MESSAGE, 1)])
def test_a_budget_solves_for_the_rounds(unequal, budget, rounds):
    """B = K·M·β, paper fedpaq-dp eq 11: K is the largest that does not pass B; the model is that of K rounds."""
    result = quiet(DENSE, unequal, bit_budget=budget, repetitions=2, evaluate_every=4)
    assert result.records["round"].max() == rounds
    assert (result.records["uplink_bits"] <= budget).all()
    assert result.status["status"] == "finished"
    assert "the bit budget is spent" in result.status["message"]
    straight = quiet(DENSE, unequal, rounds=rounds, repetitions=2, evaluate_every=4)
    np.testing.assert_array_equal(result.vector, straight.vector)
    np.testing.assert_array_equal(result.clients, straight.clients)


def test_a_budget_ends_a_run_whose_messages_differ_in_length(unequal):
    """At the last round that every repetition can pay for: one more, and one of them could not."""
    straight = quiet(ELIAS, unequal, rounds=20, repetitions=2, evaluate_every=1)
    most = straight.records.groupby("round")["uplink_bits"].max()
    budget = int(most.loc[12] + most.loc[13]) // 2
    limited = quiet(ELIAS, unequal, rounds=20, bit_budget=budget, repetitions=2, evaluate_every=5)
    assert most.loc[12] <= budget < most.loc[13]
    assert limited.records["round"].unique().tolist() == [0, 5, 10, 12]
    at_twelve = straight.records[straight.records["round"] == 12]
    np.testing.assert_allclose(limited.records["train_loss"].tail(2), at_twelve["train_loss"], rtol=1e-6)
    np.testing.assert_array_equal(limited.records["uplink_bits"].tail(2), at_twelve["uplink_bits"])


def test_rounds_may_come_to_an_end_before_the_budget(unequal):
    result = quiet(DENSE, unequal, rounds=3, bit_budget=1e9)
    assert result.records["round"].max() == 3
    assert result.status["message"] == ""


def test_a_larger_budget_goes_on(unequal, tmp_path):
    settings = {"repetitions": 2, "evaluate_every": 3, "folder": tmp_path / "run"}
    quiet(DENSE, unequal, bit_budget=5 * 3 * MESSAGE, **settings)
    longer = quiet(DENSE, unequal, bit_budget=9 * 3 * MESSAGE, resume=True, **settings)
    straight = quiet(DENSE, unequal, rounds=9, repetitions=2, evaluate_every=3)
    np.testing.assert_array_equal(longer.vector, straight.vector)
    assert longer.records["round"].unique().tolist() == [0, 3, 5, 6, 9]


def test_time_on_the_channel(unequal, tmp_path):
    result = quiet(DENSE, unequal, rounds=4, evaluate_every=2, capacity=1000.0, folder=tmp_path / "run")
    np.testing.assert_allclose(result.records["channel_seconds"], result.records["uplink_bits"] / 1000)
    assert result.plot("accuracy", against="channel_seconds").axes[0].get_xlabel().startswith("time on the channel")
    page = (tmp_path / "run/report.html").read_text()
    assert "time on the channel" in page
    assert "sent by one client" in page


def test_a_budget_that_pays_for_nothing(unequal, tmp_path):
    """Where every message costs the same this is known before; otherwise the first round tells."""
    with pytest.raises(ValueError, match="a bit_budget of 10 does not pay for one round, which costs"):
        quiet(DENSE, unequal, bit_budget=10, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    elias = hush.fedpaq(clients=3, steps=2, lr=0.1, levels=3, code="elias")
    with pytest.raises(ValueError, match="a bit_budget of 10 does not pay for one round"):
        quiet(elias, unequal, bit_budget=10, folder=tmp_path / "run")
    assert json.loads((tmp_path / "run/status.json").read_text())["status"] == "failed"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "a run needs rounds, a bit_budget, or an epsilon or a client_bit_budget at which to stop"),
        ({"bit_budget": -1.0}, "bit_budget must be a positive number, found -1.0"),
        ({"rounds": 3, "capacity": 0.0}, "capacity must be a positive number, found 0.0"),
    ],
)
def test_refused(unequal, settings, message):
    with pytest.raises(ValueError, match=message):
        quiet(DENSE, unequal, **settings)

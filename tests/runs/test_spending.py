"""ε beside every accuracy: records, budgets, clients, the status file and the page."""

import json

import numpy as np
import pandas as pd
import pytest

import hush
from hush.privacy import describe
from hush.privacy.shown import rounded_up
from hush.report.privacy_page import figures, scatter

pytestmark = [pytest.mark.usefixtures("unpainted"), pytest.mark.slow]


@pytest.fixture(scope="module")
def digits():
    return hush.tasks.digits(clients=20, classes_per_client=2)


def private(**settings):
    return hush.private_fedpaq(10, steps=2, batch=8, lr=0.3, **({"noise_multiplier": 1.0} | settings))


def go(made, problem, rounds=10, **settings):
    return hush.run(made, problem, rounds, evaluate_every=5, progress=False, **settings)


@pytest.fixture(scope="module")
def local(digits, tmp_path_factory):
    """A watched private run in its folder."""
    folder = tmp_path_factory.mktemp("runs") / "local"
    return go(private(), digits, repetitions=2, watch=True, delta=1e-4, folder=folder)


def test_epsilon_is_that_of_the_worst_client(local, digits):
    description = describe(private(), digits, 10)
    clients = local.clients
    for repetition in (0, 1):
        mine = clients[clients["repetition"] == repetition]
        taken = mine["rounds"].to_numpy()[None]
        np.testing.assert_allclose(mine["epsilon"], description.epsilons(10, taken, 1e-4))
        last = local.records[(local.records["repetition"] == repetition) & (local.records["round"] == 10)]
        assert float(last["epsilon"].iloc[0]) == pytest.approx(mine["epsilon"].max())
    assert clients["rounds"].sum() == 2 * 10 * 10


def test_the_status_tells_all_that_belongs_to_the_figure(local):
    status = json.loads((local.folder / "status.json").read_text())["privacy"]
    assert status["epsilon"] == pytest.approx(local.clients["epsilon"].max())
    assert status["epsilon"] == status["pld"] < status["rdp"]
    assert status["delta"] == 1e-4
    assert status["guarantee"]["what is protected"] == "one example of one client"
    assert "operating system" in status["noise"]
    assert not any(value.startswith("not known") for _, value in figures(status))
    assert any(value.startswith("not known") for _, value in figures(status | {"pld": None}))


def test_the_page_has_the_guarantee_the_clients_and_their_updates(local):
    page = (local.folder / "report.html").read_text()
    for part in (
        'id="privacy"',
        "one example of one client",
        'id="clients"',
        'id="updates"',
        "nobody with the data: the server sees",
    ):
        assert part in page
    for name in ("clients.png", "updates.png", "updates.parquet", "curve-accuracy-epsilon.png"):
        assert (local.folder / name).is_file()


def test_watched_updates_are_a_table(local, digits):
    updates = local.updates
    assert len(updates) == 2 * 10 * 10
    assert {"repetition", "round", "client", "local_norm", "cosine"} <= set(updates.columns)
    assert updates["cosine"].abs().max() <= 1 + 1e-5
    assert len(scatter(updates).axes) == 4
    with pytest.raises(ValueError, match="run it with watch=True"):
        _ = go(hush.fedavg(5, steps=1), digits, 1).updates


def test_the_page_says_what_clipping_did(digits, tmp_path):
    made = hush.ce_fedavg(10, clip=0.2, steps=2, batch=8, lr=0.3)
    result = go(made, digits, 8, watch=True, folder=tmp_path / "clipped")
    page = (tmp_path / "clipped" / "report.html").read_text()
    table = page[page.index('id="clipping"') :]
    last = result.updates[result.updates["round"] > 6]
    factors = np.minimum(1, 0.2 / last["local_norm"])
    assert "7 to 8" in table
    assert f"{100 * (factors < 1).mean():.1f} %" in table
    assert f"{factors.mean():.3f}" in table
    # The share that the engine counted is the same.
    clipped = result.records["clipped"].iloc[-1]
    assert clipped == pytest.approx((result.updates[result.updates["round"] > 5]["local_norm"] > 0.2).mean())


def test_a_run_without_a_guarantee_says_why(digits, tmp_path):
    result = go(hush.fedavg(5, steps=1), digits, 2, folder=tmp_path / "plain")
    assert "epsilon" not in result.records.columns
    assert "epsilon" not in result.clients.columns
    assert "does not clip" in result.status["privacy"]["reason"]
    assert "No privacy guarantee" in (tmp_path / "plain" / "report.html").read_text()


def test_a_sweep_has_an_epsilon_for_each_point(digits):
    made = hush.dp_fedavg(5, 20, clip=1.0, noise_multiplier=1.0, steps=1)
    result = go(made, digits, 5, sweep={"channel.std": [0.2, 0.4]})
    found = result.records.groupby("channel.std")["epsilon"].max()
    for std in (0.2, 0.4):
        alone = hush.dp_fedavg(5, 20, clip=1.0, noise_multiplier=5 * std, steps=1)
        assert found[std] == pytest.approx(describe(alone, digits, 5).spent((5,), 71, 1e-5).epsilon, rel=1e-6)


def test_a_central_budget_stops_the_run(digits):
    made = hush.dp_fedavg(5, 20, clip=1.0, noise_multiplier=2.0, steps=1)
    result = go(made, digits, 100, epsilon=2.0)
    done = result.status["round"]
    description = describe(made, digits, 100)
    assert description.spent((done,), 71, 1e-5).epsilon <= 2.0 < description.spent((done + 1,), 71, 1e-5).epsilon
    assert "privacy budget is spent" in result.status["message"]
    free = hush.run(made, digits, epsilon=2.0, evaluate_every=5, progress=False)  # rounds may be left out
    assert free.status["round"] == done
    np.testing.assert_array_equal(free.vector, result.vector)


def test_a_local_budget_stops_the_run_or_retires_clients(digits):
    limit = float(describe(private(), digits, 10).spent((3,), 71, 1e-5).epsilon)
    stopped = go(private(), digits, 40, epsilon=limit)
    assert stopped.clients["rounds"].max() == 3
    assert stopped.status["round"] < 40
    assert "privacy budget is spent" in stopped.status["message"]
    free = hush.run(private(), digits, epsilon=limit, evaluate_every=5, progress=True)  # rounds may be left out
    np.testing.assert_array_equal(free.vector, stopped.vector)
    retired = go(private(), digits, 40, epsilon=limit, when_spent="retire")
    assert retired.status["round"] == 40
    assert retired.clients["rounds"].tolist() == [3] * 20
    assert retired.clients["epsilon"].max() <= limit


def test_a_budget_survives_an_interruption(digits, tmp_path):
    limit = float(describe(private(), digits, 10).spent((3,), 71, 1e-5).epsilon)
    settings = {"epsilon": limit, "when_spent": "retire"}
    whole = go(private(), digits, 8, **settings)
    go(private(), digits, 4, folder=tmp_path / "run", **settings)
    resumed = go(private(), digits, 8, folder=tmp_path / "run", resume=True, **settings)
    np.testing.assert_array_equal(whole.vector, resumed.vector)
    pd.testing.assert_frame_equal(whole.clients, resumed.clients)


@pytest.mark.parametrize(
    ("made", "asked", "message"),
    [
        (lambda: hush.fedavg(5, steps=1), {"epsilon": 1.0}, "an epsilon of 1.0 cannot be kept: no privacy guarantee"),
        (lambda: hush.fedavg(5, steps=1), {"trust": "sum"}, "no privacy guarantee"),
        (private, {"epsilon": -1.0}, "epsilon must be a positive number"),
        (private, {"delta": 1.5}, "delta must be a number above 0 and below 1"),
        (private, {"epsilon": 1.0, "when_spent": "panic"}, "unknown thing to do when a budget is spent"),
        (private, {"epsilon": 1e-9}, "does not pay for one round"),
        (
            lambda: hush.dp_fedavg(5, 20, clip=1.0, noise_multiplier=2.0, steps=1),
            {"epsilon": 2.0, "when_spent": "retire"},
            "all clients spend alike",
        ),
        (
            lambda: hush.dp_fedavg(5, 20, clip=1.0, noise_multiplier=0.01, steps=1),
            {"epsilon": 1e-9},
            "does not pay for one round",
        ),
    ],
)
def test_budgets_that_cannot_be_kept(made, asked, message, digits):
    with pytest.raises(ValueError, match=message):
        go(made(), digits, 3, **asked)


def test_infinity_is_said_so():
    assert (rounded_up(float("inf")), rounded_up(1.2301)) == ("∞", "1.24")


def test_who_is_drawn_several_times_in_a_round_says_the_same_and_pays_once():
    """One client, drawn four times: the mean of its messages has the noise of one of them; ε is that of each round."""
    problem = hush.tasks.quadratic(np.zeros((1, 1, 1)), np.zeros((1, 1)))
    uplink = (hush.uplink.Clip(1.0), hush.uplink.Gaussian(1.0))
    found = [
        hush.run(
            hush.Algorithm(cohort, hush.local.LocalSGD(0.1, steps=1), uplink),
            problem,
            3,
            repetitions=400,
            evaluate_every=3,
            progress=False,
        )
        for cohort in (hush.cohort.ByWeight(4), hush.cohort.Everyone())
    ]
    np.testing.assert_allclose(found[0].vector, found[1].vector, rtol=1e-5, atol=1e-5)
    assert found[0].clients["rounds"].eq(12).all()
    assert found[0].records["epsilon"].max() == found[1].records["epsilon"].max() > 0

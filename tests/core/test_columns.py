"""The table of columns: what runs write, what the documents say and what reports show are the same."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hush
from hush.core.columns import (
    AXES,
    COLUMNS,
    KNOWN,
    OF_A_CLIENT,
    ON_OWN_DATA,
    SCORES,
    TAKEN,
    TOTALS,
    column,
    in_order,
    together,
)
from hush.posterior.prediction import scores
from hush.store.records import AGAINST, costs, information, measures, series, summary, swept

ROOT = Path(__file__).parents[2]


def test_the_documents_have_the_table():
    text = (ROOT / "docs" / "runs.md").read_text(encoding="utf-8")
    listed = text.partition("| column | kind | in | together | what |\n|---|---|---|---|---|\n")[2].partition("\n\n")[0]
    together_as = ["-" if each.role == "identity" else each.aggregate for each in COLUMNS]
    assert listed.splitlines() == [
        f"| `{each.name}` | {each.role} | {each.unit or '-'} | {how} | {each.meaning} |"
        for each, how in zip(COLUMNS, together_as, strict=True)
    ]


def test_every_column_that_our_pieces_write_is_known():
    """As recorded of every algorithm and compressor by the golden tests."""
    with np.load(ROOT / "tests" / "golden" / "first_rounds.npz") as recorded:
        written = {name.partition("/info ")[2] for name in recorded.files if "/info " in name}
    assert len(written) > 10
    assert written <= set(KNOWN)


@pytest.fixture(scope="module")
def watched(unequal):
    """A run with a column of nearly every kind."""
    algorithm = hush.dp_fedavg(
        population=unequal.population.clients, clients=3, steps=1, clip=0.5, noise_multiplier=1.0
    )
    asked = {"repetitions": 2, "sweep": {"local.lr": [0.1, 0.2]}, "capacity": 1e6, "sample_every": 1, "watch": True}
    return hush.run(algorithm, unequal, 2, evaluate_every=1, **asked, progress=False)


def test_a_run_writes_each_column_where_its_role_says(watched):
    records = watched.records
    assert set(records.columns) - {"local.lr"} <= set(KNOWN)
    assert swept(records) == ["local.lr"]
    roles = [column(name).role for name in records.columns if name != "local.lr"]
    assert roles[:2] == ["identity", "identity"]
    assert roles.index("total") == 2 + roles.count("measure")
    assert measures(records)[:3] == ["accuracy", "test_loss", "train_loss"]
    assert {column(name).role for name in measures(records)} == {"measure"}
    assert {column(name).role for name in information(records)} == {"information"}
    assert {"epsilon", "channel_seconds", "seconds", "uplink_bits"} <= set(costs(records))


def test_the_clients_table_has_what_is_known_of_a_client(watched):
    columns = [name for name in watched.clients.columns if name not in ("repetition", "local.lr", "client")]
    assert columns == ["rounds", "uplink_bits", "downlink_bits", "epsilon"]
    assert set(columns) <= set(OF_A_CLIENT)


def test_scores_are_those_of_predictions():
    assert list(scores(np.array([[0.3, 0.7]]), np.array([1]))) == list(SCORES)
    assert {f"predictive_{name}" for name in SCORES} == {name for name in KNOWN if name.startswith("predictive_")}


def test_of_epsilon_the_largest_is_told_and_of_everything_else_the_mean():
    frame = pd.DataFrame({"repetition": [0, 1], "round": [5, 5], "epsilon": [1.0, 3.0], "accuracy": [0.2, 0.6]})
    assert summary(frame, "epsilon") == (3.0, None)
    assert summary(frame, "accuracy")[0] == pytest.approx(0.4)
    assert together("epsilon", [1.0, 3.0]) == 3.0
    assert together("macro_f1", [1.0, 3.0]) == 2.0
    drawn = series(frame, "accuracy", "epsilon")
    assert (drawn["x"].item(), drawn["mean"].item()) == (3.0, pytest.approx(0.4))
    assert {each.name for each in COLUMNS if each.aggregate == "max"} == {"epsilon"}


def test_names_that_nobody_else_may_use():
    assert set(TAKEN) == {"repetition", "round", "participants", *TOTALS, *ON_OWN_DATA}
    assert set(ON_OWN_DATA) <= set(KNOWN)
    assert set(AXES) == set(AGAINST) - {"downlink_bits"}
    assert len({each.name for each in COLUMNS}) == len(COLUMNS) == len(KNOWN)


def test_columns_that_are_not_in_the_table():
    own = column("macro_f1")
    assert (own.label, own.unit, own.aggregate, own.linear) == ("macro f1", "", "mean", False)
    assert column("header_bits").unit == "bit"
    assert in_order(["macro_f1", "accuracy", "b", "train_loss"]) == ["train_loss", "accuracy", "macro_f1", "b"]

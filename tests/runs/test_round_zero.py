"""Round 0: the initial model is evaluated, nothing is spent, and what means "since the row before" is empty."""

import numpy as np
import pandas as pd
import pytest

import hush
from hush.core import keys
from hush.core.columns import KNOWN, TOTALS
from hush.core.evaluation import measures
from hush.core.flat import initial, unravelled
from hush.network import through_bytes
from hush.settings import RunSettings

PRIVATE = {"clients": 3, "population": 7, "steps": 1, "clip": 0.5, "noise_multiplier": 1.0}


@pytest.mark.parametrize(
    "made", [hush.scaffold(clients=3, steps=2), hush.dp_fedavg(**PRIVATE), hush.over_the_air(lr=0.1)]
)
def test_the_first_row_is_of_the_initial_model(unequal, made):
    records = hush.run(made, unequal, 3, seed=5, evaluate_every=2, capacity=1e3, progress=False).records
    assert records["round"].tolist() == [0, 2, 3]
    first = records.iloc[0]
    start = initial(unequal, keys.at(keys.root(5), "repetition", 0, "init"))
    for name, value in measures(unequal, unravelled(unequal, start)).items():
        assert first[name] == pytest.approx(float(value), rel=1e-6)
    totals = [name for name in TOTALS if name in records]
    assert {"uplink_bits", "seconds", "channel_seconds"} <= set(totals)
    assert (first[totals] == 0).all()
    seen = [name for name in records if KNOWN[name].role == "information"]
    assert "participants" in seen
    assert first[seen].isna().all()
    assert records[seen].iloc[1:].notna().all(axis=None)


def test_history_begins_with_it(unequal):
    result = hush.run(hush.fedavg(steps=1), unequal, 2, evaluate_every=2, keep_models=True, progress=False)
    start = initial(unequal, keys.at(keys.root(0), "repetition", 0, "init"))
    np.testing.assert_array_equal(result.history[0, 0], start)
    assert len(result.history) == 2


@pytest.mark.usefixtures("unpainted")
def test_a_federation_has_it_too_and_its_file_the_columns_that_come_later(unequal, tmp_path):
    run = RunSettings(rounds=2, evaluate_every=1)
    result = through_bytes(hush.fedavg(clients=3, steps=1), unequal, run, folder=tmp_path / "run", progress=False)
    assert result.records["round"].tolist() == [0, 1, 2]
    assert result.records["participants"].isna().tolist() == [True, False, False]
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "run/records.csv"), result.records)


def test_the_first_round_is_number_one_and_none_is_refused(unequal):
    with pytest.raises(ValueError, match="rounds must be"):
        hush.run(hush.fedavg(steps=1), unequal, 0, progress=False)

"""Runs of a page are made once: a second page reads them, and another setting, datum or step size is another run."""

import numpy as np
import pandas as pd
import pytest

import hush
from hush.papers.keeping import Runs, mark

PROBLEM = hush.tasks.quadratic([[[1.0]], [[3.0]]], [[1.0], [-1.0]])
ALGORITHM = hush.fedavg(steps=2, lr=0.1)


def asked(runs, algorithm=ALGORITHM, rounds=3, **options):
    return runs("some run", algorithm, PROBLEM, rounds, repetitions=2, evaluate_every=1, **options)


def test_a_second_page_reads_what_the_first_has_made(tmp_path):
    said: list[str] = []
    first, second = (Runs(tmp_path, say=said.append) for _ in range(2))
    made = asked(first, keep_models=True)
    assert asked(first, keep_models=True) is made
    read = asked(second, keep_models=True)
    assert said == ["some run"]
    assert ([how for *_, how in first.came], [how for *_, how in second.came]) == (["made"], ["read"])
    pd.testing.assert_frame_equal(read.records, made.records)
    np.testing.assert_array_equal(read.history, made.history)
    assert second.words == "1 runs, all of them made earlier and read here; making them took 0 s in all"
    assert second.section().tables[0][1].values.tolist() == [["some run", first.came[0][1], "read"]]
    fresh = Runs(tmp_path, fresh=True, say=said.append)
    asked(fresh, keep_models=True)
    assert said == ["some run"] * 2
    assert fresh.came[0][2] == "made"


def test_a_run_is_known_by_all_that_it_depends_on():
    options = {"rounds": 3, "repetitions": 2}
    known = mark(ALGORITHM, PROBLEM, options)
    assert known == mark(hush.fedavg(steps=2, lr=0.1), PROBLEM, dict(options))
    falling = [lambda count, scale=scale: 0.1 / (1 + count / scale) for scale in (10.0, 10.0 * (1 + 1e-7), 11.0)]
    marks = [mark(hush.fedavg(steps=2, lr=lr), PROBLEM, options) for lr in falling]
    assert marks[0] == marks[1] != marks[2]  # the last digit of a step size differs by machine
    others = [
        mark(hush.fedavg(steps=3, lr=0.1), PROBLEM, options),
        mark(ALGORITHM, hush.tasks.quadratic([[[1.0]], [[3.0]]], [[1.0], [-1.001]]), options),
        mark(ALGORITHM, PROBLEM, options | {"rounds": 4}),
        mark(ALGORITHM, PROBLEM, options | {"sweep": {"local.lr": [0.1, 0.2]}}),
    ]
    assert len({known, *marks, *others}) == 7


@pytest.mark.filterwarnings("ignore:repetition")
def test_a_run_that_diverged_is_kept_as_that(tmp_path):
    wild = hush.fedavg(steps=50, lr=1e9)
    made, read = (asked(Runs(tmp_path, say=str), wild, 5) for _ in range(2))
    assert made.status["status"] == read.status["status"] == "diverged"

"""Partitioners of flwr-datasets: a small one that keeps to their contract, and the real ones where installed."""

from typing import Any

import numpy as np
import pytest

from hush.data.partitioners import by_partitioner

datasets = pytest.importorskip("datasets", reason="meets it for real: make peers")

LABELS = np.arange(30) % 3


def dataset() -> Any:
    return datasets.Dataset.from_dict({"label": LABELS, "x": np.arange(30.0)})


class Dealt:
    """A partitioner by a list of rows for each client, as flwr_datasets.partitioner.Partitioner has it."""

    def __init__(self, rows: list[list[int]]) -> None:
        self.rows, self.dataset = rows, None

    @property
    def num_partitions(self) -> int:
        return len(self.rows)

    def is_dataset_assigned(self) -> bool:
        return self.dataset is not None

    def load_partition(self, partition_id: int) -> Any:
        assert self.dataset is not None
        return self.dataset.select(self.rows[partition_id])


def test_the_rows_of_each_client() -> None:
    given = Dealt([[3, 1], [0, 29], [7]])
    assert [part.tolist() for part in by_partitioner(dataset(), given)] == [[1, 3], [0, 29], [7]]
    assert not given.is_dataset_assigned()


def test_of_a_dataset_that_is_itself_a_selection() -> None:
    """Rows are counted in what was handed over, not in what that was taken from."""
    assert by_partitioner(dataset().select(range(10, 20)), Dealt([[0], [9]]))[1].tolist() == [9]


@pytest.mark.parametrize(
    ("partitioner", "sentence"),
    [
        (Dealt([[0], []]), r"must give every client a row, found none for \[1\]"),
        (Dealt([[0, 1], [1, 2]]), r"must give a row to one client, found rows of several: \[1\]"),
        ([[0], [1]], "must be one of flwr_datasets"),
    ],
)
def test_what_is_refused(partitioner: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        by_partitioner(dataset(), partitioner)


def test_one_that_has_a_dataset_is_refused() -> None:
    given = Dealt([[0]])
    given.dataset = dataset()
    with pytest.raises(ValueError, match="must have no dataset yet"):
        by_partitioner(dataset(), given)


def test_the_partitioners_of_flower() -> None:
    flower = pytest.importorskip("flwr_datasets.partitioner", reason="holds datasets and rich back")
    alike = by_partitioner(dataset(), flower.IidPartitioner(num_partitions=5))
    assert sorted(np.concatenate(alike).tolist()) == list(range(30))
    assert [len(part) for part in alike] == [6] * 5
    own = by_partitioner(dataset(), flower.PathologicalPartitioner(3, "label", 1, "deterministic"))
    assert sorted({int(LABELS[row]) for row in part}.pop() for part in own) == [0, 1, 2]
    asked = {"num_partitions": 4, "partition_by": "label", "alpha": 0.5, "min_partition_size": 1, "seed": 3}
    found = by_partitioner(dataset(), flower.DirichletPartitioner(**asked))
    theirs = flower.DirichletPartitioner(**asked)
    theirs.dataset = dataset()
    for number, part in enumerate(found):
        assert sorted(theirs.load_partition(number)["x"]) == part.tolist()
    named = by_partitioner(dataset(), flower.NaturalIdPartitioner(partition_by="label"))
    assert sorted(part[0] for part in named) == [0, 1, 2]

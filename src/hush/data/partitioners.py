"""Partitions by the partitioners of flwr-datasets, where it is installed: a partitioner in, rows of each client out."""

import copy
from typing import Any

import numpy as np

from hush.core.check import shown
from hush.data.partitions import Indices

ROW = "__row__"  # a column that goes through the partitioner and tells which rows came out


def is_partitioner(value: Any) -> bool:
    """Whether a value does what a partitioner of flwr-datasets does."""
    return all(hasattr(type(value), name) for name in ("load_partition", "num_partitions", "is_dataset_assigned"))


def by_partitioner(dataset: Any, partitioner: Any) -> list[Indices]:
    """The rows of a datasets.Dataset that each client has; some may be nobody's, none are two clients'.

    The partitioner itself is left as it is.
    """
    if not is_partitioner(partitioner):
        raise ValueError(f"a partitioner must be one of flwr_datasets, found {shown(partitioner)}")
    if partitioner.is_dataset_assigned():
        raise ValueError(f"{type(partitioner).__name__} must have no dataset yet, found one; hand over a new one")
    own = copy.deepcopy(partitioner)
    own.dataset = dataset.add_column(ROW, np.arange(len(dataset)))
    parts = [
        np.sort(np.asarray(own.load_partition(number).with_format("numpy")[ROW], np.int64))
        for number in range(own.num_partitions)
    ]
    if empty := [number for number, part in enumerate(parts) if not len(part)]:
        raise ValueError(f"{type(partitioner).__name__} must give every client a row, found none for {shown(empty)}")
    rows, times = np.unique(np.concatenate(parts), return_counts=True)
    if np.any(times > 1):
        shared = shown(rows[times > 1].tolist())
        raise ValueError(f"{type(partitioner).__name__} must give a row to one client, found rows of several: {shared}")
    return parts

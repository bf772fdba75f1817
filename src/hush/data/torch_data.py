"""Examples of a PyTorch Dataset or DataLoader, read once and in order. PyTorch itself is not needed for that."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from hush.core.check import shown

Array = np.ndarray[Any, Any]
IN_ORDER = ("SequentialSampler", "_InfiniteConstantSampler")  # the second is that of iterable datasets


def read_examples(what: str, dataset: Any) -> tuple[Array, Array]:
    """x [n, …] and y [n, …] of a dataset of pairs (x, y), or of the one that a DataLoader loads."""
    dataset = loaded_by(what, dataset)
    inputs, targets = [], []
    for number, item in enumerate(_items(what, dataset)):
        if not isinstance(item, tuple | list) or len(item) != 2:
            hint = "; a Dataset of Hugging Face is for hush.tasks.hugging_face" if isinstance(item, dict) else ""
            raise ValueError(f"{what} must have examples (x, y), found {type(item).__name__} at {number}{hint}")
        inputs.append(_array(what, number, item[0]))
        targets.append(_array(what, number, item[1]))
    if not inputs:
        raise ValueError(f"{what} must have examples, found none")
    return _stacked(what, "inputs", inputs), _stacked(what, "targets", targets)


def loaded_by(what: str, dataset: Any) -> Any:
    """The dataset of a DataLoader that loads all of it as it is, in whatever order; a dataset as it is."""
    if not all(hasattr(dataset, name) for name in ("dataset", "sampler", "collate_fn")):
        return dataset
    sampler, collate = dataset.sampler, dataset.collate_fn
    if getattr(collate, "__name__", "") not in ("default_collate", "default_convert"):
        raise ValueError(f"{what}: a DataLoader must have no collate_fn of its own, found {shown(collate)}")
    if dataset.batch_sampler is not None and dataset.batch_size is None:
        raise ValueError(
            f"{what}: a DataLoader must have no batch_sampler of its own, since batches are the algorithm's"
        )
    kind, held = type(sampler).__name__, dataset.dataset
    shuffled = kind == "RandomSampler" and not sampler.replacement and len(sampler) == len(held)
    if not shuffled and kind not in IN_ORDER:
        raise ValueError(
            f"{what}: a DataLoader must load all of its dataset, in order or shuffled, found a {kind}; "
            "for a part of it there is torch.utils.data.Subset"
        )
    return held


def _items(what: str, dataset: Any) -> Iterable[Any]:
    if not isinstance(dataset, str | Mapping | type):
        if hasattr(dataset, "__iter__"):  # all that one of PyTorch's iterable datasets has
            return iter(dataset)
        if hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__"):
            return (dataset[number] for number in range(len(dataset)))
    raise ValueError(f"{what} must be a Dataset or a DataLoader of PyTorch, found {type(dataset).__name__}")


def _array(what: str, number: int, value: Any) -> Array:
    """A tensor, a number or a picture as an array."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value  # which NumPy does not know
        return np.asarray(value.numpy())
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must have tensors, arrays or numbers, found another at {number}: {error}") from error


def _stacked(what: str, part: str, values: list[Array]) -> Array:
    for number, value in enumerate(values):
        if value.shape != values[0].shape:
            raise ValueError(
                f"{what} must have {part} of one shape, found {values[0].shape} at 0 and {value.shape} at {number}"
            )
    return np.stack(values)


def check_apart(datasets: Mapping[Any, Any]) -> None:
    """Refuse clients whose datasets are overlapping parts of one: their examples would count as different ones."""
    held: dict[int, dict[int, Any]] = {}
    for name, dataset in datasets.items():
        whole, rows = _base(loaded_by(f"the dataset of {shown(name)}", dataset))
        owners = held.setdefault(id(whole), {})
        for row in rows:
            other = owners.setdefault(row, name)
            if other != name:
                raise ValueError(
                    f"clients must have examples of their own, found example {row} of one dataset with {shown(other)} "
                    f"and with {shown(name)}"
                )


def _base(dataset: Any) -> tuple[Any, list[int]]:
    """The dataset that one is a part of, and which rows of it; Subsets of Subsets are followed to the end."""
    rows = list(range(len(dataset))) if hasattr(dataset, "__len__") else []
    while hasattr(dataset, "indices") and hasattr(dataset, "dataset"):
        rows = [int(dataset.indices[row]) for row in rows]
        dataset = dataset.dataset
    return dataset, rows

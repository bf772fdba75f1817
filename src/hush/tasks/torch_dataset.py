"""A task of PyTorch's datasets: one with a list of who holds what, or one for each client."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hush.core.check import flag, shown
from hush.data.torch_data import Array, check_apart, read_examples
from hush.models.products import FLOAT32
from hush.tasks.arrays import arrays
from hush.tasks.problem import Supervised


def torch_dataset(
    dataset: Any,
    client_ids: Any = None,
    *,
    model: Any,
    test: Any = None,
    kind: str = "classification",
    classes: Sequence[Any] | None = None,
    model_options: dict[str, Any] | None = None,
    precision: str = FLOAT32,
    channels_first: bool = False,
    scale: Any = 1.0,
    shift: Any = 0.0,
) -> Supervised:
    """A PyTorch Dataset or DataLoader of pairs (x, y), and for each example the id of the client that holds it.

    Or {name: Dataset or DataLoader}, of which each is one client, and no client_ids; an example that two of them hold
    is refused where that can be seen, and counts as two where it cannot. Examples are read once, in the dataset's
    order: a transform that draws at random is drawn once, and of a DataLoader only the dataset counts, since batches
    and shuffling are the algorithm's business. `test` is one Dataset or DataLoader.
    `channels_first` turns images [channels, height, width] into [height, width, channels], as the models by name take
    them; a torch.nn.Module takes them as they are. All else is as in hush.tasks.arrays.
    """
    flag("channels_first", channels_first)
    x, y, ids = _read(dataset, client_ids)
    pair = None if test is None else read_examples("test", test)
    if channels_first:
        x, pair = _turned(x), None if pair is None else (_turned(pair[0]), pair[1])
    return arrays(
        x,
        y,
        ids,
        test=pair,
        model=model,
        kind=kind,
        classes=classes,
        model_options=model_options,
        precision=precision,
        scale=scale,
        shift=shift,
    )


def _read(dataset: Any, client_ids: Any) -> tuple[Array, Array, Any]:
    """x, y and client ids."""
    if not isinstance(dataset, Mapping):
        if client_ids is None:
            raise ValueError("client_ids must name a client for each example, or dataset be {client: dataset}")
        return *read_examples("dataset", dataset), client_ids
    if client_ids is not None:
        raise ValueError("client_ids go with one dataset for all, found them with a dataset for each client")
    if not dataset or not all(isinstance(name, str | int) for name in dataset):
        raise ValueError(f"clients must be named by text or whole numbers, found {shown(list(dataset))}")
    check_apart(dataset)
    found = {name: read_examples(f"the dataset of {shown(name)}", each) for name, each in dataset.items()}
    for part in (0, 1):
        shapes = {pair[part].shape[1:] for pair in found.values()}
        if len(shapes) > 1:
            raise ValueError(f"clients must have examples of one shape, found {shown(sorted(shapes))}")
    x, y = (np.concatenate([pair[part] for pair in found.values()]) for part in (0, 1))
    return x, y, np.repeat(list(found), [len(pair[1]) for pair in found.values()])


def _turned(x: Array) -> Array:
    if x.ndim != 4:
        raise ValueError(f"channels_first is for images [channels, height, width], found inputs of {x.shape[1:]}")
    return np.moveaxis(x, 1, -1)

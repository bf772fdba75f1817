"""A task of a Dataset of Hugging Face, which the user has loaded: nothing is downloaded here, nor imported."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hush.core.check import shown
from hush.data.partitioners import by_partitioner, is_partitioner
from hush.data.tables import require_column
from hush.models.products import FLOAT32
from hush.tasks.arrays import arrays
from hush.tasks.problem import Supervised
from hush.tasks.tables import made_of

MODES = ("L", "RGB", "RGBA")  # pictures of one, three and four bytes a pixel


def hugging_face(
    dataset: Any,
    input: str | Sequence[str],
    target: str,
    client: Any,
    *,
    test: Any = None,
    kind: str = "classification",
    model: Any = "softmax",
    model_options: dict[str, Any] | None = None,
    precision: str = FLOAT32,
) -> Supervised:
    """The rows of a datasets.Dataset: `input` is a column of images, or one or more of numbers, `target` the label.

    `client` is the column that says who holds a row, an array with the id of each row's client, or a partitioner of
    flwr_datasets without a dataset of its own, by which the rows are dealt. `test` is another Dataset, such as the
    split of that name. The names of a ClassLabel become those of the classes. Images are bytes, and the model is fed
    numbers from 0 to 1; numbers are as in hush.tasks.frame. Text is for hush.tasks.tokens.
    """
    for what, given in (("dataset", dataset), ("test", test)):
        if given is not None or what == "dataset":
            _check(what, given)
    names = [input] if isinstance(input, str) else list(input)
    for what, given in (("dataset", dataset), ("test", test)):
        for name in (*names, target) if given is not None else ():
            _check_column(what, given, name, is_target=name == target)
    if isinstance(client, str):
        require_column("dataset", dataset.data.table, client)
    classes = _classes(dataset, target)
    if test is not None and _classes(test, target) != classes:
        found = shown(_classes(test, target))
        raise ValueError(f"test must have the classes of the training, {shown(classes)}, found {found}")
    if is_partitioner(client):
        parts = by_partitioner(dataset, client)
        dataset = dataset.select(np.concatenate(parts))
        client = np.repeat(np.arange(len(parts)), list(map(len, parts)))
    of_model = {"model": model, "model_options": model_options, "precision": precision}
    options = {"kind": kind, "classes": classes} | of_model
    if not any(_kind(dataset, name) == "Image" for name in names):
        table, held_out = (None if given is None else _table(given, target) for given in (dataset, test))
        return made_of(table, held_out, target, client, features=names, **options)
    if len(names) > 1:
        raise ValueError(f"input must be one column of images, or columns of numbers, found both: {shown(names)}")
    if isinstance(client, str):
        client = _table(dataset.select_columns([client]), target).column(client).to_numpy()
    pair = None if test is None else (_pictures("test", test, names[0]), _targets(test, target))
    x, y = _pictures("dataset", dataset, names[0]), _targets(dataset, target)
    return arrays(x, y, client, test=pair, scale=1 / 255, **options)


def _check(what: str, dataset: Any) -> None:
    if hasattr(dataset, "features") and hasattr(dataset, "select") and hasattr(dataset, "with_format"):
        return
    splits = shown(list(dataset)) if isinstance(dataset, dict) else ""
    hint = f"; take one of its splits, {splits}" if splits else ""
    raise ValueError(f"{what} must be a datasets.Dataset, found {type(dataset).__name__}{hint}")


def _kind(dataset: Any, name: str) -> str:
    return type(dataset.features[name]).__name__


def _check_column(what: str, dataset: Any, name: Any, is_target: bool) -> None:
    require_column(what, dataset.data.table, name)
    if not is_target and getattr(dataset.features[name], "dtype", "") in ("string", "large_string"):
        raise ValueError(
            f"input must be images or numbers, found text in column {shown(name)}; text becomes numbers by "
            "hush.tasks.tokens, and a few categories by hush.tasks.frame(dataset.to_pandas(), …)"
        )


def _classes(dataset: Any, target: str) -> list[str] | None:
    return list(dataset.features[target].names) if _kind(dataset, target) == "ClassLabel" else None


def _table(dataset: Any, target: str) -> pa.Table:
    """All rows as Arrow has them; a ClassLabel that is no target by its names, as they are no amounts."""
    table = dataset.with_format("arrow")[:]
    for name in table.column_names:
        if _kind(dataset, name) == "ClassLabel" and name != target:
            names = np.array([*dataset.features[name].names, None], object)  # a missing one is −1
            numbers = table.column(name).to_numpy()
            at = table.column_names.index(name)
            table = table.set_column(at, name, pa.array(names[numbers], pa.string()))
    return table


def _targets(dataset: Any, target: str) -> Any:
    return dataset.select_columns([target]).with_format("arrow")[:].column(target).to_numpy()


def _pictures(what: str, dataset: Any, name: str) -> np.ndarray[Any, Any]:
    """Pictures as bytes [n, height, width] or [n, height, width, channels], all of one size and mode."""
    found: list[np.ndarray[Any, Any]] = []
    modes, sizes = set[str](), set[tuple[int, int]]()
    for number, picture in enumerate(row[name] for row in dataset.select_columns([name]).with_format(None)):
        if picture is None:
            raise ValueError(f"{what} must have a picture in every row, found none in row {number} of {shown(name)}")
        modes.add(picture.mode)
        sizes.add(picture.size)
        if len(modes) > 1 or len(sizes) > 1 or picture.mode not in MODES:
            raise ValueError(
                f"{what} must have pictures of one size and of one mode among {', '.join(MODES)}, found by row "
                f"{number} of {shown(name)}: {', '.join(sorted(modes))}, {shown(sorted(sizes))}"
            )
        found.append(np.asarray(picture))
    return np.stack(found)

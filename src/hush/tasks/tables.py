"""Tasks of tables: a frame, or CSV and Parquet files, with a column of targets and one that names the client."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypedDict, TypeVar, Unpack

import pyarrow as pa

from hush.core.check import flag, shown
from hush.core.keywords import taking
from hush.data.columns import Array, Encoding, columns_of
from hush.data.tables import read_csv, read_parquet, require_column, table_of
from hush.models.products import FLOAT32
from hush.tasks.arrays import arrays
from hush.tasks.problem import Recipe, Supervised

Function = TypeVar("Function", bound=Callable[..., Any])


class Columns(TypedDict, total=False):
    """The keywords of every task of a table: see `made_of`."""

    features: Sequence[str] | None
    kind: str
    classes: Sequence[Any] | None
    model: Any
    model_options: dict[str, Any] | None
    precision: str
    standardise: bool


def made_of(
    table: pa.Table,
    test: pa.Table | None,
    target: str,
    client: Any,
    *,
    features: Sequence[str] | None = None,
    kind: str = "classification",
    classes: Sequence[Any] | None = None,
    model: Any = "softmax",
    model_options: dict[str, Any] | None = None,
    precision: str = FLOAT32,
    standardise: bool = False,
) -> Supervised:
    """A problem of two tables. `client` is a column, or an array with the id of each row's client.

    Numbers are inputs as they are, true and false as 1 and 0; text is 1 in the feature of its category and 0 in the
    others; lists of numbers, all as long, are as many features, and a sole column of them keeps its shape. `features`
    are the columns to take, in this order; if not said, all but `target` and `client`. What is missing is refused. A
    category that only the test has is 0 everywhere, and warned of. Names of inputs come back as `problem.features`.
    `kind`, `classes`, `precision` and labels are those of hush.tasks.arrays.
    Categories, names of classes and, with `standardise`, means and deviations are of all clients' training rows
    together. No federation has these without asking. With `standardise` no privacy guarantee is given; of categories
    and classes it takes for granted that everybody knew them beforehand.
    """
    flag("standardise", standardise)
    clients = [client] if isinstance(client, str) else []
    names = columns_of_features(table, target, clients, features)
    columns = columns_of("frame", table, [*names, target, *clients])
    inputs = {name: columns[name] for name in names}
    encoding = Encoding.of(inputs)
    x, held_out = encoding("frame", inputs), None
    if test is not None:
        found = columns_of("test", test, [*names, target])
        held_out = encoding("test", {name: found[name] for name in names}), found[target]
    of_model = {"model": model, "model_options": model_options, "precision": precision}
    given: dict[str, Any] = {"kind": kind, "classes": classes} | of_model
    if standardise:
        mean, deviation = encoding.spread(inputs, x)
        given |= {"scale": 1 / deviation, "shift": -mean / deviation}
    ids: Array = columns[client] if clients else client
    problem = arrays(x, columns[target], ids, test=held_out, **given)
    found_here = problem.names.from_data or bool(encoding.categories)
    said = replace(problem.names, features=encoding.names, from_data=found_here)
    return replace(problem, names=replace(said, scaled_by="clients" if standardise else "given"))


def of_columns(function: Function) -> Function:
    """Show the keywords of `Columns` in a task's own signature, and what they mean below its own words."""
    task = taking(made_of)(function)
    own, shared = (function.__doc__ or "").rstrip(), (made_of.__doc__ or "").partition("\n\n")[2]
    task.__doc__ = f"{own}\n\n{shared}"
    return task


@of_columns
def frame(frame: Any, target: str, client: str, *, test: Any = None, **columns: Unpack[Columns]) -> Supervised:
    """The rows of a DataFrame of pandas or polars, or of an Arrow table, by the names of columns.

    `target` is the column to predict, `client` the one that says who holds a row; `test` a frame with the same columns,
    in which `client` is not needed.
    """
    held_out = None if test is None else table_of("test", test)
    return made_of(table_of("frame", frame), held_out, target, client, **columns)


@of_columns
def csv(
    path: str, target: str, client: str, *, test: str | None = None, separator: str = ",", **columns: Unpack[Columns]
) -> Supervised:
    """The rows of a CSV file, or of all in a folder, by the names of columns.

    The first line has these names. `target` is the column to predict, `client` the one that says who holds a row;
    `test` names a file, or a folder, with the same columns, in which `client` is not needed. Paths are seen from where
    hush is started.
    """
    check_separator(separator)
    table = read_csv("path", path, separator)
    held_out = None if test is None else read_csv("test", test, separator)
    settings = {"path": path, "target": target, "client": client, "test": test, "separator": separator, **columns}
    problem = made_of(table, held_out, target, client, **columns)
    return replace(problem, recipe=recipe_of("csv", settings))


@of_columns
def parquet(path: str, target: str, client: str, *, test: str | None = None, **columns: Unpack[Columns]) -> Supervised:
    """The rows of a Parquet file, or of all in a folder, by the names of columns.

    `target` is the column to predict, `client` the one that says who holds a row; in a folder it may be the name of
    folders such as client=7. `test` names a file, or a folder, with the same columns, in which `client` is not needed.
    All of it is read into memory. Paths are seen from where hush is started.
    """
    held_out = None if test is None else read_parquet("test", test)
    problem = made_of(read_parquet("path", path), held_out, target, client, **columns)
    settings = {"path": path, "target": target, "client": client, "test": test, **columns}
    return replace(problem, recipe=recipe_of("parquet", settings))


def check_separator(separator: Any) -> None:
    """What stands between the values of a line."""
    if not isinstance(separator, str) or len(separator) != 1:
        raise ValueError(f"separator must be one character, found {shown(separator)}")


def recipe_of(name: str, settings: dict[str, Any]) -> Recipe:
    """How a task of files is written in a settings file; nothing where the model is the user's own."""
    if not isinstance(settings["model"], str):
        return Recipe()
    said = {key: value for key, value in settings.items() if value is not None}
    return Recipe(name=name, **said | {key: str(said[key]) for key in ("path", "test") if key in said})


def columns_of_features(table: pa.Table, target: str, clients: list[str], features: Sequence[str] | None) -> list[str]:
    """The columns of the inputs."""
    for name in (target, *clients):
        require_column("frame", table, name)
    if [target] == clients:
        raise ValueError(f"target and client must be two columns, found {shown(target)} for both")
    if features is None:
        return [name for name in table.column_names if name not in (target, *clients)]
    if isinstance(features, str) or not all(isinstance(name, str) for name in features):
        raise ValueError(f"features must be a list of columns, found {shown(features)}")
    if odd := [name for name in features if name in (target, *clients) or list(features).count(name) > 1]:
        raise ValueError(f"features must be other columns than target and client, each once, found {shown(odd)}")
    return list(features)

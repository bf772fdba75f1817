"""Files of LEAF (Caldas et al., 2018): JSON with `users`, `num_samples` and `user_data`, {user: {"x": …, "y": …}}."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hush.core.check import shown
from hush.data.tables import files_of

Array = np.ndarray[Any, Any]
KEYS = ("users", "num_samples", "user_data")


def read_leaf(what: str, path: str | Path) -> tuple[Array, Array, list[str]]:
    """x [n, …], y [n] and the user of each example, of one file or of all in a folder."""
    inputs, labels, users = [], [], list[str]()
    for user, x, y in leaf_users(what, path):
        inputs.append(x)
        labels.append(y)
        users += [user] * len(y)
    shapes = {x.shape[1:] for x in inputs}
    if len(shapes) > 1:
        raise ValueError(f"{what} must have inputs of one shape, found {shown(sorted(shapes))}")
    return np.concatenate(inputs), np.concatenate(labels), users


def leaf_users(what: str, path: str | Path) -> Iterator[tuple[str, Array, Array]]:
    """The users one after the other, of which each comes once; one file at a time is in memory."""
    seen = set[str]()
    for file in files_of(what, path, ".json"):
        for user, x, y in _examples(file, _parsed(file)):
            if user in seen:
                raise ValueError(f"{file}: user {shown(user)} was there before, each is allowed once")
            seen.add(user)
            yield user, x, y


def _parsed(file: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{file} cannot be read as JSON: {error}") from error
    lacking = [key for key in KEYS if key not in found] if isinstance(found, dict) else KEYS
    if lacking:
        raise ValueError(f"{file} must hold {', '.join(KEYS)}, as LEAF's files do, found no {', '.join(lacking)}")
    users, counts, data = (found[key] for key in KEYS)
    if not isinstance(data, dict) or not isinstance(users, list) or not isinstance(counts, list):
        raise ValueError(f"{file} must hold lists of users and num_samples, and user_data by user, found others")
    if len(users) != len(counts) or not set(users) <= set(data):
        absent = shown([user for user in users if user not in data])
        raise ValueError(f"{file} must have a count and data for each user, found {len(counts)}, and no data: {absent}")
    return found


def _examples(file: Path, found: Mapping[str, Any]) -> Iterator[tuple[str, Array, Array]]:
    for user, count in zip(found["users"], found["num_samples"], strict=True):
        where, data = f"{file}: user {shown(user)}", found["user_data"][user]
        if not isinstance(data, dict) or not {"x", "y"} <= set(data):
            raise ValueError(f"{where} must have x and y, found {shown(data)}")
        x, y = data["x"], data["y"]
        if not isinstance(x, list) or not isinstance(y, list) or not len(x) == len(y) == count:
            raise ValueError(f"{where} must have {shown(count)} inputs and labels, as num_samples says")
        if not count:
            raise ValueError(f"{where} has no examples; LEAF's --min-samples leaves such users out")
        yield user, _numbers(where, x), np.asarray(y)


def _numbers(where: str, x: list[Any]) -> Array:
    try:
        found = np.asarray(x)
    except ValueError as error:
        raise ValueError(f"{where} must have inputs of one shape: {error}") from error
    if found.dtype.kind not in "biuf":
        raise ValueError(
            f"{where} must have inputs of numbers, found {shown(x[0])}; text becomes numbers by hush.tasks.tokens, "
            "and names of pictures by reading these"
        )
    return found.astype(np.float32) if found.dtype.kind == "f" else found

"""How a piece of a user's own is looked at by shapes alone, and how what is wrong with it is told."""

import inspect
import traceback
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

HERE = Path(__file__).parents[1]
# Whose classes and functions are no user's own: what stands in these packages is held to its contract by its own tests.
LIBRARIES = ("hush", "jax", "jaxlib", "equinox", "optax", "numpy", "builtins", "functools")
NUMBERS = (bool, int, float, np.generic)


def is_ours(made_by: Any) -> bool:
    """Whether a class or a function stands in one of these packages."""
    home = getattr(made_by, "__module__", None) or "builtins"
    return home.split(".")[0] in LIBRARIES


def is_own(part: Any) -> bool:
    """Whether a piece, or one inside it, is the user's own. Of the others the long trace of training is spared."""
    if isinstance(part, dict):
        return any(map(is_own, part.values()))
    if isinstance(part, tuple | list):
        return any(map(is_own, part))
    if not isinstance(part, eqx.Module) and not callable(part):
        return False
    if not is_ours(part if inspect.isroutine(part) else type(part)):
        return True
    return isinstance(part, eqx.Module) and any(is_own(getattr(part, each.name, None)) for each in fields(part))


def named(slot: str, piece: Any) -> str:
    """A piece by its slot and its class."""
    return f"{slot} ({type(piece).__name__})"


def called(slot: str, piece: Any, method: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a method of a piece answers; an error of its own is told with its name."""
    try:
        return function(*arguments)
    except Exception as error:
        if isinstance(error, ValueError) and _is_ours(error) and not is_own(piece):
            raise
        said = str(error).strip().split("\n")[0]
        raise ValueError(f"{named(slot, piece)}: {method} fails with {type(error).__name__}: {said}") from error


def shapes(slot: str, piece: Any, method: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """The same by shapes alone: arrays by their shapes, and anything else as it is."""
    return called(slot, piece, method, eqx.filter_eval_shape, function, *arguments)


def _is_ours(error: Exception) -> bool:
    """Whether hush itself refused something: then it has been told well enough."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and HERE in Path(frames[-1].filename).parents


def refuse(slot: str, piece: Any, asked: str, found: str) -> NoReturn:
    """Tell what a piece must do, and what was found instead."""
    raise ValueError(f"{named(slot, piece)} must {asked}, found {found}")


def words(value: Any) -> str:
    """What a piece returned, by its kind."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{value.dtype} of shape {value.shape}"
    if isinstance(value, tuple):
        return f"{len(value)} things ({', '.join(map(words, value))})"
    return "nothing" if value is None else type(value).__name__


def outline(tree: Any) -> str:
    """The same, of a dictionary by its names."""
    return f"a dictionary of {', '.join(map(str, tree)) or 'nothing'}" if isinstance(tree, Mapping) else words(tree)


def is_array(value: Any, shape: tuple[int, ...], kind: Any = jnp.floating) -> bool:
    """Whether it is an array of this shape and kind; a plain number is one of no shape."""
    found = jnp.asarray(value) if isinstance(value, int | float) else value
    return hasattr(found, "shape") and found.shape == shape and jnp.issubdtype(found.dtype, kind)


def is_number(value: Any) -> bool:
    """Whether it is one real number, or one truth."""
    return any(is_array(value, (), kind) for kind in (jnp.floating, jnp.integer, jnp.bool_))


def is_vector(value: Any, like: Any) -> bool:
    """Whether it is an array like another one."""
    return is_array(value, like.shape) and value.dtype == like.dtype


def unpacked(slot: str, piece: Any, asked: str, found: Any, count: int) -> Any:
    """An answer of so many things."""
    if not isinstance(found, tuple) or len(found) != count:
        refuse(slot, piece, f"return {asked}", words(found))
    return found


def check_arrays(slot: str, piece: Any, asked: str, tree: Any, numbers: bool = False) -> None:
    """Refuse a state that holds anything but arrays (or `numbers`): it goes through a compiled program."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if not hasattr(leaf, "shape") and not (numbers and isinstance(leaf, NUMBERS)):
            hint = "; say jnp.float32(…)" if isinstance(leaf, NUMBERS) else ""
            refuse(slot, piece, asked, f"{words(leaf)} at {jax.tree_util.keystr(path) or 'the top'}{hint}")


def difference(new: Any, old: Any) -> str:
    """How one state differs from another that it must be like; nothing if it does not."""
    if str(jax.tree.structure(new)) != str(jax.tree.structure(old)):
        return f"{outline(new)} instead of {outline(old)}"
    pairs = zip(jax.tree_util.tree_leaves_with_path(new), jax.tree.leaves(old), strict=True)
    for (path, leaf), before in pairs:
        now, then = (jnp.asarray(each) if isinstance(each, NUMBERS) else each for each in (leaf, before))
        if getattr(now, "shape", None) != then.shape or now.dtype != then.dtype:
            return f"{jax.tree_util.keystr(path)} as {words(leaf)} instead of {words(before)}"
    return ""

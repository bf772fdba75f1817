"""What a user hands over, looked at before anything is made of it: arrays, labels, and a model that fits them."""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hush.core.check import shown
from hush.core.rehearsal import check_parameters, shapes
from hush.models.partly import Partly
from hush.models.wrap import Functions, Module, Named, itself, looks_up
from hush.tasks.measures import binary, classification, regression

Array = np.ndarray[Any, Any]
# So many classes there may be even of few examples; more than these and than examples are no numbered classes.
MANY_CLASSES = 1000
# The channels that an image may have, and the models for which their place makes no difference.
CHANNELS, ANY_ORDER = (1, 3, 4), ("softmax", "mlp")


def numbers(name: str, value: Any, integers: bool = False) -> Array:
    """An array of finite real numbers: bytes and float32 as they come, all else as float32, or as int32 if asked."""
    try:
        found = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be one array of numbers, found {type(value).__name__}: {error}") from error
    real = any(jnp.issubdtype(found.dtype, kind) for kind in (np.floating, np.integer, np.bool_))
    if not real:
        kinds = {"c": "complex numbers", "O": "objects", "U": "text", "S": "text", "M": "dates"}
        said = kinds.get(found.dtype.kind, str(found.dtype))
        raise ValueError(f"{name} must be real numbers, found {said} ({found.dtype} of shape {found.shape})")
    if integers:
        return _whole(name, found)
    if found.dtype not in (np.uint8, np.float32):
        with np.errstate(over="ignore"):
            found = found.astype(np.float32)
    if found.dtype != np.uint8 and not np.isfinite(found).all():
        raise ValueError(f"{name} must be finite numbers, found NaN, infinity or one too large for 32 bits")
    return found


def _whole(name: str, found: Array) -> Array:
    """Integers of 32 bits: what an embedding looks up."""
    if found.dtype.kind not in "iu":
        raise ValueError(f"{name} must be integers, since the model looks things up by them, found {found.dtype}")
    limits = np.iinfo(np.int32)
    if found.size and (found.min() < limits.min or found.max() > limits.max):
        raise ValueError(f"{name} must be integers of 32 bits, found {found.min():,} to {found.max():,}")
    return found.astype(np.int32)


def inputs(name: str, value: Any, integers: bool = False) -> Array:
    """The examples' inputs [n, …], none of them empty."""
    found = numbers(name, value, integers)
    if found.ndim == 0 or len(found) == 0:
        raise ValueError(f"{name} must be one or more examples [n, …], not empty, found shape {found.shape}")
    if 0 in found.shape:
        raise ValueError(f"{name} must have features, found none: shape {found.shape}")
    return found


def targets(name: str, value: Any, count: int, kind: str, among: int | None = None) -> Array:
    """The examples' targets: labels [n] for classification, 0 and 1 for binary, numbers [n, …] for regression.

    `among` is the number of all examples, where these are some of them.
    """
    raw = np.asarray(value) if not isinstance(value, list | tuple) else _as_array(name, value)
    if kind != "regression" and raw.dtype.kind in "USO":
        raise ValueError(
            f"{name} must be labels 0, 1, …, found text or objects ({raw.dtype}); "
            "number them by np.unique(y, return_inverse=True)[1]"
        )
    if raw.ndim == 0 or len(raw) != count:
        found = len(raw) if raw.ndim else "one number"
        both = f"{name.replace('y', 'x', 1)} and {name}"
        raise ValueError(f"{both} must be as long as each other, found {count} and {found}")
    if kind == "regression":
        return numbers(name, raw).astype(np.float32)
    labels = _labels(name, raw, count if among is None else among)
    if kind == "binary" and labels.max() > 1:
        raise ValueError(f"{name} must be labels 0 and 1 for kind='binary', found {labels.max()}")
    return labels.astype(np.int32 if kind == "classification" else np.float32)


def _as_array(name: str, value: Any) -> Array:
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be one array, found a ragged {type(value).__name__}") from error


def _labels(name: str, raw: Array, among: int) -> Array:
    """Whole numbers from 0, one for each example; a column is taken for the list that it is."""
    if raw.ndim == 2 and raw.shape[1] == 1:
        raw = raw[:, 0]
    if raw.ndim != 1:
        hot = raw.ndim == 2 and bool(np.all(np.sum(raw != 0, axis=1) == 1))
        hint = "; of one-hot labels take np.argmax(y, axis=1)" if hot or raw.ndim == 2 else ""
        raise ValueError(f"{name} must be one label for each example [n], found shape {raw.shape}{hint}")
    if raw.dtype.kind in "iub":
        found: Array = raw.astype(np.int64) if raw.dtype.kind != "u" or raw.max() < 2**62 else raw
    else:
        exact = np.asarray(raw, np.float64) if raw.dtype.kind != "c" else numbers(name, raw)
        if not np.isfinite(exact).all():
            raise ValueError(f"{name} must be finite numbers, found NaN or infinity")
        odd = exact[exact != np.floor(exact)]
        if odd.size:
            raise ValueError(
                f"{name} must be whole labels 0, 1, …, found {shown(odd[0])}; for numbers there is kind='regression'"
            )
        found = exact.astype(np.int64) if np.abs(exact).max() < 2**62 else exact
    if found.min() < 0:
        raise ValueError(f"{name} must be labels 0, 1, …, found negative ones such as {shown(found.min())}")
    check_classes(name, found, among)
    return found


def check_classes(name: str, labels: Array, examples: int) -> None:
    """Refuse labels that number something else than classes: larger ones than so many examples have."""
    if labels.max() >= max(MANY_CLASSES, examples):
        raise ValueError(
            f"{name} must be labels 0, 1, … below the number of examples ({examples:,}) or {MANY_CLASSES:,}, found "
            f"{shown(labels.max())}; number them by np.unique(y, return_inverse=True)[1]"
        )


def warn_of_unseen(train: Array, test: Array, names: Sequence[Any] | None = None) -> None:
    """A class that only the test has cannot be learned: allowed, since few examples may lack a rare class, and told."""
    unseen = np.setdiff1d(test, train)
    if unseen.size:
        listed = shown(unseen.tolist() if names is None else [names[label] for label in unseen])
        warnings.warn(f"test has labels that no training example has: {listed}", UserWarning, stacklevel=3)


def check_channels(model: Any, example: tuple[int, ...]) -> None:
    """Refuse images with their channels first for a convolution that takes them last: it would learn, and badly."""
    if not isinstance(model, str) or model in ANY_ORDER or len(example) != 3:
        return
    first, _, last = example
    if first in CHANNELS and last not in CHANNELS and min(example[1:]) > 2 * max(CHANNELS):
        raise ValueError(
            f"{model} takes images as height × width × channels, found {example}, which looks like channels first; "
            "np.moveaxis(x, 1, -1) turns them, or channels_first=True where a task knows it"
        )


def check_scale(name: str, value: Any, example: tuple[int, ...]) -> None:
    """One number, or an array that goes with every input without making it larger."""
    shape = numbers(name, value).shape
    try:
        fits = np.broadcast_shapes(shape, example) == example
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"{name} must be a number or an array that fits inputs of shape {example}, found {shape}")


def check_integers(scale: Any, shift: Any) -> None:
    """Refuse to change inputs by which a model looks things up."""
    if not (np.all(np.asarray(scale) == 1) and np.all(np.asarray(shift) == 0)):
        raise ValueError("integers are handed over as they are, found a scale or a shift for them")


def check_model(model: Any, measures: Callable[..., Any], x: Any, y: Any) -> None:
    """Refuse a model that does not fit its examples: by shapes alone, nothing is computed."""
    model = itself(model)
    who = model.skeleton if isinstance(model, Module | Partly) else model
    label = model.name if isinstance(model, Named) else type(who).__name__
    params = shapes("the model", who, "init", lambda: model.init(jax.random.key(0)))
    check_parameters(f"the model {label}", params)
    batch = jax.ShapeDtypeStruct((2, *x.shape[1:]), x.dtype if x.dtype == np.int32 else jnp.float32)
    if isinstance(model, Named) and not looks_up(model.skeleton):  # made for these very inputs
        outputs: Any = jax.ShapeDtypeStruct((2, model.classes), jnp.float32)
    else:
        outputs = shapes("the model", who, f"apply on inputs of shape {batch.shape[1:]}", model.apply, params, batch)
    per = "for each example" if not isinstance(model, Functions) else "for a batch [b, …] an array [b, …]"
    if not isinstance(outputs, jax.ShapeDtypeStruct) or outputs.shape[:1] != (2,):
        found = getattr(outputs, "shape", type(outputs).__name__)
        raise ValueError(f"the model {label} must answer {per} by one array, found {found} for a batch of 2")
    if not jnp.issubdtype(outputs.dtype, jnp.floating):
        raise ValueError(f"the model {label} must answer by floating-point numbers, found {outputs.dtype}")
    _check_outputs(label, outputs.shape[1:], measures, y)
    target = jax.ShapeDtypeStruct(y.shape[1:], y.dtype)
    output = jax.ShapeDtypeStruct(outputs.shape[1:], outputs.dtype)
    each = shapes("the measures", measures, "the call", measures, output, target)
    if not isinstance(each, dict) or getattr(each.get("loss"), "shape", None) != ():
        loss = each.get("loss") if isinstance(each, dict) else each
        raise ValueError(f"measures must return a dictionary with one number as loss, found {loss}")


def _check_outputs(label: str, output: tuple[int, ...], measures: Callable[..., Any], y: Any) -> None:
    size, wanted = math.prod(output), math.prod(y.shape[1:])
    if measures is classification:
        classes = int(np.max(y)) + 1
        if len(output) != 1 or size < classes:
            raise ValueError(
                f"the model {label} must answer an example by one output for each class, [{classes}] or more for "
                f"labels up to {classes - 1}, found {list(output)}"
            )
    elif measures is regression and size != wanted:
        raise ValueError(f"the model {label} must answer an example by {wanted} numbers, as y has them, found {size}")
    elif measures is binary and size != 1:
        raise ValueError(f"the model {label} must answer an example by one logit for kind='binary', found {size}")

"""Which part of a model by name is trained, as `model_options` and settings files say it."""

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

import jax

from hush.core.check import known, shown
from hush.core.keys import Key
from hush.models import partly
from hush.models.lora import lora as low_rank
from hush.models.partly import Partly

SEED = 0  # what is frozen is part of the problem, so that all repetitions and all devices have the same


def parted(
    module: Any,
    *,
    trainable: Sequence[str] | None = None,
    frozen: Sequence[str] | None = None,
    lora: dict[str, Any] | None = None,
) -> Partly:
    """Any model takes one of these, to train a part of it and send that alone.

    `trainable` are names of arrays, patterns such as "*head*", and all others stay as they are; `frozen` are those that
    stay. `lora` is a table with rank, alpha, where and also, or an empty one, as hush.models.lora takes them.
    Every repetition begins with the same weights.
    """
    said = {"trainable": trainable, "frozen": frozen, "lora": lora}
    chosen = [name for name, value in said.items() if value is not None]
    if len(chosen) != 1:
        raise ValueError(f"a part of a model is said in one way, found {' and '.join(chosen)}")
    if lora is None:
        return partly.frozen(module, frozen) if trainable is None else partly.trainable(module, trainable)
    if not isinstance(lora, Mapping):
        raise ValueError(f"lora must be a table, such as {{'rank': 4}}, found {shown(lora)}")
    for name in lora:
        known("setting of lora", name, LORA)
    return adapted(module, **lora)


def adapted(
    module: Any, *, rank: int = 4, alpha: float = 8.0, where: Sequence[str] = ("*",), also: Sequence[str] = ()
) -> Partly:
    """Matrices of a low rank beside the linear layers: see hush.models.lora."""
    return low_rank(module, rank, alpha, key=jax.random.fold_in(start_key(), 1), where=where, also=also)


def start_key() -> Key:
    """Where the weights of a model of which a part is frozen come from."""
    return jax.random.key(SEED)


def apart(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of a model: those of its own, and those that say which part is trained."""
    of_parts = {name: value for name, value in options.items() if name in PARTS and value is not None}
    return {name: value for name, value in options.items() if name not in PARTS}, of_parts


def _keywords(function: Any) -> tuple[str, ...]:
    return tuple(each.name for each in signature(function).parameters.values() if each.kind is each.KEYWORD_ONLY)


PARTS, LORA = _keywords(parted), _keywords(adapted)

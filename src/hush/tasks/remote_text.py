"""Text that lies on devices: windows of tokens as a task of `hush.tasks.remote` takes them."""

from pathlib import Path
from typing import Any

import numpy as np

from hush.core.check import known, shown
from hush.data.windows import NOTHING, coder, cut, given, pair
from hush.models import TEXT_MODELS

Array = np.ndarray[Any, Any]


def check_settings(model: Any, shape: tuple[int, ...], scale: Any, shift: Any) -> None:
    """Refuse what no task of text can be."""
    if isinstance(model, str):
        known("model of text", model, TEXT_MODELS)
    if len(shape) != 1:
        raise ValueError(f"shape must be the length of a window, such as [64], found {shown(list(shape))}")
    if np.any(np.asarray(scale) != 1) or np.any(np.asarray(shift) != 0):
        raise ValueError("tokens are handed over as they are, found a scale or a shift for them")


def read_text(path: Path, length: int, tokens: int) -> tuple[Array, Array]:
    """The windows of a text file, with the characters of `hush.tasks.tokens`: everybody cuts it in the same way."""
    encode, size = coder(None)
    if size != tokens:
        raise ValueError(
            f"{path} would be cut into {size} characters, and the task has {tokens} tokens: make windows of them "
            "yourself, as x and y of an .npz file"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as text: {error}") from error
    return pair(cut([text], [0], encode, length)[0])


def check_windows(x: Any, y: Any, length: int, tokens: int, what: str) -> tuple[Array, Array]:
    """Windows of tokens and the next ones, −1 where a window is filled up."""
    found, following = np.asarray(x), np.asarray(y)
    for name, each in (("x", found), ("y", following)):
        if each.ndim != 2 or each.shape[1] != length or each.dtype.kind not in "iu":
            raise ValueError(f"{what}{name} must be integers [n, {length}], found {each.dtype} of shape {each.shape}")
    if len(found) != len(following):
        raise ValueError(f"{what}x and {what}y must be as long as each other, found {len(found)} and {len(following)}")
    windows = given(f"{what}x and y", np.concatenate([found[:, :1], following], axis=1, dtype=np.int64), NOTHING)
    if windows.max() >= tokens:
        raise ValueError(f"{what}tokens must be below {tokens}, the number of outputs, found {windows.max():,}")
    seen, said = pair(windows)
    if not np.array_equal(np.where(said == NOTHING, 0, seen), np.where(said == NOTHING, 0, found)):
        raise ValueError(f"{what}y must be the tokens of {what}x one place later, −1 where a window is filled up")
    return seen, said

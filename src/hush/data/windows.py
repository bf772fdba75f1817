"""Texts as tokens, and tokens in windows: what is read of a text at once."""

import string
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from hush.core.check import shown

Array = np.ndarray[Any, Any]
Encode = Callable[[str], Sequence[int]]

NOTHING = -1  # in place of a token where a window is filled up


def given(name: str, found: Any, padding: int | None) -> Array:
    """Windows of tokens as they are given, with NOTHING where they are filled up."""
    try:
        whole = np.asarray(found)
    except ValueError as error:
        raise ValueError(
            f"{name} must be one array [n, length + 1], found a ragged one: fill it up, by padding="
        ) from error
    if whole.ndim != 2 or whole.dtype.kind not in "iu" or not len(whole) or whole.shape[1] < 2:
        raise ValueError(f"{name} must be integers [n, length + 1], found {whole.dtype} of shape {whole.shape}")
    limit = np.iinfo(np.int32).max
    filled = np.zeros(whole.shape, bool) if padding is None else whole == padding
    real = whole[~filled]
    if real.size and (real.min() < 0 or real.max() >= limit):
        raise ValueError(f"{name} must be tokens from 0 on, of 32 bits, found {real.min():,} to {real.max():,}")
    if np.any(filled[:, :-1] & ~filled[:, 1:]):
        row = int(np.argmax(np.any(filled[:, :-1] & ~filled[:, 1:], axis=1)))
        raise ValueError(f"{name} must be filled up at the end alone, found padding before a token in row {row}")
    if np.any(filled[:, 1]):
        raise ValueError(
            f"every window of {name} needs two tokens or more, found fewer in row {int(np.argmax(filled[:, 1]))}"
        )
    return np.where(filled, NOTHING, whole).astype(np.int32)


def coder(vocabulary: Any) -> tuple[Encode, int | None]:
    """What makes tokens of a text, and how many there are; None where nothing says so."""
    if vocabulary is None:
        vocabulary = string.printable
    if isinstance(vocabulary, str):
        places = {character: place for place, character in enumerate(dict.fromkeys(vocabulary), start=1)}
        return lambda text: [places.get(character, 0) for character in text], len(places) + 1
    encode = getattr(vocabulary, "encode", vocabulary)
    if not callable(encode):
        raise ValueError(
            f"vocabulary of texts must be characters, a function or a tokeniser, found {shown(vocabulary)}"
        )
    counts = (getattr(vocabulary, name, None) for name in ("get_vocab_size", "vocab_size", "n_vocab"))
    size = next((count() if callable(count) else count for count in counts if count is not None), None)

    def ids(text: str) -> Sequence[int]:
        said = encode(text)
        return getattr(said, "ids", said)

    return ids, size


def cut(texts: Iterable[str], owners: Iterable[Any], encode: Encode, length: int) -> tuple[Array, Array]:
    """Texts in windows of length + 1 tokens that share none, and whose each is; what is left at an end is filled up."""
    windows, clients = [np.zeros((0, length + 1), np.int32)], []
    for text, owner in zip(texts, owners, strict=True):
        ids = np.asarray(encode(text), np.int64)
        if ids.size and (ids.ndim != 1 or ids.min() < 0 or ids.max() >= np.iinfo(np.int32).max):
            raise ValueError(f"a vocabulary must make a list of tokens from 0 on of a text, found {shown(ids)}")
        if len(ids) % (length + 1) == 1:
            ids = ids[:-1]  # one token alone predicts nothing
        cut = np.full((-(-len(ids) // (length + 1)), length + 1), NOTHING, np.int32)
        cut.reshape(-1)[: len(ids)] = ids
        windows.append(cut)
        clients += [owner] * len(cut)
    return np.concatenate(windows), np.asarray(clients)


def pair(windows: Array) -> tuple[Array, Array]:
    """What a model sees and what it is to say: the same tokens, one place apart."""
    return np.maximum(windows[:, :-1], 0), windows[:, 1:]


def shares(said: Array) -> Array:
    """How much each window counts in a mean over tokens."""
    counts: Array = np.sum(said != NOTHING, axis=1)
    return counts / counts.sum()

"""Labels that are names, as numbers: in sorted order, or in an order that is given."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from hush.core.check import shown
from hush.tasks.given import MANY_CLASSES

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Numbering:
    """Which label is which number. Without names, labels are numbers already, and stay as they are."""

    names: tuple[Any, ...] | None = None
    has_names: bool = False  # whether the labels are the names themselves, not their numbers
    grows: bool = False  # whether a test may bring classes that no training example has
    of_labels: bool = True  # and not of a regression's numbers

    def __call__(self, name: str, labels: Any) -> Any:
        """Labels as numbers; numbers as they are, but none that has no name."""
        if not self.of_labels:
            return labels
        found = _as_found(name, labels)
        if self.names is None or not self.has_names:
            if found is not None and _is_named(found):
                raise ValueError(f"{name} must be numbers, as y's labels are, found text or objects ({found.dtype})")
            self._check_named(name, found)
            return labels if found is None else found
        if found is None or not _is_named(found):
            raise ValueError(f"{name} must be of the names that y's labels are, found numbers")
        numbers = {label: number for number, label in enumerate(self.names)}
        if unknown := [label for label in _different(name, found) if label not in numbers]:
            raise ValueError(f"{name} must be among the classes {shown(self.names)}, found {shown(unknown)}")
        return np.array([numbers[label] for label in found.tolist()], np.int64)

    def _check_named(self, name: str, found: Array | None) -> None:
        if self.names is None or found is None or found.dtype.kind not in "iuf" or not found.size:
            return
        if found.max() >= len(self.names):
            raise ValueError(
                f"{name} must be labels below {len(self.names)}, the number of classes that have names, "
                f"found {shown(found.max())}"
            )

    def extended(self, name: str, labels: Any) -> "Numbering":
        """With the classes that only a test has behind the others, where there may be such."""
        found = _as_found(name, labels)
        if self.names is None or not self.grows or found is None or not _is_named(found):
            return self
        unseen = [label for label in _different(name, found) if label not in set(self.names)]
        return replace(self, names=(*self.names, *unseen))


def numbering(name: str, labels: Any, kind: str, classes: Sequence[Any] | None = None) -> Numbering:
    """How labels are numbered: names by sorted order, or by their place among `classes`; numbers not at all."""
    if kind == "regression":
        if classes is not None:
            raise ValueError(f"classes are of labels, found {shown(classes)} for kind='regression'")
        return Numbering(of_labels=False)
    found = _as_found(name, labels)
    named = found is not None and _is_named(found)
    if classes is None and not named:
        return Numbering()
    names = tuple(_different(name, found)) if classes is None and found is not None else _given(classes)
    if kind == "binary" and len(names) != 2:
        raise ValueError(f"{name} must have two different labels for kind='binary', found {len(names)}: {shown(names)}")
    if named and found is not None and len(names) > max(MANY_CLASSES, len(found) // 2):
        raise ValueError(f"{name} must be names of classes, found {len(names):,} different in {len(found):,} examples")
    return Numbering(names, named, grows=classes is None and kind == "classification")


def _given(classes: Any) -> tuple[Any, ...]:
    if isinstance(classes, str) or not isinstance(classes, Sequence | np.ndarray) or len(classes) == 0:
        raise ValueError(f"classes must be a list of names, found {shown(classes)}")
    names = tuple(classes.tolist() if isinstance(classes, np.ndarray) else classes)
    if not all(isinstance(name, Hashable) for name in names) or len(set(names)) != len(names):
        raise ValueError(f"classes must be different names, found {shown(names)}")
    return names


def _as_found(name: str, labels: Any) -> Array | None:
    """Labels as a list of numbers or of names, none missing; None for what is neither, and is refused elsewhere."""
    try:
        found = np.asarray(labels)
    except (TypeError, ValueError):  # ragged
        return None
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim != 1:
        return None
    if found.dtype.kind == "S":
        return np.char.decode(found)
    if found.dtype.kind != "O":
        return found
    if missing := int(np.sum(pd.isna(found))):
        raise ValueError(f"{name} must have a label for each example, found none for {missing} of {len(found)}")
    if all(isinstance(label, Real) for label in found):
        return np.array(found.tolist())
    return found


def _is_named(found: Array) -> bool:
    return found.dtype.kind in "UTO"


def _different(name: str, found: Array) -> list[Any]:
    """The different labels, sorted."""
    try:
        return sorted(set(found.tolist()))
    except TypeError as error:
        kinds = ", ".join(sorted({type(label).__name__ for label in found.tolist()}))
        raise ValueError(f"{name} must be labels of one kind that can be sorted, found {kinds}: {error}") from error

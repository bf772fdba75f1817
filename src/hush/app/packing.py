"""`hush data`: files packed into a store, and what one holds."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hush.app.tables import print_table
from hush.core.memory import in_words
from hush.data.stores import Facts, Store
from hush.runs.progress import Stages
from hush.tasks import pack_files

SECONDS_BETWEEN_LINES = 10.0  # where there is no terminal
MANY = 12  # names that are listed


def listed(text: str | None) -> list[str] | None:
    """Names with commas between."""
    return None if text is None else [name.strip() for name in text.split(",")]


def numbers(text: str | None) -> list[int] | None:
    """Whole numbers with commas between."""
    if text is None:
        return None
    try:
        return [int(number) for number in text.split(",")]
    except ValueError as error:
        raise ValueError(f"--shape must be whole numbers with commas between, such as 28,28, found {text!r}") from error


def pack(sources: Sequence[Path], folder: Path, options: Mapping[str, Any], force: bool, quiet: bool) -> None:
    """Pack files, and say what became of them."""
    with Stages(1.0, "looking", enabled=not quiet) as stages:

        def display(doing: str, done: int, of: int) -> None:
            said, now = f"{done:,}" + (f" of {of:,}" if of else ""), int(time.monotonic() / SECONDS_BETWEEN_LINES)
            stages.show(done / of if of else 0.0, doing, said, news=now)

        store = pack_files(sources, folder, force=force, on_progress=display, **options)
    if not quiet:
        _print(store)


def show(folder: Path, check: bool) -> None:
    """What a store holds, and whether it is as it was written."""
    store = Store(folder)
    if check:
        store.check()
    _print(store)
    if check:
        print("all examples are as they were written")


def _print(store: Store) -> None:
    print_table(("", ""), list(_facts(store, store.facts).items()), str(store.folder))


def _facts(store: Store, facts: Facts) -> dict[str, str]:
    sizes = np.asarray(store.sizes)
    found = {
        "clients": f"{facts.clients:,}{_listed(store.names(), ': ')}",
        "examples": f"{facts.examples:,}",
        "of a client": f"{sizes.min():,} to {sizes.max():,}, half of them at most {int(np.median(sizes)):,}",
        "test examples": f"{facts.test:,}",
        "x": str(facts.x),
        "y": f"{facts.y}, for {facts.kind}",
    }
    if facts.kind == "classification":
        found["classes"] = f"{facts.outputs:,}{_listed(facts.classes, ': ')}"
    if facts.features is not None:
        found["features"] = f"{len(facts.features):,}{_listed(facts.features, ': ')}"
    if facts.from_data:
        found["found in the data"] = "names of classes or categories"
    found["files"] = f"{len(facts.files) + 1:,}, {in_words(sum(facts.files.values()))}"
    return found | {"digest": facts.digest}


def _listed(names: Sequence[Any] | None, before: str) -> str:
    if names is None:
        return ""
    more = f", … {names[-1]}" if len(names) > MANY else ""
    return before + ", ".join(map(str, names[:MANY])) + more

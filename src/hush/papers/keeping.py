"""Runs that are made once: each is written to a run folder as it ends, and read from there the next time.

A run is known again by all that it depends on: every setting of the algorithm, the values of its schedules, every byte
of the data, the model, and how the one is run on the other. What a key gives is among it, so that a run is made anew
where hush would draw otherwise, and so is the version of hush; a change to what a piece computes is not, and asks for
`fresh`.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

from hush.core.algorithm import Algorithm, InTurn
from hush.core.keys import at, root
from hush.core.problem import Problem
from hush.papers.writing import Section
from hush.runs.errors import Diverged
from hush.runs.loading import load
from hush.runs.result import Result, write_all
from hush.runs.run import run
from hush.store import RunFolder
from hush.store.fingerprint import fingerprint
from hush.store.reading import load_status
from hush.tasks.classes import class_counts, class_names
from hush.version import __version__

Say = Callable[[str], None]
ENDED = ("finished", "diverged")
READ, MADE = "read", "made"
# A step size counts to 12 bits, since machines differ in its last; at so few counts that hardly ever one is on an edge.
DIGITS, COUNTS = 2**12, np.r_[np.arange(8), 2 ** np.arange(3, 16)]


def mark(algorithm: Algorithm | InTurn, problem: Problem, options: dict[str, Any]) -> str:
    """A short name of all that a run depends on."""
    about = options | {"hush": __version__, "draws": np.asarray(jax.random.bits(at(root(0), "mark", 1), (4,)))}
    found = fingerprint(algorithm, problem, about)
    digest = hashlib.blake2b(json.dumps(found.texts, sort_keys=True).encode(), digest_size=6)
    for name, values in sorted(found.values.items()):
        mantissa, exponent = np.frexp(values[COUNTS])
        digest.update(name.encode() + np.round(DIGITS * mantissa).tobytes() + exponent.tobytes())
    return digest.hexdigest()


def has_ended(folder: Path) -> bool:
    """Whether a folder holds a run that came to its end."""
    return load_status(folder).get("status") in ENDED


@dataclass
class Runs:
    """The runs of one page, in folders under `folder`, or in memory alone where there is none."""

    folder: Path | None = None
    fresh: bool = False  # whether runs that are kept are made anew
    say: Say = print
    long: bool = False  # whether runs of an hour are made on a CPU, too
    published: Path | None = None  # where what a page needs of long runs goes, and is read where they are not kept
    came: list[tuple[str, str, str]] = field(default_factory=list)  # name, mark, and whether it was read or made
    _here: dict[str, Result] = field(default_factory=dict)

    def __call__(
        self, name: str, algorithm: Algorithm | InTurn, problem: Problem, rounds: int | None, **options: Any
    ) -> Result:
        """The run of these settings: from memory, from its folder, or made now. One that diverged is a result too."""
        known = mark(algorithm, problem, options | {"rounds": rounds})
        if known not in self._here:
            folder = None if self.folder is None else self.folder / known
            if folder is not None and not self.fresh and has_ended(folder):
                self._here[known] = load(folder, problem).result
                self.note(name, known, READ)
            else:
                self.say(name)
                self._here[known] = _made(algorithm, problem, rounds, options)
                if folder is not None:
                    _write(self._here[known], folder)
                self.note(name, known, MADE)
        return self._here[known]

    def note(self, name: str, known: str, how: str) -> None:
        """Say in the page where a run came from."""
        self.came.append((name, known, how))

    @property
    def words(self) -> str:
        """How many runs there are, and how long they took when they were made."""
        read = sum(how == READ for *_, how in self.came)
        part = "all" if read == len(self.came) else str(read)
        said = f"{len(self.came)} runs" + (f", {part} of them made earlier and read here" if read else "")
        took = sum(float(each.state["seconds"]) for each in self._here.values())
        return f"{said}; making them took {took:.0f} s in all" if self._here else said

    def section(self) -> Section:
        """Every run by its name, the mark it is kept under, and whether it was read or made."""
        text = (
            "Each run is kept when it ends, and is read the next time if its settings are the same; `--fresh` makes "
            "all of them anew."
        )
        return Section("Runs", text, [("", pd.DataFrame(self.came, columns=["run", "kept as", "was"]))])


def _made(algorithm: Algorithm | InTurn, problem: Problem, rounds: int | None, options: dict[str, Any]) -> Result:
    try:
        return run(algorithm, problem, rounds, progress=False, **options)
    except Diverged as error:
        return error.result


def _write(result: Result, folder: Path) -> None:
    """The run without its report, which `hush report` can write later."""
    with RunFolder(folder) as files:
        files.begin(result.settings, class_counts(result.problem), class_names(result.problem), replace=True)
        write_all(files, result, pages=False)

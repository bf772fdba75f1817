"""How a run is getting on: a live line on a terminal or in a notebook, plain lines elsewhere.

It is never a reason for a run to fail.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self, TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from hush.core.columns import COLUMNS
from hush.report import formatting

SECONDS_BETWEEN_LINES = 1.0
SECONDS_BETWEEN_LOOKS = 0.25  # where a line takes the place of the last


class Forgiving:
    """A stream that drops what it cannot write: rich would leave the program, or fail in a thread of its own."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(Exception):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(Exception):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Display:
    """Shows rounds, loss, accuracy, bits and the time left; `enabled=False` shows nothing."""

    def __init__(self, rounds: int, *, start: int = 0, stream: Any = None, enabled: bool = True) -> None:
        self.rounds, self.start = rounds, start
        self._stream: TextIO | None = stream if stream is not None else _usual_stream()
        self._rewrites = in_notebook(self._stream)
        self._width = 0  # of the line that the next one takes the place of
        self._shown = enabled and self._stream is not None
        self._live: Progress | None = None
        self._round = start
        self._began: tuple[int, float] | None = None  # the round and time to reckon speed from
        self._last_line = -SECONDS_BETWEEN_LINES
        self._withheld: str | None = None
        self._numbers = ""

    def __enter__(self) -> Self:
        if is_terminal(self._stream):
            self._safely(self._begin)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._safely(self._refresh)
            self._stop()
        elif self._withheld is not None:
            self._safely(self._line, self._withheld)
        self._safely(self._leave_line)

    def update(self, round: int, row: Mapping[str, float] | None = None) -> None:
        """So many rounds are done; `row` is what was measured, if it was."""
        self._round = round
        if self._began is None:  # the first report comes after compiling, which says nothing about speed
            self._began = (round, time.monotonic())
        if row is not None:
            self._safely(self._note, row)
        self._safely(self._refresh) if self._live is not None else self._safely(self._report, row is not None)

    def message(self, text: str) -> None:
        """Something to say beside the numbers."""
        if self._live is not None:
            self._safely(self._live.console.print, Text(text))
        else:
            self._safely(self._line, text)
            self._safely(self._leave_line)

    def _safely(self, action: Callable[..., object], *arguments: Any) -> None:
        """A terminal that went away, or cannot show a character, ends the display and not the run."""
        if not self._shown:
            return
        try:
            action(*arguments)
        except Exception:
            self._shown = False
            self._stop()

    def _begin(self) -> None:
        stream = cast(TextIO, Forgiving(self._stream))
        console = Console(file=stream, force_terminal=True, force_jupyter=False, markup=False, highlight=False)
        live = Progress(
            TextColumn("round {task.completed:,.0f}/{task.total:,.0f}", style="bold"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[numbers]}", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}", style="dim", markup=False),
            console=console,
        )
        live.add_task("rounds", total=self.rounds, completed=self.start, numbers="", left="")
        self._live = live
        live.start()

    def _refresh(self) -> None:
        if self._live is not None:
            left = self._left()
            fields: dict[str, Any] = {"numbers": self._numbers, "left": f"{left} left" if left else ""}
            self._live.update(self._live.task_ids[0], total=self.rounds, completed=self._round, **fields)

    def _stop(self) -> None:
        """Give the terminal back as it was: the cursor shown, and the standard streams not redirected."""
        live, self._live = self._live, None
        if live is None:
            return
        with contextlib.suppress(Exception):
            live.stop()

    def _note(self, row: Mapping[str, float]) -> None:
        shown = (each for each in COLUMNS if each.short and each.name in row)
        parts = (f"{each.short} {formatting.in_words(each.name, float(row[each.name]))}" for each in shown)
        self._numbers = "  ".join(parts)

    def _report(self, evaluated: bool) -> None:
        if not evaluated and not self._rewrites:
            return
        left = self._left()
        line = f"round {self._round}/{self.rounds}  {self._numbers}" + (f"  {left} left" if left else "")
        pause = SECONDS_BETWEEN_LOOKS if self._rewrites else SECONDS_BETWEEN_LINES
        soon = time.monotonic() - self._last_line < pause
        if soon and self._round < self.rounds:
            self._withheld = line  # said at the end, if nothing newer is
            return
        self._line(line)
        self._last_line, self._withheld = time.monotonic(), None

    def _left(self) -> str:
        """The time left, if enough is known to say."""
        if self._began is None or self._round <= self._began[0] or self._round >= self.rounds:
            return ""
        spent = time.monotonic() - self._began[1]
        return formatting.seconds(spent / (self._round - self._began[0]) * (self.rounds - self._round))

    def _line(self, line: str) -> None:
        assert self._stream is not None
        if self._rewrites:
            line, self._width = "\r" + line.ljust(self._width), len(line)
        self._stream.write(line if self._rewrites else line + "\n")
        self._stream.flush()

    def _leave_line(self) -> None:
        """What stands on the line stays; the next begins below it."""
        if self._width and self._stream is not None:
            self._stream.write("\n")
            self._width = 0


class Stages:
    """Something that goes through stages: the stage, a bar and some words, live; elsewhere a line where they change."""

    def __init__(self, total: float, first: str = "", *, stream: Any = None, enabled: bool = True) -> None:
        self._stream: TextIO | None = stream if stream is not None else sys.stderr
        self._shown = enabled and self._stream is not None
        self._total, self._first = total, first
        self._said: tuple[str, Any] = ("", "")
        self._live: Progress | None = None

    def __enter__(self) -> Self:
        if self._shown and is_terminal(self._stream):
            stream = cast(TextIO, Forgiving(self._stream))
            self._live = Progress(
                TextColumn("{task.fields[stage]}", style="bold", markup=False),
                BarColumn(bar_width=20),
                TextColumn("{task.fields[words]}", markup=False),
                TimeElapsedColumn(),
                console=Console(file=stream, force_terminal=True, markup=False, highlight=False),
            )
            self._live.add_task("stages", total=self._total, stage=self._first, words="")
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, completed: float, stage: str, words: str, before: str = "", news: Any = None) -> None:
        """It has come so far. A plain line begins with `before`, and is said where the stage or the `news` change."""
        now = (stage, words if news is None else news)
        if self._live is not None:
            self._live.update(self._live.task_ids[0], completed=completed, stage=stage, words=words)
        elif self._shown and now != self._said:
            Forgiving(self._stream).write(f"{before}{stage}: {words}\n")
        self._said = now


def _usual_stream() -> TextIO | None:
    """Standard error; in a notebook standard output, for the other is shown there as something gone wrong."""
    error: TextIO | None = sys.stderr  # none under pythonw
    return sys.stdout if in_notebook(error) and in_notebook(sys.stdout) else error


def in_notebook(stream: Any) -> bool:
    """Whether a stream is that of a Jupyter kernel, which shows a line again after a carriage return."""
    return type(stream).__module__.partition(".")[0] == "ipykernel"


def is_terminal(stream: Any) -> bool:
    if os.environ.get("TERM") == "dumb":  # cannot move its cursor
        return False
    try:
        return bool(stream.isatty())
    except Exception:  # closed, or not quite a stream
        return False

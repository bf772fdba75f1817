"""How a plan is getting on: a live line on a terminal, a plain line for each new best elsewhere."""

import sys
from types import TracebackType
from typing import Any, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from hush.plans.search import Search
from hush.runs.progress import Forgiving, is_terminal


class Race:
    """Shows the stage, how many candidates were tried, and the best so far."""

    def __init__(self, seconds: float, enabled: bool = True, stream: Any = None) -> None:
        self._stream: TextIO | None = stream if stream is not None else sys.stderr
        self._seconds, self._enabled = seconds, enabled and self._stream is not None
        self._live: Progress | None = None
        self._said = ("", 0.0)

    def __enter__(self) -> Self:
        if self._enabled and is_terminal(self._stream):
            console = Console(file=Forgiving(self._stream), force_terminal=True, markup=False, highlight=False)  # type: ignore[arg-type]
            self._live = Progress(
                TextColumn("{task.fields[stage]}", style="bold", markup=False),
                BarColumn(bar_width=20),
                TextColumn("{task.fields[best]}", markup=False),
                TimeElapsedColumn(),
                console=console,
            )
            self._live.add_task("plan", total=self._seconds, stage="compiling", best="")
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, search: Search) -> None:
        """The search has come so far."""
        if not self._enabled or not search.arms:
            return
        best = search.ranked()[0]
        words = f"{len(search.arms)} tried, best {abs(best.value):.4g}: {best.candidate.name}"
        if self._live is not None:
            self._live.update(self._live.task_ids[0], completed=search.used, stage=search.stage, best=words)
        elif (search.stage, best.value) != self._said:
            Forgiving(self._stream).write(f"{search.used:4.0f} s  {search.stage}: {words}\n")
        self._said = (search.stage, best.value)

"""Telling others of a run as it goes: a callback after each evaluation, which may be a tracker to open and close.

What an evaluation has found is written before anybody is told. A callback that fails stops the run, loudly, with all
that was computed in the folder and in the error.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from hush.runs.errors import CallbackFailed
from hush.runs.result import Result
from hush.runs.spending import Spending
from hush.store.folder import Row


class Evaluation(NamedTuple):
    """One evaluation of a run, as `on_evaluate` is told of it."""

    round: int
    rows: list[Row]  # a row of the records for each lane: repetition, swept settings, measures, totals
    settings: dict[str, Any]  # all that was asked for, as in settings.toml
    privacy: str  # what must stand beside the ε of the rows, or why there is none
    folder: Path | None


OnEvaluate = Callable[[Evaluation], object]


def name_of(callback: OnEvaluate) -> str:
    """What a callback is called in an error."""
    return str(getattr(callback, "__qualname__", type(callback).__qualname__))


def check(callback: Any) -> None:
    """Refuse what cannot be called."""
    if callback is not None and not callable(callback):
        raise ValueError(f"on_evaluate must be a function of an evaluation, found {type(callback).__name__}")


def accompanied(callback: OnEvaluate | None, run: Callable[[], Result]) -> Result:
    """Run with a callback open, where it can be opened; whatever it does when it is closed, the result is not lost."""
    opened: Any = callback
    if callback is None or not isinstance(opened, AbstractContextManager):
        return run()
    opened.__enter__()
    try:
        result = run()
    except BaseException as error:
        try:
            opened.__exit__(type(error), error, error.__traceback__)
        except Exception as another:  # what ended the run says more
            error.add_note(f"and {name_of(callback)} could not be closed: {_in_words(another)}")
        raise
    try:
        opened.__exit__(None, None, None)
    except Exception as error:
        message = f"the run has ended well, but {name_of(callback)} could not be closed: {_in_words(error)}"
        raise CallbackFailed(message, result) from error
    return result


def failed(callback: OnEvaluate, error: Exception, round: int) -> str:
    """What is said of a callback that failed."""
    return f"stopped at round {round}: on_evaluate failed in {name_of(callback)}: {_in_words(error)}"


def beside_epsilon(spending: Spending) -> str:
    """What an ε of the records means nothing without."""
    if not spending:
        return f"no privacy guarantee: {spending.reason}"
    table = spending.lanes[0].table(spending.delta)
    lanes = len(spending.lanes)
    of_one = "" if lanes == 1 else f" of one lane; all {lanes} together cost more"
    trusted = table["who is trusted"].partition(":")[0]
    protected = table["what is protected"]
    return f"ε of the worst client{of_one}, at δ = {spending.delta:g}; protected is {protected}, trusted is {trusted}"


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

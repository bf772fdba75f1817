"""How commands end: a code for each kind of failure, and one line that says what happened."""

import functools
import signal
import sys
import traceback
from collections.abc import Callable
from typing import ParamSpec

import typer

from hush.extras import MissingExtra
from hush.stopping import listening

P = ParamSpec("P")

BAD_SETTINGS, DIVERGED, NO_DATA, NOT_WRITTEN, NOT_READ, NOT_INSTALLED, INTERRUPTED = 2, 3, 4, 5, 6, 7, 130
REFUSED, LOST = 8, 9
REFUTED = DIVERGED  # an audit does not diverge, nor is a run refuted: either way, what was hoped for is not so

CODES = {
    0: "fine",
    BAD_SETTINGS: "bad usage or settings",
    DIVERGED: "training diverged: every repetition met a number that is not finite; of hush audit: an ε is refuted",
    NO_DATA: "data unavailable: neither on this machine nor to be downloaded now",
    NOT_WRITTEN: "could not write",
    NOT_READ: "a file of a run, or of a store, is missing or damaged",
    NOT_INSTALLED: "an extra is not installed; the error names it",
    REFUSED: "the server refused this device, or was away for too long; or this device refused the server",
    LOST: "another process of this run has failed or is gone; hush resume goes on",
    INTERRUPTED: "interrupted; hush resume goes on (143 if by SIGTERM, 129 if by SIGHUP)",
}

# Errors of modules that are imported only when they are needed.
LATER = {
    ("hush.runs.errors", "Diverged"): DIVERGED,
    ("hush.runs.errors", "CallbackFailed"): NOT_WRITTEN,
    ("hush.data.download", "DataUnavailable"): NO_DATA,
    ("hush.data.stores.facts", "Damaged"): NOT_READ,
    ("hush.store.reading", "Unreadable"): NOT_READ,
    ("hush.execution.words", "HostLost"): LOST,
    ("hush.network.guard", "Refused"): REFUSED,
    ("hush.network.link", "Barred"): REFUSED,
    ("hush.network.link", "Lost"): REFUSED,
}

EPILOGUE = "\n".join(["[bold]Exit codes[/bold]", *(f"{code:>3}  {meaning}" for code, meaning in CODES.items())])

_tracebacks = [False]


def show_tracebacks(shown: bool) -> None:
    """Whether an error is shown with the place in the program where it arose."""
    _tracebacks[0] = shown


def complain(message: str) -> None:
    """One red line."""
    from rich.console import Console
    from rich.text import Text

    line = Text.assemble(("error: ", "bold red"), (" ".join(message.split()), "red"))
    Console(stderr=True).print(line, soft_wrap=True)


def code_of(error: BaseException) -> int | None:
    """The exit code for an error that is the user's to mend; None for one that is ours."""
    if isinstance(error, KeyboardInterrupt):
        with listening() as stopping:
            return 128 + (getattr(error, "signal", 0) or stopping.signal or signal.SIGINT)
    # What a module that was never imported defines cannot have been raised: no need to wait for the import.
    for (module, name), code in LATER.items():
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(error, kind):
            return code
    if isinstance(error, MissingExtra):
        return NOT_INSTALLED
    if isinstance(error, OSError):  # whoever reads says so in an error of its own
        return NOT_WRITTEN
    return BAD_SETTINGS if isinstance(error, ValueError) else None


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"could not write {error.filename or ''}: {error.strerror}"
    return str(error) or ("interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__)


def plainly(command: Callable[P, None]) -> Callable[P, None]:
    """A command whose failures are told in one line, and by its exit code."""

    @functools.wraps(command)
    def wrapped(*arguments: P.args, **keywords: P.kwargs) -> None:
        try:
            command(*arguments, **keywords)
        except typer.Exit:
            raise
        except BrokenPipeError:  # whoever reads our output has seen enough
            sys.stderr.close()
            raise typer.Exit(0) from None
        except (Exception, KeyboardInterrupt) as error:
            code = code_of(error)
            if code is None:
                raise
            if _tracebacks[0]:
                traceback.print_exc()
            complain(_message(error))
            raise typer.Exit(code) from None

    return wrapped

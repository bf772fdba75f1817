"""What process 0 says to the others: values, and errors that are theirs too, through the store of names and values."""

import json
from typing import Any

from hush.execution.watch import GONE, Watch

MILLISECONDS_BETWEEN_LOOKS = 1000
# Messages so far behind have been read by all: between two blocks of rounds every process waits for every other.
KEPT_MESSAGES = 1000


class HostLost(RuntimeError):
    """Another process of the run has failed, or is gone. A run folder can be resumed, by any number of processes."""


def say(watch: Watch, name: str, message: dict[str, Any]) -> None:
    """Put a message where the others look for it: under a name that ends with its number."""
    watch.client.key_value_set(name, json.dumps(message))
    start, _, number = name.rpartition("/")
    if int(number) >= KEPT_MESSAGES:
        watch.client.key_value_delete(f"{start}/{int(number) - KEPT_MESSAGES}")


def hear(watch: Watch, name: str) -> Any:
    """Wait for what process 0 says, for as long as all processes live; an error of its is raised here too."""
    while True:
        try:
            message = json.loads(watch.client.blocking_key_value_get(name, MILLISECONDS_BETWEEN_LOOKS))
            break
        except RuntimeError as error:
            if watch.bad_news:
                raise HostLost(watch.bad_news) from error
            if "DEADLINE_EXCEEDED" not in str(error):
                raise HostLost(GONE) from error
    if "error" in message:
        kind, arguments = message["error"]
        raise KINDS[kind](*arguments)
    return message["value"]


KINDS: dict[str, type[Exception]] = {"OSError": OSError, "ValueError": ValueError, "RuntimeError": RuntimeError}


def in_words(error: Exception) -> tuple[str, list[Any]]:
    """An error, so that another process can raise one like it.

    >>> in_words(ZeroDivisionError("division by zero"))
    ('RuntimeError', ['ZeroDivisionError: division by zero'])
    """
    if isinstance(error, OSError) and error.strerror:
        return "OSError", [error.errno, error.strerror, None if error.filename is None else str(error.filename)]
    for name in ("OSError", "ValueError"):
        if isinstance(error, KINDS[name]):
            return name, [str(error)]
    return "RuntimeError", [f"{type(error).__name__}: {error}"]

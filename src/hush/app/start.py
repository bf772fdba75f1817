"""Where the command begins: it listens to signals before anything else, for imports alone take a second."""

import sys

from hush.stopping import StopRequested, listening


def main() -> None:
    """The entry point."""
    try:
        with listening(leave=True):
            from hush.app.main import main as command

            command()
    except StopRequested as request:
        _leave(128 + request.signal)
    except SystemExit as end:
        _leave(end.code)


def _leave(code: int | str | None) -> None:
    """With this code, should the process also be one of several that others do not wait for."""
    from hush.app.processes import remember_code

    remember_code(code)
    sys.exit(code)


if __name__ == "__main__":
    main()

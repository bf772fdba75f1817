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
        sys.exit(128 + request.signal)


if __name__ == "__main__":
    main()

"""Where the command begins: it listens to signals before anything else, for imports alone take a second."""

import sys

from hush.stopping import Told, listening


def main() -> None:
    """The entry point."""
    try:
        with listening(leave=True):
            from hush.app.main import main as command

            command()
    except Told as told:
        sys.exit(128 + told.signal)


if __name__ == "__main__":
    main()

"""Where the command begins: it listens to signals before anything else, for imports alone take a second."""

import sys

from hush.stopping import listening


def main() -> None:
    """The entry point."""
    with listening(leave=True) as stopping:
        try:
            from hush.app.main import main as command

            command()
        except KeyboardInterrupt:
            sys.exit(128 + stopping.signal)


if __name__ == "__main__":
    main()

"""Makes the peers' virtual environments under ``benchmarks/.venvs``, each from its pinned requirement file.

    python benchmarks/environments.py            # make or update all
    python benchmarks/environments.py fedjax     # only this one

Peers need versions that contradict ours and each other's, so each has an environment of its own. An
environment is made again only when its requirement file has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = ("pfl", "fedjax", "opacus")


class EnvironmentFailed(RuntimeError):
    """An environment could not be made; the message is the reason, short enough for a table."""


def python_of(name: str) -> Path:
    """The interpreter of the environment called ``name``; "hush" is the one that runs this file."""
    if name == "hush":
        return Path(sys.executable)
    return HERE / ".venvs" / name / "bin" / "python"


def ensure(name: str) -> Path:
    """Makes the environment called ``name`` if it is missing or out of date, and returns its interpreter."""
    python = python_of(name)
    if name == "hush":
        return python
    if name not in ENVIRONMENTS:
        raise ValueError(f"unknown environment {name!r}; choose one of {', '.join(ENVIRONMENTS)}")
    requirements = HERE / f"requirements-{name}.txt"
    # The stamp is written last, so an interrupted installation is simply done again.
    stamp = HERE / ".venvs" / name / "requirements.sha256"
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"making benchmarks/.venvs/{name} from {requirements.name}", file=sys.stderr, flush=True)
    venv.create(HERE / ".venvs" / name, with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--requirement", str(requirements)]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    if completed.returncode != 0:
        errors = [line for line in completed.stderr.splitlines() if line.startswith("ERROR")]
        raise EnvironmentFailed(f"not installed: {errors[0] if errors else 'pip failed'}")
    stamp.write_text(wanted)
    return python


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"which of {', '.join(ENVIRONMENTS)} (default: all)")
    for name in parser.parse_args().names or ENVIRONMENTS:
        try:
            print(f"{name}: {ensure(name)}")
        except (EnvironmentFailed, ValueError) as error:
            sys.exit(f"{name}: {error}")


if __name__ == "__main__":
    main()

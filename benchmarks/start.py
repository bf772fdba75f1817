"""How soon a run starts: from its imports to the end of its first round, without compiled programs and with them.

    python benchmarks/start.py [SETTINGS.toml …]

Without a file: the default settings, and those of the demo. Each is run three times in processes of their own: with
nothing kept, then twice with what the one before has kept. Times are seconds on the clock, and of the processor in
brackets.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHILD = """
import sys, time
from pathlib import Path
clocks = [(time.perf_counter(), time.process_time())]
from hush.app import commands
from hush.execution.simulation import Simulation
clocks.append((time.perf_counter(), time.process_time()))
advance = Simulation.advance

def timed(self, rounds, *limits):
    done = advance(self, rounds, *limits)
    if rounds and len(clocks) == 2:
        clocks.append((time.perf_counter(), time.process_time()))
    return done

Simulation.advance = timed
settings = Path(sys.argv[1]) if sys.argv[1] else None
here = {"out": Path(sys.argv[2]) / "run", "force": False, "through_bytes": False, "track": None, "quiet": True}
commands.run(settings, [], {"rounds": 2}, **here)
for before, after in zip(clocks, clocks[1:]):
    print(*(b - a for a, b in zip(before, after)))
"""


def measured(settings: str, cache: str) -> list[str]:
    """The time of the imports, and from there to the end of the first round."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", CHILD, settings, folder]
        environment = os.environ | {"HUSH_COMPILATION_CACHE": cache}
        told = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    return ["{:.2f} ({:.2f})".format(*map(float, line.split())) for line in told.splitlines()]


LANES = """
import time
import numpy as np
import hush
draws = np.random.default_rng(0)
problem = hush.tasks.quadratic(draws.normal(size=(4, 5, 3)), draws.normal(size=(4, 5)))
begin = time.perf_counter()
result = hush.run(hush.fedavg(2, steps=1, lr=0.01), problem, 2, repetitions=100_000, evaluate_every=2, progress=False)
print(time.perf_counter() - begin, result.status["compile_seconds"])
"""


def many_lanes() -> str:
    """The time of 100,000 repetitions of a small problem, with nothing kept."""
    environment = os.environ | {"HUSH_COMPILATION_CACHE": "off"}
    command = [sys.executable, "-c", LANES]
    told = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    return "100,000 repetitions: {:.1f} s, of them compiling {:.1f}".format(*map(float, told.split()))


def main() -> None:
    asked = sys.argv[1:] or ["", *map(str, sorted((ROOT / "examples/demo").glob("*.toml")))]
    print("| settings | imports | first round, nothing kept | the second time | the third |\n|---|---|---|---|---|")
    for settings in asked:
        with tempfile.TemporaryDirectory() as cache:
            found = [measured(settings, cache) for _ in range(3)]
        first, second, third = (after for _, after in found)
        print(f"| {Path(settings).stem or 'default'} | {found[1][0]} | {first} | {second} | {third} |", flush=True)
    print(many_lanes())


if __name__ == "__main__":
    main()

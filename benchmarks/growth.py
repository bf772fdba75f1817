"""How time and memory grow with clients per round, population, repetitions and parameters.

    python benchmarks/growth.py            the whole table (about five minutes)
    python benchmarks/growth.py population only that one

Each point runs in a process of its own, so that its peak memory is its own. "Growth" is the exponent of time between
the first and the last point, on logarithmic scales: 1 is linear, 0 is free.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from pathlib import Path

SERIES = {
    "clients per round": ("cohort", (10, 100, 1000)),
    "population": ("population", (100, 1_000, 10_000, 100_000)),
    "repetitions": ("repetitions", (1, 4, 32)),
    "parameters": ("hidden", (20, 200, 2000)),
}
EXAMPLES = 100_000  # in all: a larger population cuts the same data finer


def point(cohort: int = 10, population: int = 1000, repetitions: int = 1, hidden: int = 0) -> dict:
    """Seconds for one round and the peak memory of one setting."""
    import numpy as np

    import hush
    from hush.execution.simulation import Simulation

    draws = np.random.default_rng(0)
    images = draws.integers(0, 256, (EXAMPLES, 28, 28, 1), dtype=np.uint8)
    labels = draws.integers(0, 10, EXAMPLES)
    model = {"model": "mlp", "model_options": {"hidden": hidden}} if hidden else {"model": "softmax"}
    ids = np.arange(EXAMPLES) % population
    problem = hush.tasks.arrays(images, labels, ids, scale=1 / 255, **model)
    algorithm = hush.fedavg(clients=cohort, steps=10, lr=0.1, batch=12, sampling="replacement")
    simulation = Simulation(algorithm, problem, repetitions=repetitions)
    simulation.advance(1)
    rounds, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < 3 or rounds < 3:
        simulation.advance(1)
        rounds += 1
    seconds = (time.perf_counter() - begin) / rounds
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "peak_mb": peak, "parameters": simulation.dimension}


def series(title: str) -> list[dict]:
    """All points of one series, and a line for each."""
    setting, values = SERIES[title]
    found = []
    for value in values:
        command = [sys.executable, __file__, "--point", json.dumps({setting: value})]
        line = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
        found.append({"series": title, "value": value} | json.loads(line))
        shown = found[-1]["parameters"] if setting == "hidden" else value
        print(f"{title:>18} {shown:>9,}  {found[-1]['seconds'] * 1e3:9.2f} ms/round  {found[-1]['peak_mb']:7.0f} MB")
    span = [entry["parameters"] if setting == "hidden" else entry["value"] for entry in (found[0], found[-1])]
    growth = math.log(found[-1]["seconds"] / found[0]["seconds"]) / math.log(span[1] / span[0])
    print(f"{title:>18} {'growth':>9}  {growth:9.2f}\n")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("series", nargs="*", help=f"one or more of: {', '.join(SERIES)}; all if none is named")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.point:
        print(json.dumps(point(**json.loads(chosen.point))))
        return
    for title in chosen.series:
        if title not in SERIES:
            parser.error(f"unknown series {title!r}; choose from {', '.join(SERIES)}")
    found = [entry for title in chosen.series or SERIES for entry in series(title)]
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "growth.json").write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()

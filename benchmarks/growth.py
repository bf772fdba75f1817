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
    "clients elsewhere": ("elsewhere", (100_000, 1_000_000, 10_000_000)),
    "repetitions": ("repetitions", (1, 4, 32)),
    "parameters": ("hidden", (20, 200, 2000)),
}
EXAMPLES = 100_000  # in all: a larger population cuts the same data finer


def elsewhere(clients: int) -> dict:
    """The same of clients whose data is made when it is read: what cohorts, ledger and each client's ε cost alone."""
    import dataclasses

    import numpy as np

    import hush
    from hush.core.problem import Population
    from hush.execution.simulation import Simulation

    class Made:
        digest = "made"

        def names(self):
            return None

        def read(self, who, rows=0):
            count = max(rows, 2 * len(who))
            return np.zeros((count, 20), np.uint8), np.arange(count, dtype=np.int32) % 10

    few = hush.tasks.arrays(np.zeros((20, 20), np.uint8), np.arange(20) % 10, np.arange(20) % 10, model="softmax")
    begin = time.perf_counter()
    population = Population(np.full(clients, 2))
    problem = dataclasses.replace(few.without_clients(), population=population, offsets=few.offsets[:0], source=Made())
    # Every client pays for its own rounds: the ε of each is another.
    algorithm = hush.private_fedpaq(clients=1000, steps=1, batch=1, lr=0.1, clip=1.0, noise_multiplier=2.0)
    simulation = Simulation(algorithm, problem)
    simulation.advance(64)
    start, begin = time.perf_counter() - begin, time.perf_counter()
    simulation.advance(64)
    simulation.advance(64)
    seconds, begin = (time.perf_counter() - begin) / 128, time.perf_counter()
    guarantee = hush.privacy.describe(algorithm, problem, 192, unit="example", trust="local")
    each = guarantee.epsilons(192, simulation.ledger.client_rounds[:, 0], 1e-8)
    told = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "seconds": seconds,
        "peak_mb": peak,
        "parameters": simulation.dimension,
        "beside": f"{start:.1f} s to start; ε of {len(each):,} clients in {told:.1f} s",
    }


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
        shown, beside = found[-1]["parameters"] if setting == "hidden" else value, found[-1].get("beside", "")
        taken = f"{found[-1]['seconds'] * 1e3:9.2f} ms/round  {found[-1]['peak_mb']:7.0f} MB"
        print(f"{title:>18} {shown:>10,}  {taken}  {beside}".rstrip())
    span = [entry["parameters"] if setting == "hidden" else entry["value"] for entry in (found[0], found[-1])]
    growth = math.log(found[-1]["seconds"] / found[0]["seconds"]) / math.log(span[1] / span[0])
    print(f"{title:>18} {'growth':>10}  {growth:9.2f}\n")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("series", nargs="*", help=f"one or more of: {', '.join(SERIES)}; all if none is named")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.point:
        settings = json.loads(chosen.point)
        print(json.dumps(elsewhere(settings["elsewhere"]) if "elsewhere" in settings else point(**settings)))
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

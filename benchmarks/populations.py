"""Populations on disk beside populations in memory: rounds a second, and memory of the process.

    python benchmarks/populations.py                 a million clients where the disk has room, else a tenth
    python benchmarks/populations.py --clients 100000
    python benchmarks/populations.py --only scaffold what 100,000 clients of an MLP remember, on disk

Every client has 20 examples of 784 bytes; 1,000 take part in a round of softmax regression. The same population is
run with all data on the devices at a size that fits there. Each point runs in a process of its own, so that its memory
is its own; the points of one comparison take turns. The store is made first, and removed at the end.

Asked for: at least 70 % of the rounds a second of the run in memory, and less than 2 GB of memory.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXAMPLES, BYTES, CLASSES, COHORT = 20, 784, 10, 1000
IN_MEMORY = 50_000  # clients whose data fits on the devices many times over
MOST_MEMORY, LEAST_RATIO = 2e9, 0.7
TURNS = 3
SCAFFOLD_CLIENTS, SCAFFOLD_COHORT = 100_000, 100


def clients(count: int):
    """Clients with random examples, made one after the other; 1,000 different ones, again and again."""
    import numpy as np

    draws = np.random.default_rng(0)
    different = draws.integers(0, 256, (1000, EXAMPLES, BYTES), dtype=np.uint8)
    labels = draws.integers(0, CLASSES, (1000, EXAMPLES))
    for number in range(count):
        yield None, different[number % 1000], labels[number % 1000]


def make(folder: Path, count: int) -> float:
    """A store of so many clients; how many seconds that took."""
    import hush

    begin = time.perf_counter()
    hush.tasks.pack(clients(count), folder, classes=range(CLASSES))
    return time.perf_counter() - begin


def point(folder: str, resident: bool, model: str, cohort: int, seconds: float, states: str | None = None) -> dict:
    """Rounds a second of one way, and the most memory that the process had."""
    import resource

    import numpy as np

    import hush
    from hush.execution.simulation import Simulation

    begin = time.perf_counter()
    options = {"model": model, "model_options": {"hidden": 200}} if model == "mlp" else {"model": model}
    problem = hush.tasks.stored(folder, scale=1 / 255, **options)
    if resident:
        everyone = np.arange(problem.population.clients)
        x, y = problem.source.read(everyone)
        problem = hush.tasks.arrays(x, y, np.repeat(everyone, EXAMPLES), scale=1 / 255, **options)
    how = {"steps": 10, "lr": 0.01, "batch": 10}
    algorithm = (hush.scaffold if states else hush.fedavg)(clients=cohort, **how)
    simulation = Simulation(algorithm, problem, states_file=None if states is None else Path(states))
    simulation.advance(0)
    start = time.perf_counter() - begin
    at_once, rounds, begin = 4, 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        rounds += simulation.advance(at_once)
    took = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    on_disk = Path(states).stat().st_size if states and Path(states).exists() else 0
    return {"rounds_per_second": rounds / took, "rounds": rounds, "memory": peak, "start": start, "states": on_disk}


def in_a_process(**settings: object) -> dict:
    command = [sys.executable, __file__, "--point", json.dumps(settings)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def told(name: str, found: list[dict]) -> dict:
    """A line of the table; of several turns the middle one."""
    speed = statistics.median(each["rounds_per_second"] for each in found)
    memory, start = max(each["memory"] for each in found), statistics.median(each["start"] for each in found)
    spread = ", ".join(f"{each['rounds_per_second']:.2f}" for each in found)
    print(f"{name:<38} {speed:6.2f} rounds/s ({spread})  {memory / 1e9:5.2f} GB  {start:5.1f} s to start", flush=True)
    return {"speed": speed, "memory": memory, "start": start}


def populations(folder: Path, count: int, seconds: float) -> None:
    """A population on disk beside one that is in memory."""
    stores = {name: folder / name for name in ("small", "large")}
    for name, number in (("small", IN_MEMORY), ("large", count)):
        took = make(stores[name], number)
        size = sum(path.stat().st_size for path in stores[name].rglob("*"))
        print(f"a store of {number:,} clients: {size / 1e9:.1f} GB, packed in {took:.0f} s", flush=True)
    ways = {
        f"{IN_MEMORY:,} clients, in memory": {"folder": str(stores["small"]), "resident": True},
        f"{IN_MEMORY:,} clients, on disk": {"folder": str(stores["small"]), "resident": False},
        f"{count:,} clients, on disk": {"folder": str(stores["large"]), "resident": False},
    }
    found: dict[str, list[dict]] = {name: [] for name in ways}
    for _ in range(TURNS):
        for name, way in ways.items():
            found[name].append(in_a_process(**way, model="softmax", cohort=COHORT, seconds=seconds))
    memory, _, disk = (told(name, each) for name, each in found.items())
    ratio = disk["speed"] / memory["speed"]
    verdicts = {
        f"{ratio:.0%} of the rounds a second in memory; {LEAST_RATIO:.0%} are asked for": ratio >= LEAST_RATIO,
        f"{disk['memory'] / 1e9:.2f} GB of memory; less than 2 GB are asked for": disk["memory"] < MOST_MEMORY,
    }
    for words, met in verdicts.items():
        print(f"{words}: {'met' if met else 'not met'}")


def scaffold(folder: Path, seconds: float) -> None:
    """SCAFFOLD on many clients of an MLP: what they remember is on disk, of those who took part."""
    store = folder / "scaffold"
    make(store, SCAFFOLD_CLIENTS)
    states = str(folder / "client_states")
    found = in_a_process(
        folder=str(store), resident=False, model="mlp", cohort=SCAFFOLD_COHORT, seconds=seconds, states=states
    )
    told(f"SCAFFOLD, MLP, {SCAFFOLD_CLIENTS:,} clients", [found])
    print(f"{found['rounds']} rounds of {SCAFFOLD_COHORT}; {found['states'] / 1e9:.2f} GB of states on disk")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, help="of the large population; chosen by the room on the disk")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where stores are made")
    parser.add_argument("--only", choices=["populations", "scaffold"])
    parser.add_argument("--seconds", type=float, default=15.0, help="that each point is measured for")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.point:
        print(json.dumps(point(**json.loads(chosen.point))))
        return
    room = shutil.disk_usage(chosen.folder).free
    count = chosen.clients or (1_000_000 if room > 25e9 else 100_000)
    with tempfile.TemporaryDirectory(dir=chosen.folder, prefix="hush-populations-") as folder:
        if chosen.only != "scaffold":
            populations(Path(folder), count, chosen.seconds)
        if chosen.only != "populations":
            scaffold(Path(folder), 2 * chosen.seconds)


if __name__ == "__main__":
    main()

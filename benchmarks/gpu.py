"""What one GPU reaches: client-steps per second of four models in both precisions, and how soon a first round is done.

    python benchmarks/gpu.py                     # all rows, in less than ten minutes, printed as they come
    python benchmarks/gpu.py --only PyTorch      # those of PyTorch alone, for which little time may be left
    python benchmarks/gpu.py --only resnet18     # the rows whose names have this in them
    python benchmarks/gpu.py --quick             # tiny: shows on any machine that it works, and measures nothing

Every row is a process of its own with no compiled programs kept, `hush.fedavg` through `Simulation`, batch 64; beside
them the same in PyTorch (`gpu_torch`): a loop over clients, its step as a CUDA graph, `vmap` over clients, compiled.
A client-step is one local step of one client; its rate is the best of three stretches of rounds. `first round` is from
the end of the imports to the end of the first round, `again` the same in a second process, with the programs that the
first one kept. What is wanted of each row stands beside it; it is a figure for one NVIDIA H200. Rows for which no time
is left are said to be skipped. The results are also written to benchmarks/results/gpu.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
LATEST = HERE / "results" / "gpu.json"
SECONDS = 570.0  # for all rows together
STRETCHES = 3
BATCH = 64


@dataclass(frozen=True)
class Row:
    """One thing to measure, and what is wanted of it."""

    name: str
    model: str
    shape: tuple[int, int, int]
    population: int
    clients: int
    steps: int
    rounds: int  # of one stretch
    examples: int = 128  # of each client
    precision: str = "float32"
    private: bool = False  # DP-FedAvg on a Poisson cohort
    at_once: int | None = None
    way: str = ""  # of `gpu_torch.WAYS`, where it is PyTorch's
    rate: float | None = None  # wanted: client-steps a second, at least
    first: float | None = None  # wanted: seconds to the first round, at most
    again: float | None = None  # wanted: the same from the cache; None is not asked for, and not measured


SMALL, COLOURS = (28, 28, 1), (32, 32, 3)
PLAIN = (
    Row("mlp", "mlp", SMALL, 1920, 80, 32, 50, rate=595_000),
    Row("lenet5", "lenet5", SMALL, 400, 80, 16, 10, rate=100_000, first=20, again=5),
    Row("resnet18, 20 clients", "resnet18", COLOURS, 100, 20, 8, 2, rate=900, first=40, again=5),
    Row("mobilenet_v2", "mobilenet_v2", COLOURS, 100, 20, 8, 2, rate=1000, first=40, again=5),
)
UNASKED = {"rate": None, "first": None, "again": None}
HALF = tuple(replace(row, name=f"{row.name}, bfloat16", precision="bfloat16") for row in PLAIN)


def in_pytorch(way: str, rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """The same in PyTorch, one way, of which nothing is wanted."""
    name = lambda row: f"{row.name.removesuffix(', bfloat16')}, PyTorch {way}, {row.precision}"  # noqa: E731
    return tuple(replace(row, name=name(row), way=way, **UNASKED) for row in rows)


# The most telling first, should time run out: what takes long to compile comes last.
ROWS = (
    *HALF[1:3],
    replace(PLAIN[0], again=None),
    HALF[0],
    replace(PLAIN[0], name="mlp, DP-FedAvg, Poisson", private=True, rate=0.85 * 595_000),
    HALF[3],
    *(row for way in ("graph", "vmap", "loop") for row in in_pytorch(way, HALF[:3])),
    replace(PLAIN[1], again=None),
    replace(PLAIN[2], name="resnet18, 40 clients, bfloat16", clients=40, precision="bfloat16", first=None, again=None),
    replace(PLAIN[2], again=None),
    *(row for way in ("graph", "vmap", "loop") for row in in_pytorch(way, PLAIN[:2])),
    *(row for way in ("graph", "loop", "vmap") for row in in_pytorch(way, HALF[3:])),
    replace(PLAIN[3], again=None),
    replace(PLAIN[0], name="mlp, DP-FedAvg, Poisson, 40 at once", private=True, at_once=40, rate=0.85 * 595_000),
    replace(PLAIN[0], name="mlp, DP-FedAvg, Poisson, 50 at once", private=True, at_once=50, rate=0.85 * 595_000),
)


def quick(row: Row) -> Row:
    """The same way through the program, with next to nothing to do."""
    shape = (16, 16, row.shape[2])
    at_once = None if row.at_once is None else row.at_once // 16
    again = None if row.again is None else float("inf")
    small = replace(row, shape=shape, population=8, clients=4, steps=1, rounds=1, examples=4, at_once=at_once)
    return replace(small, rate=None, first=None, again=again)


def measured(row: Row, batch: int) -> dict[str, float | str]:
    """One row, in this process."""
    return in_torch(row, batch) if row.way else in_hush(row, batch)


def in_torch(row: Row, batch: int) -> dict[str, float | str]:
    """By PyTorch; a loop takes so long that few rounds tell as much."""
    import gpu_torch

    work = gpu_torch.Work(row.model, row.shape, row.clients, row.steps, batch, row.precision == "bfloat16")
    return gpu_torch.measured(row.way, work, STRETCHES, max(1, row.rounds // (1 if row.way == "vmap" else 10)))


def in_hush(row: Row, batch: int) -> dict[str, float | str]:
    """By hush."""
    from contextlib import nullcontext

    import jax
    import numpy as np

    import hush
    from hush.execution.simulation import Simulation
    from hush.models.products import on_any_backend

    jax.devices()  # to start the GPU is no part of a first round
    draws = np.random.default_rng(0)
    count = row.population * row.examples
    x, y = draws.integers(0, 256, (count, *row.shape), np.uint8), draws.integers(0, 10, count)
    y[:10] = np.arange(10)
    owners = np.repeat(np.arange(row.population), row.examples)
    begun = time.perf_counter()
    # A quick look is had on a CPU too; there is nothing to be measured there.
    with on_any_backend() if jax.default_backend() == "cpu" else nullcontext():
        problem = hush.tasks.arrays(x, y, owners, model=row.model, scale=1 / 255, precision=row.precision)
    training = {"steps": row.steps, "batch": batch, "lr": 0.05}
    if row.private:
        algorithm = hush.dp_fedavg(row.clients, row.population, clip=1.0, noise_multiplier=1.0, **training)
    else:
        algorithm = hush.fedavg(row.clients, **training)
    simulation = Simulation(algorithm, problem, clients_at_once=row.at_once)
    simulation.advance(1)
    first = time.perf_counter() - begun
    spent = []
    for _ in range(STRETCHES):
        start = time.perf_counter()
        simulation.advance(min(row.rounds, simulation.layout.rounds_at_once))
        spent.append(time.perf_counter() - start)
    assert np.isfinite(np.asarray(simulation.models)).all()
    rounds = min(row.rounds, simulation.layout.rounds_at_once)
    return {
        "rate": rounds * row.clients * row.steps / min(spent),  # of a Poisson cohort, on average
        "first": first,
        "at_once": simulation.layout.clients_at_once,
        "device": str(jax.devices()[0].device_kind),
        "jax": jax.__version__,
    }


def in_a_process(row: Row, tiny: bool, cache: str, seconds: float) -> dict[str, float | str]:
    """The same in a process of its own: what it found, or why it found nothing."""
    command = [sys.executable, __file__, "--row", row.name, *(["--quick"] if tiny else [])]
    environment = os.environ | {"HUSH_COMPILATION_CACHE": cache}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, timeout=max(seconds, 1)
        )
    except subprocess.TimeoutExpired:
        return {"failed": "no time was left"}
    if done.returncode != 0:
        return {"failed": (done.stderr.strip().splitlines() or ["no message"])[-1][:200]}
    found: dict[str, float | str] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def beside(found: float | str | None, wanted: float | None, form: str, sign: str) -> str:
    """A number with the one that is wanted, if any."""
    said = "–" if found is None else format(found, form)
    return said if wanted in (None, float("inf")) else f"{said} ({sign} {wanted:,.0f})"


def line(row: Row, found: dict[str, float | str]) -> str:
    if "failed" in found:
        return f"{row.name:38}  {found['failed']}"
    rate = beside(found["rate"], row.rate, ",.0f", "≥")
    first = beside(found["first"], row.first, ".1f", "≤")
    again = beside(found.get("again"), row.again, ".1f", "<")
    return f"{row.name:38}  {rate:>24}  {first:>14}  {again:>14}  {found['at_once']:>7}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="TEXT", default="", help="rows whose names have this in them (default: all)")
    parser.add_argument("--quick", action="store_true", help="tiny rows, to see that the script works")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"for all rows together (default: {SECONDS:g})")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    rows = {row.name: row for row in map(quick, ROWS)} if arguments.quick else {row.name: row for row in ROWS}
    if arguments.row:
        print(json.dumps(measured(rows[arguments.row], 2 if arguments.quick else BATCH)))
        return
    begun, results = time.perf_counter(), []
    left = lambda: arguments.seconds - (time.perf_counter() - begun)  # noqa: E731
    print(f"{'row':38}  {'client-steps/s':>24}  {'first round, s':>14}  {'again, s':>14}  at once", flush=True)
    for row in rows.values():
        if arguments.only not in row.name:
            continue
        with tempfile.TemporaryDirectory() as cache:
            found = in_a_process(row, arguments.quick, cache, left())
            if row.again is not None and "failed" not in found:
                second = in_a_process(row, arguments.quick, cache, left())
                found |= {"again": second["first"]} if "first" in second else {}
        results.append(asdict(row) | {"found": found})
        print(line(row, found), flush=True)
    devices = {str(each["found"]["device"]) for each in results if "device" in each["found"]}
    print(f"on {', '.join(sorted(devices)) or 'nothing'}; {time.perf_counter() - begun:.0f} s in all", flush=True)
    if not arguments.quick:
        LATEST.parent.mkdir(exist_ok=True)
        LATEST.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

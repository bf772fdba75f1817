"""What clipping every example costs: one client's local steps with and without it, beside Opacus; and whole rounds.

    python benchmarks/per_example.py               # everything
    python benchmarks/per_example.py --turns 5     # a quick look
    taskset -c 0 python benchmarks/per_example.py --busy   # whole rounds in processor time, where other work runs

Steps are those of local training, 32 in one compiled call, on one core. Opacus takes the same steps in a process of its
own with one thread and in another with two, and the faster counts. All contenders take turns, and a ratio is the median
of the ratios within a turn. `moved` is how far the model has come: what clips alike must move alike. A round of W2 is
timed too, plain, with clients' updates clipped and noise, and with every example clipped. Nothing else should run on
the machine meanwhile. The results are also written to benchmarks/results/per_example.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

import environments
import hush
import hush_workloads
import one_client
import workloads
from hush.channel import Noisy
from hush.core.keys import root
from hush.core.problem import ClientData
from hush.execution.simulation import Simulation
from hush.local import Batches, ClippedPerExample, LocalSGD, MeanGradient, Oracle
from hush.uplink import Clip, Gaussian

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "per_example.json"
THREADS = (1, 2)
MOMENT = 0.3  # seconds
Turn = Callable[[], dict]


class Given(Batches):
    """The rows that all contenders share."""

    rows: jax.Array

    def steps_per_epoch(self, size):
        return len(self.rows)

    def __call__(self, key, steps, data):
        return self.rows, jnp.full(self.rows.shape, 1 / self.rows.shape[1])


class Stacked(Oracle):
    """Every example's gradient written down: how hush clips a model it does not know layer by layer."""

    def __call__(self, key, params, rows, weights, data):
        return ClientData.clipped_gradient(data, params, rows, weights, one_client.CLIP)


class JaxPrivacy(Oracle):
    """The same by jax-privacy, so many examples at once."""

    at_once: int | None = eqx.field(static=True)

    def __call__(self, key, params, rows, weights, data):
        from jax_privacy import clipped_grad

        def loss(params, batch):
            return data.problem.loss(params, *batch, jnp.ones(1))

        settings = {"l2_clip_norm": one_client.CLIP, "normalize_by": len(rows), "microbatch_size": self.at_once}
        return clipped_grad(loss, **settings)(params, data.examples(rows))


ORACLES = {
    "hush, not clipped": MeanGradient(),
    "hush, clipped": ClippedPerExample(one_client.CLIP),
    "hush, clipped, any model": Stacked(),
    "jax-privacy, all at once": JaxPrivacy(None),
    "jax-privacy, one by one": JaxPrivacy(1),
}
PEERS = {"PyTorch, not clipped": "plain", "Opacus, hooks": "hooks", "Opacus, ghost": "ghost"}


def hush_turn(model: str, oracle: Oracle) -> Turn:
    workload, data, rows = one_client.job(model)
    problem = hush_workloads.as_problem(replace(workload, clip_norm=None), data)
    rule = LocalSGD(lr=workload.learning_rate, steps=len(rows), batches=Given(jnp.asarray(rows)), oracle=oracle)
    start = ravel_pytree(problem.init(root(0)))[0]

    @jax.jit
    def update(model):
        return rule(root(0), {"model": model, "round": jnp.int32(0)}, {}, problem.client(0))[0]["update"]

    def turn() -> dict:
        begin = time.perf_counter()
        moved = update(start).block_until_ready()
        return {
            "milliseconds": 1000 * (time.perf_counter() - begin) / len(rows),
            "moved": float(jnp.linalg.norm(moved)),
        }

    return turn


def opacus_processes() -> dict[int, subprocess.Popen]:
    """A process for each number of threads, or none with a word why."""
    try:
        python = environments.ensure("opacus")
    except environments.EnvironmentFailed as error:
        print(f"Opacus: {error}", file=sys.stderr)
        return {}
    command = [str(python), str(HERE / "peers" / "opacus_peer.py")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return {
        threads: subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": str(threads)}, **pipes)
        for threads in THREADS
    }


def opacus_turn(process: subprocess.Popen, model: str, way: str) -> Turn:
    def turn() -> dict:
        process.stdin.write(f"{model} {way}\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    return turn


def in_turns(contenders: dict[str, Turn], turns: int) -> dict[str, list[dict]]:
    """Every contender once a turn, so that a machine that slows down for a while does so for all of them."""
    found: dict[str, list[dict]] = {name: [] for name in contenders}
    for number in range(turns + 1):
        for name, turn in contenders.items():
            seen = repeated(turn)
            if number:  # the first compiles
                found[name].append(seen)
    return found


def repeated(turn: Turn) -> dict:
    """The median of as many calls as go into a moment: a few milliseconds alone are not to be trusted."""
    end, seen = time.perf_counter() + MOMENT, [turn()]
    while time.perf_counter() < end:
        seen.append(turn())
    return {name: statistics.median(each[name] for each in seen) for name in seen[0]}


def steps(model: str, processes: dict[int, subprocess.Popen], turns: int) -> list[dict]:
    contenders = {name: hush_turn(model, oracle) for name, oracle in ORACLES.items()}
    for name, way in PEERS.items():
        for threads, process in processes.items():
            contenders[f"{name}, {threads} threads"] = opacus_turn(process, model, way)
    found = in_turns(contenders, turns)
    took = {name: [seen["milliseconds"] for seen in all_] for name, all_ in found.items()}
    for name in PEERS if processes else ():
        rivals = {f"{name}, {threads} threads": took.pop(f"{name}, {threads} threads") for threads in processes}
        best = min(rivals, key=lambda rival: statistics.median(rivals[rival]))
        took[best.replace("1 threads", "1 thread")] = rivals[best]
        found[best.replace("1 threads", "1 thread")] = found[best]
    plain, fast = took["hush, not clipped"], took["hush, clipped"]
    return [
        {
            "model": model,
            "contender": name,
            "milliseconds": statistics.median(mine),
            "over_not_clipped": ratio(mine, plain),
            "over_clipped": ratio(mine, fast),
            "moved": found[name][-1]["moved"],
        }
        for name, mine in took.items()
    ]


def ratio(mine: list[float], other: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(mine, other, strict=True))


def rounds(turns: int, clock: Callable[[], float] = time.perf_counter) -> list[dict]:
    workload = workloads.find("W2")
    problem = hush_workloads.as_problem(workload, workloads.generate(workload))
    plain = hush.fedavg(
        workload.clients_per_round, steps=workload.local_steps, lr=workload.learning_rate, batch=workload.batch_size
    )
    private = replace(plain, local=replace(plain.local, oracle=ClippedPerExample(one_client.CLIP)))
    clipped = replace(plain, uplink=(Clip(1.0),))
    algorithms = {
        "plain": plain,
        "updates clipped": clipped,
        "DP-FedAvg": replace(clipped, channel=Noisy(0.01)),
        "DP-FedAvg, noise at clients": replace(plain, uplink=(Clip(1.0), Gaussian(0.1))),
        "examples clipped": private,
        "examples clipped, noisy steps": replace(
            plain, local=replace(plain.local, oracle=ClippedPerExample(one_client.CLIP, 1.0))
        ),
    }

    def timed(simulation: Simulation) -> Turn:
        def turn() -> dict:
            begin = clock()
            simulation.advance(1)
            return {"seconds": clock() - begin}

        return turn

    found = in_turns({name: timed(Simulation(algorithm, problem)) for name, algorithm in algorithms.items()}, turns)
    took = {name: [seen["seconds"] for seen in all_] for name, all_ in found.items()}
    return [
        {"round": name, "seconds": statistics.median(mine), "over_plain": ratio(mine, took["plain"])}
        for name, mine in took.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=9, help="how often each is timed (default: 9)")
    parser.add_argument("--busy", action="store_true", help="processor time, of whole rounds alone; best on one core")
    options = parser.parse_args()
    turns = options.turns
    warnings.simplefilter("ignore")  # jax-privacy calls a function of optax that has been renamed since
    processes = {} if options.busy else opacus_processes()
    models = () if options.busy else one_client.MODELS
    lines = [line for model in models for line in steps(model, processes, turns)]
    for process in processes.values():
        process.stdin.close()
        process.wait()
    whole = rounds(max(3, turns // 3), time.process_time if options.busy else time.perf_counter)
    print(f"{f'a step of {one_client.BATCH}':9} {'':34} {'ms':>8} {'/ not clipped':>14} {'/ clipped':>10} {'moved':>8}")
    for line in lines:
        print(
            f"{line['model']:9} {line['contender']:34} {line['milliseconds']:8.3f} "
            f"{line['over_not_clipped']:14.2f} {line['over_clipped']:10.2f} {line['moved']:8.4f}"
        )
    print(f"\n{'a round of W2':20} {'seconds':>8} {'/ plain':>8}")
    for line in whole:
        print(f"{line['round']:20} {line['seconds']:8.3f} {line['over_plain']:8.2f}")
    machine = {"processor": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"machine": machine, "turns": turns, "steps": lines, "rounds": whole}, indent=1))
    print(f"written to {RESULTS.relative_to(HERE.parent)}", file=sys.stderr)


if __name__ == "__main__":
    main()

"""Langevin steps a second: FA-LD in hush beside the loop one would write by hand, in NumPy and in PyTorch.

    python benchmarks/langevin.py               # on the CPU
    python benchmarks/langevin.py --turns 3     # a quick look
    python benchmarks/langevin.py --device      # hush on an accelerator, the loops on that machine's CPU
    taskset -c 0 python benchmarks/langevin.py --busy   # the Gaussian in processor time, where other work runs

A client-step is one step of one client of one chain. Two targets: a Gaussian in two dimensions (50 clients, 300 chains)
beside NumPy over all chains and clients at once; softmax regression on data of MNIST's shape (10 clients of 6,000,
batches of 200) beside PyTorch over clients and steps. All contenders of a target take turns, and a ratio is the median
of the ratios within a turn. PyTorch gets the number of threads that suits it. The results are also written to
benchmarks/results/langevin.json (langevin_device.json).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, product
from pathlib import Path

import hush  # before JAX: each core becomes a device

# isort: split
import jax
import numpy as np

from hush.execution.simulation import Simulation

HERE = Path(__file__).resolve().parent
CHAINS, LR = 300, 1e-7  # of the Gaussian
CLIENTS, SIZE, INPUTS, CLASSES, BATCH = 10, 6000, 784, 10, 200  # of softmax regression
RATE, TEMPERATURE = 1e-6, 0.05
Clock = Callable[[], float]
Contender = tuple[Callable[[], None], int]  # what is timed, and how many client-steps it is


def timed_hush(algorithm, problem, chains: int, rounds: int) -> Contender:
    simulation = Simulation(algorithm, problem, repetitions=chains)
    simulation.advance(0)  # compiles
    return lambda: simulation.advance(rounds), rounds * chains * problem.population.clients * algorithm.local.steps


def numpy_gaussian(problem, steps: int, rounds: int, correlation: float = 0.0) -> Contender:
    """The same steps over planes [2, chains, clients]; the gradient as a product with 2 × 2 matrices."""
    clients = problem.population.clients
    draws = np.random.Generator(np.random.SFC64(0))  # the fastest of NumPy's
    shares = np.asarray(problem.population.sizes / problem.population.sizes.sum())
    mean = np.asarray(problem.data["mean"]).T[:, None]
    pull = np.float32(LR / shares) * np.asarray(problem.data["precision"]).T
    xx, xy, yy = pull[0, 0], pull[0, 1], pull[1, 1]
    spread = np.float32(np.sqrt(2 * LR * (1 - correlation**2) / shares))
    shared_spread = np.float32(np.sqrt(2 * LR) * correlation)
    server = np.zeros((2, CHAINS, 1), np.float32)
    x, away, moved, own = (np.zeros((2, CHAINS, clients), np.float32) for _ in range(4))
    part, shared = np.zeros_like(x[0]), np.zeros_like(server)

    def turn() -> None:
        for _ in range(rounds):
            x[:] = server
            for _ in range(steps):
                np.subtract(x, mean, out=away)
                np.multiply(away[0], xx, out=moved[0])
                moved[0] += np.multiply(away[1], xy, out=part)
                np.multiply(away[0], xy, out=moved[1])
                moved[1] += np.multiply(away[1], yy, out=part)
                draws.standard_normal(dtype=np.float32, out=own)
                draws.standard_normal(dtype=np.float32, out=shared)
                np.multiply(own, spread, out=own)
                np.subtract(own, moved, out=own)
                np.add(own, np.multiply(shared, shared_spread, out=shared), out=own)
                np.add(x, own, out=x)
            server[..., 0] = x @ np.float32(shares)

    return turn, rounds * steps * CHAINS * clients


def gaussian(turns: int, at_once: int, clock: Clock = time.perf_counter) -> list[dict]:
    problem = hush.tasks.gaussian_posterior()
    rounds = {100: 5, 10: 40, 1: 64}

    def mine(steps: int) -> Contender:
        return timed_hush(hush.fa_ld(steps=steps, lr=LR), problem, CHAINS, rounds[steps])

    lines = []
    for steps, contender in zip(rounds, together(mine, rounds, at_once), strict=True):
        contenders = {f"hush, {CHAINS} chains": contender, "NumPy loop": numpy_gaussian(problem, steps, rounds[steps])}
        lines += in_turns("Gaussian", steps, contenders, turns, clock)
    return lines


def torch_softmax(x: np.ndarray, y: np.ndarray, by_hand: bool, steps: int, rounds: int) -> Contender:
    """One client after the other; with autograd as one would write it, or with the gradient by hand."""
    import torch

    inputs = torch.from_numpy(x.reshape(CLIENTS, SIZE, INPUTS)).float() / 255
    labels = torch.from_numpy(y.reshape(CLIENTS, SIZE))
    weight, bias = torch.zeros(CLASSES, INPUTS), torch.zeros(CLASSES)
    move, spread = RATE * CLIENTS * SIZE, math.sqrt(2 * TEMPERATURE * RATE * CLIENTS)
    places = torch.arange(BATCH)

    def with_autograd(w, b, x, y) -> None:
        rows = torch.randperm(SIZE)[:BATCH]
        loss = torch.nn.functional.cross_entropy(torch.nn.functional.linear(x[rows], w, b), y[rows])
        gradients = torch.autograd.grad(loss, (w, b))
        with torch.no_grad():
            for parameter, gradient in zip((w, b), gradients, strict=True):
                parameter.sub_(gradient, alpha=move).add_(torch.randn_like(parameter), alpha=spread)

    def with_hand(w, b, x, y) -> None:
        rows = torch.randint(SIZE, (BATCH,))  # an example may come twice, and it is faster
        batch = x[rows]
        off = torch.softmax(torch.addmm(b, batch, w.T), 1)
        off[places, y[rows]] -= 1
        w.addmm_(off.T, batch, alpha=-move / BATCH).add_(torch.randn_like(w), alpha=spread)
        b.sub_(off.sum(0), alpha=move / BATCH).add_(torch.randn_like(b), alpha=spread)

    def trained(client: int, steps: int):
        w, b = (server.clone().requires_grad_(not by_hand) for server in (weight, bias))
        for _ in range(steps):
            (with_hand if by_hand else with_autograd)(w, b, inputs[client], labels[client])
        return w.detach(), b.detach()

    def seconds(threads: int) -> float:
        torch.set_num_threads(threads)
        begins = [(time.perf_counter(), trained(0, 20))[0] for _ in range(4)]
        return min(b - a for a, b in pairwise(begins))

    counts = [2**power for power in range((os.cpu_count() or 1).bit_length())]
    threads = min((seconds(count), count) for _ in range(5) for count in counts)[1]

    def turn() -> None:
        torch.set_num_threads(threads)
        for _ in range(rounds):
            sent = [trained(client, steps) for client in range(CLIENTS)]
            for server, models in zip((weight, bias), zip(*sent, strict=True), strict=True):
                server.copy_(torch.stack(models).mean(0))

    turn.threads = threads
    return turn, rounds * CLIENTS * steps


def softmax(turns: int, at_once: int, rounds: dict[int, int]) -> list[dict]:
    """`rounds` of ten steps for each number of chains."""
    draws = np.random.default_rng(0)
    x = draws.integers(0, 256, (CLIENTS * SIZE, 28, 28, 1), dtype=np.uint8)
    y = draws.integers(0, CLASSES, CLIENTS * SIZE)
    problem = hush.tasks.arrays(x, y, np.repeat(np.arange(CLIENTS), SIZE), model="softmax", scale=1 / 255)

    def mine(which: tuple[int, int]) -> Contender:
        steps, chains = which
        algorithm = hush.fa_ld(steps=steps, lr=RATE, temperature=TEMPERATURE, batch=BATCH)
        return timed_hush(algorithm, problem, chains, max(1, rounds[chains] * 10 // steps))

    all_ = list(product((10, 100), rounds))
    made = dict(zip(all_, together(mine, all_, at_once), strict=True))
    lines = []
    for steps, loops in ((10, 5), (100, 1)):
        contenders = {f"hush, {chains} chain{'s' * (chains > 1)}": made[steps, chains] for chains in rounds}
        try:
            for name, by_hand in (("PyTorch, autograd", False), ("PyTorch, by hand", True)):
                contender = torch_softmax(x, y, by_hand, steps, loops)
                contenders[f"{name}, {contender[0].threads} threads"] = contender
        except ModuleNotFoundError as missing:
            print(f"PyTorch loops: {missing}", file=sys.stderr)
        lines += in_turns("softmax", steps, contenders, turns)
    return lines


def together(make: Callable, all_: Iterable, at_once: int) -> list[Contender]:
    """Compiled so many at once: it takes long on a device."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(make, all_))


def in_turns(
    target: str, steps: int, contenders: dict[str, Contender], turns: int, clock: Clock = time.perf_counter
) -> list[dict]:
    """Every contender once a turn; the first does not count."""
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(turns + 1):
        for name, (turn, client_steps) in contenders.items():
            begin = clock()
            turn()
            if number:
                rates[name].append(client_steps / (clock() - begin))
    rivals = [name for name in contenders if not name.startswith("hush")]
    return [
        {
            "target": target,
            "steps": steps,
            "contender": name,
            "client_steps_per_second": statistics.median(mine),
            "over": {
                rival: statistics.median(a / b for a, b in zip(mine, rates[rival], strict=True)) for rival in rivals
            },
        }
        for name, mine in rates.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=9, help="how often each is timed (default: 9)")
    parser.add_argument("--device", action="store_true", help="many chains, for an accelerator")
    parser.add_argument("--busy", action="store_true", help="processor time, of the Gaussian alone; best on one core")
    options = parser.parse_args()
    at_once = 8 if options.device else 1
    rounds = {1: 64, 8: 64, 64: 40, 256: 20} if options.device else {1: 20, 8: 3}
    lines = gaussian(options.turns, at_once, time.process_time if options.busy else time.perf_counter)
    lines += [] if options.busy else softmax(options.turns, at_once, rounds)
    print(f"{'target':9} {'K':>4} {'':30} {'million/s':>10} {'µs':>9}  rate over the loops")
    for line in lines:
        rate = line["client_steps_per_second"]
        over = "  ".join(f"{ratio:8.2f}" for ratio in line["over"].values()) or "PyTorch is not installed"
        print(
            f"{line['target']:9} {line['steps']:4} {line['contender']:30} {rate / 1e6:10.4f} {1e6 / rate:9.3f}  {over}"
        )
    machine = {
        "device": jax.devices()[0].device_kind,
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        "jax": jax.__version__,
    }
    kind = "_device" if options.device else "_busy" if options.busy else ""
    results = HERE / "results" / f"langevin{kind}.json"
    results.parent.mkdir(exist_ok=True)
    results.write_text(json.dumps({"machine": machine, "turns": options.turns, "lines": lines}, indent=1))
    print(f"written to {results.relative_to(HERE.parent)}", file=sys.stderr)


if __name__ == "__main__":
    main()

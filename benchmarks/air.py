"""What the air costs: a round of W3 (LeNet-5, one gradient of each of ten clients) over it, beside a digital one.

    python benchmarks/air.py

Rounds are timed in turns in one process; a ratio is the median of the ratios within a turn.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace

import hush
import hush_workloads
import workloads
from hush.channel import Alignment, FullPower, LeastSquares, Rayleigh
from hush.core.simulation import Simulation
from hush.uplink import Clip

TURNS, ROUNDS = 15, 20


def main() -> None:
    workload = workloads.find("W3")
    problem = hush_workloads.as_problem(workload, workloads.generate(workload))
    batch = workload.batch_size
    digital = hush.distributed_sgd(lr=0.01, batch=batch, weighting="equal")
    algorithms = {
        "digital": digital,
        "digital, clipped": replace(digital, uplink=(Clip(1.0),)),
        "alignment": hush.over_the_air(rule=Alignment(), fading=Rayleigh(), batch=batch),
        "full power": hush.over_the_air(rule=FullPower(), fading=Rayleigh(), batch=batch),
        "least squares": hush.over_the_air(rule=LeastSquares(), fading=Rayleigh(), batch=batch),
    }
    simulations = {name: Simulation(algorithm, problem) for name, algorithm in algorithms.items()}
    seconds: dict[str, list[float]] = {name: [] for name in algorithms}
    for turn in range(TURNS + 1):
        for name, simulation in simulations.items():
            begin = time.perf_counter()
            simulation.advance(ROUNDS)
            if turn:  # the first compiles
                seconds[name].append((time.perf_counter() - begin) / ROUNDS)
    print(f"{'a round of W3':20} {'ms':>8} {'ratio':>6}")
    for name, took in seconds.items():
        ratio = statistics.median(a / b for a, b in zip(took, seconds["digital, clipped"], strict=True))
        print(f"{name:20} {1000 * statistics.median(took):8.2f} {ratio:6.3f}")


if __name__ == "__main__":
    main()

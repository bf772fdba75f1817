"""What the air costs: a round of W3 (LeNet-5, one gradient of each of ten clients) over it, beside a digital one.

    python benchmarks/air.py

Rounds are timed in turns in one process; a ratio is the median of the ratios within a turn.
"""

from __future__ import annotations

from dataclasses import replace

import hush
import hush_workloads
import turns
import workloads
from hush.channel import Alignment, FullPower, LeastSquares, Rayleigh
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
    seconds = turns.in_turns(algorithms, problem, TURNS, ROUNDS)
    turns.print_rounds("a round of W3", seconds, "digital, clipped")


if __name__ == "__main__":
    main()

"""What compression costs: a round of W2 with and without it, and packing an update of ResNet-18's size.

    python benchmarks/uplink.py

Rounds are timed in turns in one process; the ratio is to a round that sends plain numbers.
"""

from __future__ import annotations

import time
from dataclasses import replace

import jax

import hush
import hush_workloads
import turns
import workloads
from hush.core.keys import root
from hush.uplink import QSGD, BFloat16, ErrorFeedback, Rotated, Sign, TernGrad, TopK

STAGES = {
    "plain": (),
    "QSGD(10)": (QSGD(10),),
    'QSGD(10, code="elias")': (QSGD(10, code="elias"),),
    "QSGD(10, block=512)": (QSGD(10, block=512),),
    "TernGrad()": (TernGrad(),),
    "Sign()": (Sign(),),
    "BFloat16()": (BFloat16(),),
    "ErrorFeedback(TopK(1590))": (ErrorFeedback(TopK(1590)),),
    "Rotated(QSGD(10), block=1024)": (Rotated(QSGD(10), block=1024),),
}
TURNS, ROUNDS = 5, 2
LARGE = 11_100_000


def rounds() -> None:
    workload = workloads.find("W2")
    problem = hush_workloads.as_problem(workload, workloads.generate(workload))
    plain = hush.fedavg(
        workload.clients_per_round, steps=workload.local_steps, lr=workload.learning_rate, batch=workload.batch_size
    )
    algorithms = {name: replace(plain, uplink=stages) for name, stages in STAGES.items()}
    turns.print_rounds("a round of W2 with", turns.in_turns(algorithms, problem, TURNS, ROUNDS), "plain")


def packing() -> None:
    vector = jax.random.normal(root(0), (LARGE,))
    print(f"\n{f'{LARGE:,} numbers':32} {'pack, s':>8} {'unpack, s':>9} {'bits each':>9}")
    for compressor in (
        QSGD(1),
        QSGD(10),
        QSGD(10, code="elias"),
        QSGD(10, block=512, code="elias"),
        TopK(LARGE // 100),
    ):
        code = jax.device_get(jax.jit(compressor.quantise)(root(1), vector))
        begin = time.perf_counter()
        data = compressor.pack(code, LARGE)
        packed = time.perf_counter()
        compressor.unpack(data, LARGE)
        took = time.perf_counter() - packed
        print(f"{compressor!r:32} {packed - begin:8.2f} {took:9.2f} {8 * len(data) / LARGE:9.3f}")


if __name__ == "__main__":
    rounds()
    packing()

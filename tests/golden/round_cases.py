"""Every algorithm and every compressor, each on a small problem: what the first rounds are recorded and repeated of.

`python tests/golden/round_cases.py` writes the records anew; `--exact` tells whether they come out bit for bit, which
is asked of a change that moves code about, on one machine.
"""

import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

import hush
from hush.channel import LeastSquares, Noisy
from hush.cohort import Cyclic, Poisson, SchemeII, Uniform
from hush.execution.simulation import Simulation
from hush.local import LocalSGD, Shuffled
from hush.uplink import QSGD, BFloat16, Clip, ErrorFeedback, Gaussian, GridGaussian, RandomK, Rotated, Sign, TopK

RECORDS = Path(__file__).with_name("first_rounds.npz")
ROUNDS = 3
STEPS = {"steps": 2, "lr": 0.1, "batch": 8}


@cache
def digits():
    return hush.tasks.digits(clients=6, dirichlet=1.0)


def averaging(*uplink, cohort=None, **slots):
    local = LocalSGD(0.1, steps=2, batches=Shuffled(8))
    return hush.Algorithm(Uniform(3) if cohort is None else cohort, local, uplink, **slots)


COMPRESSED = {
    "qsgd": (QSGD(3),),
    "qsgd fixed": (QSGD(10, code="fixed"),),
    "qsgd elias blocks": (QSGD(3, block=64, code="elias"),),
    "terngrad": (hush.uplink.TernGrad(),),
    "sign with feedback": (ErrorFeedback(Sign()),),
    "top_k with feedback": (ErrorFeedback(TopK(40)),),
    "random_k": (RandomK(40),),
    "bfloat16": (BFloat16(),),
    "rotated": (Rotated(QSGD(3)),),
    "rotated with feedback": (ErrorFeedback(Rotated(QSGD(7), block=128)),),
    "clip": (Clip(0.05),),
    "code, then clip": (QSGD(10), Clip(0.05)),
    "sparse, then elias": (TopK(100), QSGD(7, code="elias")),
    "clip, noise, code": (Clip(0.05), Gaussian(0.01), QSGD(10)),
    "noise on a grid, code": (GridGaussian(0.05, 0.01), QSGD(10)),
}
CASES = {
    "distributed_sgd": lambda: hush.distributed_sgd(clients=3, lr=0.5, batch=8),
    "fedavg": lambda: hush.fedavg(clients=3, **STEPS, weight_decay=0.01),
    "fedavg by epochs": lambda: hush.fedavg(clients=3, epochs=1, lr=0.1, batch=64),
    "fedpaq": lambda: hush.fedpaq(clients=3, **STEPS, levels=4),
    "fedprox": lambda: hush.fedprox(clients=3, **STEPS, mu=0.1),
    "scaffold": lambda: hush.scaffold(clients=3, **STEPS),
    "scaffold, coded": lambda: replace(hush.scaffold(clients=3, **STEPS), uplink=(QSGD(50),)),
    "feddane": lambda: hush.feddane(clients=3, **STEPS),
    "fedadam": lambda: hush.fedadam(clients=3, **STEPS),
    "private_fedpaq": lambda: hush.private_fedpaq(clients=3, steps=2, batch=8, noise_multiplier=0.5),
    "private_fedpaq, output": lambda: hush.private_fedpaq(
        clients=3, steps=2, batch=8, noise_multiplier=0.5, perturbation="output", grid_bits=20
    ),
    "ce_fedavg": lambda: hush.ce_fedavg(clients=3, clip=0.1, **STEPS),
    "ce_fedavg of models": lambda: hush.ce_fedavg(clients=3, clip=5.0, clipping="model", **STEPS),
    "dp_fedavg": lambda: hush.dp_fedavg(3, 6, clip=0.1, noise_multiplier=0.5, **STEPS),
    "dp_fedavg, noise at clients": lambda: hush.dp_fedavg(
        3, 6, clip=0.1, noise_multiplier=0.5, draw="uniform", noise="client", levels=10, **STEPS
    ),
    "dp_fedavg, adaptive": lambda: hush.dp_fedavg(3, 6, adaptive=True, noise_multiplier=0.5, **STEPS),
    "dp_fedavg, correlated": lambda: hush.dp_fedavg(
        2, 6, clip=0.1, noise_multiplier=0.5, draw="cyclic", bands=2, rounds=ROUNDS, **STEPS
    ),
    "secure_dp_fedavg": lambda: hush.secure_dp_fedavg(
        3, 6, bits=16, clip=0.1, dimension=650, noise_multiplier=0.5, noise="discrete_gaussian", weighted=True, **STEPS
    ),
    "fednova": lambda: hush.fednova(clients=3, epochs=1, lr=0.1, batch=64),
    "feddyn, coded": lambda: replace(hush.feddyn(clients=3, **STEPS), uplink=(QSGD(50),)),
    "ditto": lambda: hush.ditto(clients=3, **STEPS),
    "fedper": lambda: hush.fedper([(0, 100), (640, 650)], clients=3, **STEPS),
    "local adam": lambda: hush.fedavg(clients=3, optimiser="adam", **STEPS),
    "over_the_air": lambda: hush.over_the_air(batch=8),
    "fa_ld": lambda: hush.fa_ld(steps=2, lr=1e-4, batch=8, scheme="II", per_round=3),
    "over_the_air, least squares": lambda: hush.over_the_air(steps=2, batch=8, rule=LeastSquares()),
    "scheme II": lambda: averaging(cohort=SchemeII(3)),
    "poisson and noise": lambda: averaging(cohort=Poisson(0.5), channel=Noisy(0.01)),
    "cyclic": lambda: averaging(cohort=Cyclic(4)),
} | {name: (lambda uplink=uplink: averaging(*uplink)) for name, uplink in COMPRESSED.items()}


def simulated(algorithm, rounds=ROUNDS):
    """The model after the last round, what each client sent, and the means of what was looked at."""
    simulation = Simulation(algorithm, digits())
    simulation.advance(rounds)
    ledger = simulation.ledger
    return {
        "model": simulation.models[0],
        "bits": ledger.client_uplink_bits[0].copy(),
        "told": ledger.client_downlink_bits[0].copy(),
    } | {f"info {name}": values for name, values in ledger.read().items()}


def main() -> None:
    found = {f"{case}/{part}": value for case, make in CASES.items() for part, value in simulated(make()).items()}
    if "--exact" not in sys.argv:
        np.savez_compressed(RECORDS, **found)
        return
    kept = dict(np.load(RECORDS))
    for name in sorted(found.keys() | kept.keys()):
        if name not in found or name not in kept or not np.array_equal(found[name], kept[name], equal_nan=True):
            print("differs:", name)


if __name__ == "__main__":
    main()

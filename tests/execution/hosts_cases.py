"""Small runs of every kind, alone or together: hosts_cases.py FOLDER NAMES [COORDINATOR PROCESS PROCESSES]."""

import sys
from pathlib import Path

import numpy as np

import hush

HOW = {"rounds": 4, "evaluate_every": 2, "seed": 1, "progress": False}


def made():
    """Seven clients with 1 to 13 examples, a linear model with 3 classes; the same on every call."""
    draws = np.random.default_rng(3)
    sizes = [1, 13, 4, 5, 2, 8, 7]
    x = draws.normal(size=(sum(sizes), 5)).astype(np.float32)
    y = draws.integers(0, 3, sum(sizes))
    return hush.tasks.arrays(x, y, np.repeat(np.arange(7), sizes), model="softmax", test=(x[:9], y[:9]))


LOCAL = {"steps": 2, "lr": 0.3, "batch": 4}
CASES = {
    "fedpaq": (lambda: hush.fedpaq(clients=5, levels=10, **LOCAL), {}),
    "scaffold": (lambda: hush.scaffold(clients=5, **LOCAL), {"repetitions": 2}),
    "private": (
        lambda: hush.dp_fedavg(clients=3, population=7, clip=0.5, noise_multiplier=2.0, **LOCAL),
        {"delta": 1e-3, "repetitions": 2},
    ),
    "air": (lambda: hush.over_the_air(clients=5, **LOCAL), {}),
    "langevin": (lambda: hush.fa_ld(steps=2, lr=1e-3, batch=1), {"repetitions": 2, "sample_every": 2}),
    "sweep": (
        lambda: hush.fedavg(clients=5, **LOCAL),
        {"sweep": {"local.lr": [0.1, 0.2, 0.3]}, "metrics": ["f1_macro"], "watch": True},
    ),
    "budget": (
        lambda: hush.fedpaq(clients=5, levels=10, **LOCAL),
        {"bit_budget": 3000, "rounds": None, "repetitions": 2, "keep_models": True},
    ),
    "personal": (lambda: hush.ditto(clients=5, **LOCAL), {"repetitions": 2}),
}


def numbers(name, **more):
    """All numbers of a run, by name; times are left out, and what clients remember, which is kept in several ways."""
    algorithm, how = CASES[name]
    result = hush.run(algorithm(), made(), **(HOW | how | more))
    found = {f"state/{key}": value for key, value in result.state.items() if value.dtype.kind in "iuf"}
    found |= {f"records/{key}": result.records[key].to_numpy() for key in result.records}
    found |= {"vector": result.vector}
    found |= {} if result.epsilons is None else {"epsilons": result.epsilons}
    found |= {} if result.samples is None else {"samples": np.asarray(result.samples.values), "mean": result.average}
    apart = ("state/carry.clients", "state/carry.taken", "state/memories")
    return {key: value for key, value in found.items() if not (key.endswith("/seconds") or key.startswith(apart))}


def main():
    folder, names, *who = sys.argv[1:]
    if who:
        hush.distributed.start(who[0], int(who[1]), int(who[2]), seconds=300)
    for name in names.split(","):
        np.savez(Path(folder) / f"{name}-{who[1] if who else 0}.npz", **numbers(name))


if __name__ == "__main__":
    main()

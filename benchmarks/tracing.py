"""What a round's tracing takes before anything is compiled: with layers alike traced once, and each by itself.

    python benchmarks/tracing.py

FedAvg, 20 clients, 8 local steps of batch 64, products in bfloat16, in processor time of one core, the median of three
turns: one client's step, by which an accelerator learns how many fit in its memory, and then that of all 20 side by
side, which finds what the first has traced. Beside them what a client's step holds at the most (`hush.execution.held`).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import hush  # before JAX: each core becomes a device

# isort: split
import jax
import numpy as np

from hush.core.algorithm import init_client, init_server
from hush.core.flat import flat_shape
from hush.core.keys import at, root
from hush.core.round import broadcast, client_step
from hush.execution.held import most_held
from hush.models import layers
from hush.models.products import on_any_backend

CLIENTS, EXAMPLES, TURNS = 20, 128, 3
MODELS = {"lenet5": (28, 28, 1), "resnet18": (32, 32, 3), "mobilenet_v2": (32, 32, 3)}


@contextmanager
def each_by_itself() -> Iterator[None]:
    """Layers traced wherever they stand."""
    once = layers.traced_once
    layers.traced_once = lambda layer, x: layer(x)
    try:
        yield
    finally:
        layers.traced_once = once


def work(model: str) -> tuple[Callable, Callable, jax.ShapeDtypeStruct]:
    """The step of one client, those of all, and the model that both are functions of."""
    count = CLIENTS * EXAMPLES
    x, y = np.zeros((count, *MODELS[model]), np.uint8), np.arange(count) % 10
    owners = np.repeat(np.arange(CLIENTS), EXAMPLES)
    with on_any_backend():
        problem = hush.tasks.arrays(x, y, owners, model=model, scale=1 / 255, precision="bfloat16")
    algorithm = hush.fedavg(CLIENTS, steps=8, lr=0.05, batch=64)

    def one(vector, client=0):
        told = broadcast(algorithm, init_server(algorithm, vector), root(0))
        return client_step(algorithm, at(root(0), client), told, init_client(algorithm, vector), problem.client(client))

    def everybody(vector):
        return jax.vmap(lambda client: one(vector, client))(jax.numpy.arange(CLIENTS))

    return one, everybody, flat_shape(problem)


def seconds(model: str) -> tuple[float, float, int]:
    """To trace one client's step, and then those of all; and what the first holds."""
    one, everybody, vector = work(model)
    jax.clear_caches()
    clocks = [time.process_time()]
    traced = jax.jit(one).trace(vector)
    clocks.append(time.process_time())
    jax.jit(everybody).trace(vector)
    clocks.append(time.process_time())
    return clocks[1] - clocks[0], clocks[2] - clocks[1], most_held(traced.jaxpr.jaxpr)


def main() -> None:
    print(f"{'model':14} {'layers':10} {'one client, s':>14} {'then all, s':>12} {'held, MB':>9}")
    for model in MODELS:
        found: dict[str, list[tuple[float, float, int]]] = {"by itself": [], "once": []}
        for _ in range(TURNS):
            with each_by_itself():
                found["by itself"].append(seconds(model))
            found["once"].append(seconds(model))
        for way, turns in found.items():
            one, everybody, held = (statistics.median(column) for column in zip(*turns, strict=True))
            print(f"{model:14} {way:10} {one:14.2f} {everybody:12.2f} {held / 1e6:9.0f}", flush=True)


if __name__ == "__main__":
    main()

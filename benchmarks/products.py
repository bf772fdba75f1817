"""The floor of a step of W2: its matrix products by themselves, in their shapes, and the machine's peak.

    taskset -c 0 python benchmarks/products.py

In processor time, on one core, in turns; the best turn of a product of large matrices stands for the peak.
"""

from __future__ import annotations

import statistics
import time

import hush  # before JAX: each core becomes a device

# isort: split
import jax
import jax.numpy as jnp
from jax import lax

BATCH, INPUTS, HIDDEN, OUTPUTS = 64, 784, 200, 10  # of W2
# The shapes of both factors, and which axis of each is summed over.
PRODUCTS = {
    "peak": ((1024, 1024), (1024, 1024), (1, 0)),
    "forward, large layer": ((BATCH, INPUTS), (HIDDEN, INPUTS), (1, 1)),
    "gradient, large layer": ((BATCH, HIDDEN), (BATCH, INPUTS), (0, 0)),
    "forward, small layer": ((BATCH, HIDDEN), (OUTPUTS, HIDDEN), (1, 1)),
    "backward, small layer": ((BATCH, OUTPUTS), (OUTPUTS, HIDDEN), (1, 0)),
    "gradient, small layer": ((BATCH, OUTPUTS), (BATCH, HIDDEN), (0, 0)),
}
TURNS = 9


def repeated(left: tuple[int, int], right: tuple[int, int], over: tuple[int, int], times: int):
    """The product so many times in one program, each waiting for the one before."""
    a, b = (jax.random.normal(hush.keys.root(0), shape) for shape in (left, right))

    def again(_, found, a, b):
        return found + lax.dot_general(a + 0 * found, b, (((over[0],), (over[1],)), ((), ())))[0, 0]

    program = jax.jit(lambda a, b: lax.fori_loop(0, times, lambda i, found: again(i, found, a, b), jnp.float32(0)))
    return lambda: program(a, b).block_until_ready()


def main() -> None:
    operations = {name: 2 * left[0] * left[1] * right[1 - over[1]] for name, (left, right, over) in PRODUCTS.items()}
    times = {name: max(10, int(4e9 / count)) for name, count in operations.items()}
    run = {name: repeated(*product, times[name]) for name, product in PRODUCTS.items()}
    took: dict[str, list[float]] = {name: [] for name in run}
    for turn in range(TURNS + 1):
        for name, once in run.items():
            begin = time.process_time()
            once()
            if turn:
                took[name].append((time.process_time() - begin) / times[name])
    peak = operations["peak"] / min(took["peak"])
    print(f"{'':24} {'µs':>9} {'GFLOP/s':>9} {'of peak':>9}")
    for name, seconds in took.items():
        median = statistics.median(seconds)
        rate = operations[name] / median
        print(f"{name:24} {1e6 * median:9.1f} {rate / 1e9:9.1f} {rate / peak:9.2f}")


if __name__ == "__main__":
    main()

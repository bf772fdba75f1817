"""The kernels written for a GPU beside the operations they stand for, layer by layer of MobileNetV2.

    python benchmarks/kernels.py            # on a GPU: a minute
    python benchmarks/kernels.py --quick    # tiny layers, interpreted on a CPU, to see that the script works

20 clients with weights of their own, batches of 64, bfloat16. µs for one client, the best of three stretches; beside it
the bytes of images that must be read and written at least, over that time. `apart` is how far both ways lie from one
another: a few parts in a thousand are bfloat16's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from hush.core.keys import root
from hush.models import layers
from hush.models.layers import RELU6, DepthwiseConvolution, GroupNorm
from hush.models.products import products_in

CLIENTS, BATCH, STRETCHES, CALLS = 20, 64, 3, 10
SHAPES = ((32, 96, 1), (32, 144, 1), (32, 144, 2), (16, 192, 1), (8, 384, 1), (8, 576, 1), (4, 960, 1))
QUICK = ((5, 16, 1), (6, 24, 2))


def passes(layer: Any, then: tuple[Any, ...]) -> dict[str, Callable[..., Any]]:
    """The layer forwards, and back with what comes back to it, for all clients."""

    def forward(layer: Any, x: jax.Array) -> jax.Array:
        with products_in("bfloat16"):
            return jax.vmap(lambda layer, x: jax.vmap(lambda x: layer(x, *then))(x))(layer, x)

    def back(layer: Any, x: jax.Array, came: jax.Array) -> Any:
        return jax.vjp(forward, layer, x)[1](came)

    return {"forward": forward, "back": back}


def measured(call: Callable[..., Any], given: tuple[Any, ...], calls: int) -> tuple[Any, float]:
    """What it gives, and seconds a call."""
    compiled = jax.jit(call)
    found, spent = jax.block_until_ready(compiled(*given)), []
    for _ in range(STRETCHES):
        start = time.perf_counter()
        for _ in range(calls):
            last = compiled(*given)
        jax.block_until_ready(last)
        spent.append((time.perf_counter() - start) / calls)
    return found, min(spent)


def apart(ours: Any, theirs: Any) -> float:
    """The largest distance over length of any array."""
    distance = lambda a, b: float(jnp.linalg.norm((a - b).ravel()) / (jnp.linalg.norm(b.ravel()) + 1e-30))  # noqa: E731
    pairs = zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True)
    return max(distance(a.astype(jnp.float32), b.astype(jnp.float32)) for a, b in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny layers, to see that the script works")
    quick = parser.parse_args().quick
    clients, batch, calls = (2, 2, 1) if quick else (CLIENTS, BATCH, CALLS)
    layers.suits = lambda x: by_kernel  # by which a layer chooses
    print(f"{'layer':34}  {'pass':18} {'kernel, µs':>10} {'TB/s':>5} {'operations, µs':>14} {'apart':>8}")
    for side, channels, stride in QUICK if quick else SHAPES:
        x = jax.random.normal(root(0), (clients, batch, side, side, channels), jnp.bfloat16)
        depthwise = DepthwiseConvolution(channels, 3, root(1), stride=stride, padding=1, bias=False)
        kinds: list[tuple[str, Any, tuple[Any, ...]]] = [
            (f"depthwise {side}² × {channels}, stride {stride}", depthwise, ())
        ]
        if stride == 1:
            kinds.append((f"norm, ReLU6 {side}² × {channels}", GroupNorm(channels, by_kernel=True), (RELU6,)))
        for name, layer, then in kinds:
            stack = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (clients, *leaf.shape)), layer)
            out = x[:, :, ::stride, ::stride]
            for what, call in passes(layer, then).items():
                given = (stack, x) if what == "forward" else (stack, x, jnp.cos(out))
                # Back, a normalisation must go forward first; a depthwise convolution need not.
                least = x.nbytes + out.nbytes if what == "forward" or then else 0
                least += 0 if what == "forward" else 2 * x.nbytes + out.nbytes
                found = []
                for by_kernel in (True, False):  # noqa: B007
                    jax.clear_caches()
                    found.append(measured(call, given, calls))
                (ours, kernel), (theirs, operations) = found
                µs = 1e6 / clients
                print(
                    f"{name:34}  {what:18} {kernel * µs:10.2f} {least / kernel / 1e12:5.2f} {operations * µs:14.2f} "
                    f"{apart(ours, theirs):8.1e}",
                    flush=True,
                )


if __name__ == "__main__":
    main()

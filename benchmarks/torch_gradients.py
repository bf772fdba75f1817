"""Clipped example gradients of a PyTorch module: by hush, by Opacus, and by the same network written in JAX.

    pip install --no-deps opacus==1.6.0 opt_einsum==3.4.0    # for its rows; --no-deps keeps the torch that is here
    python benchmarks/torch_gradients.py               # everything
    python benchmarks/torch_gradients.py --turns 5     # a quick look

The sum of the clipped gradients of 64 examples of one client: an MLP 784-200-10 and LeNet-5, each on one thread. `one
by one` is a call into torch for every example. All contenders take turns, and a ratio is the median of the ratios
within a turn. `length` is that of the sum, which must be the same for all with the same weights (the network in JAX has
weights of its own). The results are also written to benchmarks/results/torch_gradients.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax
from torch import nn

import hush
from hush.core.clipping import clipping, weighted_sum
from hush.core.norms import norms
from turns import ratio

BATCH, BOUND, CLASSES, SIDE = 64, 1.0, 10, 28
RESULTS = Path(__file__).resolve().parent / "results" / "torch_gradients.json"
MOMENT = 0.3  # seconds
Turn = Callable[[], list]  # the leaves of a sum of clipped gradients


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 200), nn.ReLU(), nn.Linear(200, CLASSES))


def lenet5() -> nn.Module:
    convolutions = [nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU()]
    linear = [nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, CLASSES)]
    return nn.Sequential(*convolutions, nn.MaxPool2d(2), nn.Flatten(), *linear)


MODELS = {"mlp": mlp, "lenet5": lenet5}


def examples() -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(0)
    return draws.random((BATCH, SIDE, SIDE, 1), np.float32), np.arange(BATCH) % CLASSES


def by_hush(model: object, one_by_one: bool = False) -> Turn:
    problem = hush.tasks.arrays(*examples(), np.zeros(BATCH, int), model=model)
    start = problem.init(jax.random.key(0))
    rows, weights = jnp.arange(BATCH), jnp.full(BATCH, 1 / BATCH)

    def mapped(params: object) -> object:
        def one(pair: object) -> object:
            return jax.grad(problem.loss)(params, pair[0][None], pair[1][None], jnp.ones(1))

        gradients = lax.map(one, problem.client(0).examples(rows))
        return weighted_sum(clipping(norms(gradients, skip=True), weights, BOUND), gradients)

    whole = lambda params: problem.client(0).clipped_gradient(params, rows, weights, BOUND)  # noqa: E731
    clipped = eqx.filter_jit(mapped if one_by_one else whole)
    return lambda: jax.tree.leaves(jax.block_until_ready(clipped(start)))


def by_opacus(module: nn.Module, ghost: bool) -> Turn:
    from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    x, y = (torch.from_numpy(array) for array in examples())
    # Not by moving axes: torch would take that for channels last, and Opacus finds wrong gradients then.
    x = x.reshape(BATCH, 1, SIDE, SIDE)
    loss: Callable = nn.CrossEntropyLoss()
    if ghost:
        model = GradSampleModuleFastGradientClipping(module, max_grad_norm=BOUND, use_ghost_clipping=True)
    else:
        model = GradSampleModule(module)
    optimizer = (DPOptimizerFastGradientClipping if ghost else DPOptimizer)(
        torch.optim.SGD(model.parameters(), lr=0.0),
        noise_multiplier=0.0,
        max_grad_norm=BOUND,
        expected_batch_size=BATCH,
    )
    if ghost:
        loss = DPLossFastGradientClipping(model, optimizer, loss)

    def turn() -> list:
        optimizer.zero_grad(set_to_none=True)
        loss(model(x), y).backward()
        optimizer.pre_step()
        return [parameter.grad.numpy() for parameter in model.parameters()]

    return turn


def contenders(make: Callable[[], nn.Module], native: str) -> dict[str, Turn]:
    def module() -> nn.Module:
        torch.manual_seed(0)
        return make()

    found = {"hush, PyTorch": by_hush(module())}
    if find_spec("opacus"):
        found |= {"Opacus, hooks": by_opacus(module(), False), "Opacus, ghost": by_opacus(module(), True)}
    return found | {"hush, PyTorch, one by one": by_hush(module(), True), "hush, JAX": by_hush(native)}


def moment(turn: Turn) -> float:
    """The median of as many calls as go into a moment: a few milliseconds alone are not to be trusted."""
    end, took = time.perf_counter() + MOMENT, []
    while not took or time.perf_counter() < end:
        begin = time.perf_counter()
        turn()
        took.append(time.perf_counter() - begin)
    return statistics.median(took)


def measured(name: str, turns: int) -> list[dict]:
    all_ = contenders(MODELS[name], name)
    lengths = {who: float(np.sqrt(sum(np.sum(np.square(leaf)) for leaf in turn()))) for who, turn in all_.items()}
    took: dict[str, list[float]] = {who: [] for who in all_}
    for _ in range(turns):
        for who, turn in all_.items():
            took[who].append(moment(turn))
    return [
        {
            "model": name,
            "contender": who,
            "milliseconds": 1000 * statistics.median(mine),
            "over_hush": ratio(mine, took["hush, PyTorch"]),
            "length": lengths[who],
        }
        for who, mine in took.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=9, help="how often each is timed (default: 9)")
    turns = parser.parse_args().turns
    warnings.simplefilter("ignore")  # of Opacus, on hooks that see inputs without a gradient
    torch.set_num_threads(1)
    if not find_spec("opacus"):
        print("Opacus is not installed, and its rows are left out: see --help", file=sys.stderr)
    lines = [line for name in MODELS for line in measured(name, turns)]
    print(f"{f'a batch of {BATCH}':14} {'':28} {'ms':>9} {'/ hush, PyTorch':>16} {'length':>8}")
    for line in lines:
        print(
            f"{line['model']:14} {line['contender']:28} {line['milliseconds']:9.2f} "
            f"{line['over_hush']:16.2f} {line['length']:8.4f}"
        )
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"cores": os.cpu_count(), "turns": turns, "lines": lines}, indent=1))


if __name__ == "__main__":
    main()

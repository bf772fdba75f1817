"""Opacus on per-example clipping: one client's steps, done and timed whenever a line is read.

    echo "mlp ghost" | OMP_NUM_THREADS=1 python benchmarks/peers/opacus_peer.py

A line names a model and a way: `plain` (PyTorch without clipping), `hooks` (every example's gradient is written down)
or `ghost` (only their norms, then a second backward pass). The answer is one JSON line: milliseconds a step, and how
far the model has moved, which shows that all contenders did the same. The work is that of `one_client.py`.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache

import measure  # noqa: F401  (makes `workloads` importable)
import torch
import torch_models
from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

import one_client
import workloads

Prepared = tuple[torch.nn.Module, torch.optim.Optimizer, Callable]  # the model, what moves it, and the loss


def plain(module: torch.nn.Module, rate: float) -> Prepared:
    return module, torch.optim.SGD(module.parameters(), lr=rate), torch.nn.CrossEntropyLoss()


def private(optimizer: torch.optim.Optimizer) -> dict:
    """What both of Opacus's optimisers are told."""
    return {
        "optimizer": optimizer,
        "noise_multiplier": 0.0,
        "max_grad_norm": one_client.CLIP,
        "expected_batch_size": one_client.BATCH,
    }


def hooks(module: torch.nn.Module, rate: float) -> Prepared:
    wrapped = GradSampleModule(module)
    optimizer = DPOptimizer(**private(torch.optim.SGD(wrapped.parameters(), lr=rate)))
    return wrapped, optimizer, torch.nn.CrossEntropyLoss()


def ghost(module: torch.nn.Module, rate: float) -> Prepared:
    wrapped = GradSampleModuleFastGradientClipping(module, max_grad_norm=one_client.CLIP, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(**private(torch.optim.SGD(wrapped.parameters(), lr=rate)))
    return wrapped, optimizer, DPLossFastGradientClipping(wrapped, optimizer, torch.nn.CrossEntropyLoss())


WAYS = {"plain": plain, "hooks": hooks, "ghost": ghost}


class Contender:
    """One model trained in one way; every call of `steps` does all steps from the same start."""

    def __init__(self, model: str, way: str) -> None:
        workload, data, rows = one_client.job(model)
        self.images = torch.from_numpy(workloads.scale(data.train_images[0]))
        self.labels = torch.from_numpy(data.train_labels[0]).long()
        self.rows = torch.from_numpy(rows)
        module = torch_models.make_module(workload)
        self.parameters = list(module.parameters())
        self.start = [parameter.detach().clone() for parameter in self.parameters]
        self.model, self.optimizer, self.loss = WAYS[way](module, workload.learning_rate)

    def steps(self) -> dict[str, float]:
        with torch.no_grad():
            torch._foreach_copy_(self.parameters, self.start)
        begin = time.perf_counter()
        for rows in self.rows:
            self.optimizer.zero_grad(set_to_none=True)
            self.loss(self.model(self.images[rows]), self.labels[rows]).backward()
            self.optimizer.step()
        took = time.perf_counter() - begin
        with torch.no_grad():
            moved = torch._foreach_sub(self.parameters, self.start)
            norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(moved)))
        return {"milliseconds": 1000 * took / len(self.rows), "moved": float(norm)}


def main() -> None:
    warnings.simplefilter("ignore")  # on hooks that see inputs without a gradient, once a step
    contender = cache(Contender)
    for line in sys.stdin:
        print(json.dumps(contender(*line.split()).steps()), flush=True)


if __name__ == "__main__":
    main()

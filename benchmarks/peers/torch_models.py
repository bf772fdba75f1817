"""The three models as PyTorch modules, for the contenders built on PyTorch."""

from __future__ import annotations

import measure  # noqa: F401  (makes `workloads` importable)
import torch
from torch import nn

import workloads

# Which count is faster depends on the size of the model; the fastest is reported, and says so.
THREAD_VARIANTS = {"1 thread": {"OMP_NUM_THREADS": "1"}, "2 threads": {"OMP_NUM_THREADS": "2"}}


def make_module(workload: workloads.Workload) -> nn.Sequential:
    """The workload's model at the common initial parameters, fed with rows of 784 pixels."""
    module = {
        "softmax": lambda: nn.Sequential(nn.Linear(workloads.PIXELS, workloads.CLASSES)),
        "mlp": lambda: nn.Sequential(
            nn.Linear(workloads.PIXELS, workloads.MLP_HIDDEN),
            nn.ReLU(),
            nn.Linear(workloads.MLP_HIDDEN, workloads.CLASSES),
        ),
        "lenet5": lambda: nn.Sequential(
            nn.Unflatten(1, (1, workloads.IMAGE_SIDE, workloads.IMAGE_SIDE)),
            nn.Conv2d(1, 6, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(400, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, workloads.CLASSES),
        ),
    }[workload.model]()
    with torch.no_grad():
        for parameter, value in zip(module.parameters(), _torch_layout(workload), strict=True):
            parameter.copy_(value)
    return module


def _torch_layout(workload: workloads.Workload):
    """The initial parameters in the order and layout of PyTorch: output first, images channel first."""
    output_first = {1: (0,), 2: (1, 0), 4: (3, 2, 0, 1)}
    for value in workloads.initial_parameters(workload).values():
        yield torch.from_numpy(value.transpose(output_first[value.ndim]).copy())


def logits(module: nn.Module, images) -> object:
    """The module's outputs as a NumPy array."""
    with torch.inference_mode():
        return module(torch.from_numpy(images)).numpy()

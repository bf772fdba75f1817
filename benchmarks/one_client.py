"""The work of the per-example benchmark: so many clipped steps of one client. Plain NumPy, for every environment."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import workloads

STEPS, BATCH, CLIP = 32, 64, 1.0
MODELS = {"mlp": "W2", "lenet5": "W3"}


def job(model: str) -> tuple[workloads.Workload, workloads.Data, np.ndarray]:
    """The model's workload for one client alone, its data, and the rows [steps, batch] of every step."""
    found = workloads.find(MODELS[model])
    alone = replace(found, clients=1, clients_per_round=1, local_steps=STEPS, batch_size=BATCH, test_examples=1)
    rows = workloads.batch_indices(alone, np.random.default_rng(alone.seed))
    return alone, workloads.generate(alone), rows

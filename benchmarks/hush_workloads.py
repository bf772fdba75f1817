"""hush on the workloads: the same library calls that a user makes, one compiled program for all rounds."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

import measure

import hush
import workloads
from hush.core.flat import unravelled
from hush.execution.simulation import Simulation
from hush.models import build


def started(workload: workloads.Workload):
    """hush's own model from the starting point that all contenders share."""
    side = workloads.IMAGE_SIDE
    model = build(workload.model, (side, side, 1), workloads.CLASSES, jax.random.key(0))
    values = workloads.initial_parameters(workload)
    if workload.model == "lenet5":  # ours orders the 400 inputs by row, column, channel
        kernel = values["dense1.kernel"].reshape(16, 5, 5, -1)
        values["dense1.kernel"] = kernel.transpose(1, 2, 0, 3).reshape(400, -1)
    values = {name: value.T if name.startswith("dense") else value for name, value in values.items()}  # ours: [out, in]
    leaves = [leaf for leaf in jax.tree.leaves(model) if eqx.is_array(leaf)]
    assert [leaf.shape for leaf in leaves] == [value.shape for value in values.values()]
    given = iter(values.values())
    return jax.tree.map(lambda leaf: jnp.asarray(next(given)) if eqx.is_array(leaf) else leaf, model)


def as_problem(workload: workloads.Workload, data: workloads.Data):
    """The workload's data and model as a problem of hush's."""
    side = workloads.IMAGE_SIDE
    return hush.tasks.arrays(
        data.train_images.reshape(-1, side, side, 1),
        data.train_labels.reshape(-1),
        np.repeat(np.arange(workload.clients), workload.examples_per_client),
        model=started(workload),
        scale=2 / 255,
        shift=-1.0,
    )


class Hush:
    """A contender; see `peers/measure.py`."""

    def __init__(self, workload: workloads.Workload, data: workloads.Data):
        problem = as_problem(workload, data)
        algorithm = hush.fedavg(
            clients=None if workload.everyone else workload.clients_per_round,
            steps=workload.local_steps,
            lr=workload.learning_rate,
            batch=workload.batch_size,
        )
        if workload.clip_norm is not None:
            algorithm = replace(algorithm, uplink=(hush.uplink.Clip(workload.clip_norm),))
        self.problem = problem
        self.simulation = Simulation(algorithm, problem)
        layout = self.simulation.layout
        self.notes = f"hush {hush.__version__}; {layout.mesh.size} devices, {layout.clients_at_once} clients at once"

    def train(self, rounds: int, finished: measure.Finished) -> None:
        self.simulation.advance(1)
        while not finished(self.simulation.round) and self.simulation.round < rounds:
            self.simulation.advance(min(rounds - self.simulation.round, self.simulation.layout.rounds_at_once))

    def logits(self, images):
        params = unravelled(self.problem, self.simulation.models[0])
        return np.asarray(self.problem.model.apply(params, images.reshape(-1, 28, 28, 1)))


if __name__ == "__main__":
    measure.main("hush", Hush, __doc__, supported=tuple(workloads.WORKLOADS))

"""hush on the workloads: the same library calls that a user makes, one compiled program for all rounds."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

import measure

import hush
import workloads
from hush.core.simulation import Simulation


class Hush:
    """A contender; see `peers/measure.py`."""

    def __init__(self, workload: workloads.Workload, data: workloads.Data):
        side = workloads.IMAGE_SIDE
        clients = np.repeat(np.arange(workload.clients), workload.examples_per_client)
        problem = hush.tasks.arrays(
            data.train_images.reshape(-1, side, side, 1),
            data.train_labels.reshape(-1),
            clients,
            model=workload.model,
            scale=2 / 255,
            shift=-1.0,
        )
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
        from hush.core.engine import unravelled

        params = unravelled(self.problem, self.simulation.models[0])
        return np.asarray(self.problem.model.apply(params, images.reshape(-1, 28, 28, 1)))


if __name__ == "__main__":
    measure.main("hush", Hush, __doc__, supported=tuple(workloads.WORKLOADS))

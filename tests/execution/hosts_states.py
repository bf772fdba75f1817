"""Runs whose clients remember, and what of that each process has: hosts_states.py FOLDER ADDRESS PROCESS COUNT."""

import json
import sys
from pathlib import Path

import hosts_cases
import jax
import numpy as np

import hush
from hush.execution import hosts, table
from hush.execution.simulation import Simulation

PIECE_BYTES = 200  # two states of 18 numbers and a checksum


def advanced(make, **how):
    """A run of several windows, which ends in the middle of one."""
    algorithm = make(clients=5, **hosts_cases.LOCAL)
    simulation = Simulation(algorithm, hosts_cases.made(), seed=1, streamed=True, **how)
    for _ in range(2):
        simulation.advance(simulation.layout.rounds_at_once)
    simulation.advance(3)
    return simulation


def main(folder, coordinator, process, processes):
    hush.distributed.start(coordinator, process, processes, seconds=300)
    sizes, at_first = [], hosts.at_first

    def measured(action, like):
        found = at_first(action, like)
        sizes.append(sum(leaf.nbytes for leaf in jax.tree.leaves(found)))
        return found

    hosts.at_first, table.PIECE_BYTES = measured, PIECE_BYTES
    with hosts.together():
        simulation, personal = advanced(hush.scaffold), advanced(hush.ditto)
        measures = personal.evaluate_clients()
    parts = [shard.data for leaf in jax.tree.leaves(simulation.clients) for shard in leaf.addressable_shards]
    named = {str(index): np.asarray(part) for index, part in enumerate(parts)}
    np.savez(folder / f"{process}.npz", **named, **measures)
    said = {
        "bytes on devices": sum(part.nbytes for part in parts),
        "largest piece": max(sizes),
        "known on disk": int(simulation._supply.memories.state()["memories/lane"].size),
    }
    (folder / f"{process}.json").write_text(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))

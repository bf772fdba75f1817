"""The app that Flower starts beside the SuperLink: a run of hush over the nodes of a Flower federation.

    settings   a settings file of hush, as for `hush run`
    folder     the run folder; a run that was stopped or killed goes on where its last round ended
    nodes      which node stands for which client: see `roster`
    rehearse   all randomness from the run's seed, to lay it beside a simulation: protects nobody

All paths are the server's. Flower keeps nothing of a run that was killed; the folder does.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from hush.network.agreement import agree, in_words
from hush.network.desk import Desk
from hush.network.flower.exchange import ByPost
from hush.network.flower.grid import GridPost
from hush.network.flower.roster import Roster
from hush.network.serving import serve
from hush.settings import Experiment, build, read

REQUIRED = ("settings", "folder", "nodes")
GRACE_SECONDS = 5.0  # for a round to be finished and written when Flower has gone


def main(grid: Grid, context: Context) -> None:
    """Run what the settings file says, with the nodes that are there."""
    threading.Thread(target=_leave_with, args=(os.getppid(),), daemon=True).start()
    config = context.run_config
    if missing := [name for name in REQUIRED if not config.get(name)]:
        raise ValueError(f"--run-config must say {', '.join(REQUIRED)}; missing: {', '.join(missing)}")
    experiment = build(read(str(config["settings"])))
    run_over(grid, experiment, Roster.read(str(config["nodes"])), config)


def run_over(grid: Grid, experiment: Experiment, roster: Roster, config: Mapping[str, Any]) -> None:
    """The same with a settings file and a roster that have been read."""
    algorithm, problem, rehearsal = experiment.algorithm, experiment.problem(), bool(config.get("rehearse", False))
    roster.check(problem.population.clients)
    agreement = agree(algorithm, problem, experiment.run, rehearsal, experiment.task)
    for name, text in in_words(agreement, algorithm, problem).items():
        _say(f"{name}: {text}")

    @contextlib.contextmanager
    def connect(desk: Desk) -> Iterator[ByPost]:
        exchange = ByPost(GridPost(grid), desk, roster, _say)
        yield exchange
        exchange.close()

    try:
        serve(
            algorithm,
            problem,
            experiment.run,
            connect,
            rules=experiment.network,
            folder=str(config["folder"]),
            rehearsal=rehearsal,
            task=experiment.task,
            progress=False,
        )
    except KeyboardInterrupt as stop:  # which Flower would take for a crash, without a word
        raise RuntimeError(f"stopped {stop}; the same run configuration goes on where this ended".strip()) from stop


def _leave_with(parent: int) -> None:
    """End this process when Flower's has ended: calls to a SuperLink that is gone are repeated for ever.

    What must last is on the disk, and the folder must be free for the run to go on.
    """
    while os.getppid() == parent:
        time.sleep(1)
    time.sleep(GRACE_SECONDS)
    os._exit(1)


def _say(text: str) -> None:
    print(text, flush=True)


app = ServerApp()
app.main()(main)

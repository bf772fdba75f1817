"""Several processes of one run: the options that say so, and how a process of the command line becomes one of them.

JAX is imported only where there are several.
"""

import os
import sys
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from hush.distributed import in_a_job

AUTO = "auto"
PANEL = "Several processes (each is given the same command; see also hush launch)"
# The end of a pipe that its launcher holds open for as long as it lives.
LAUNCHER = "HUSH_LAUNCHER"

CoordinatorOption = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Where process 0 is, for all others to reach.", rich_help_panel=PANEL),
]
ProcessOption = Annotated[
    int | None, typer.Option(metavar="I", help="Which process this is, from 0.", rich_help_panel=PANEL)
]
ProcessesOption = Annotated[
    str | None,
    typer.Option(
        metavar="N|auto",
        help="How many processes there are; auto: as the job of SLURM, Open MPI or Kubernetes says, which is also "
        "done unasked under srun and mpirun with more than one task. 1: this one alone.",
        rich_help_panel=PANEL,
    ),
]


def begin(coordinator: str | None, process: int | None, processes: str | None) -> None:
    """Become one of several processes, where that is asked for, or where the job is clearly one of several."""
    _outlive_nobody()
    several = _wanted(coordinator, process, processes)
    if several is None:
        return
    from hush.distributed import start

    start(**several)
    _keep_standard_output()
    from hush.execution import hosts

    if not hosts.speaks():  # process 0 says it for all
        import warnings

        warnings.simplefilter("ignore")


def _wanted(coordinator: str | None, process: int | None, processes: str | None) -> dict[str, Any] | None:
    """What `start` is to be told; None where this process runs alone."""
    alone = coordinator is None and process is None
    if processes is None and alone:
        return {} if in_a_job() else None
    if processes == AUTO:
        if not alone:
            raise ValueError("--processes auto finds out the coordinator and which process this is: leave these")
        return {}
    if processes is None or not processes.isdigit() or int(processes) < 1:
        raise ValueError(f"--processes must be a number from 1, or auto, found {processes}")
    if alone and int(processes) == 1:
        return None
    return {"coordinator": coordinator, "process": process, "processes": int(processes)}


def remember_code(code: object) -> None:
    """What this process exits with, should it have to leave without those that are gone."""
    hosts = sys.modules.get("hush.execution.hosts")
    if hosts is not None and hosts.processes() > 1:
        hosts.watch().code = code if isinstance(code, int) else int(code is not None)


def _keep_standard_output() -> None:
    """For what we print: the library that connects processes prints to it as well."""
    ours = os.dup(1)
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    sys.stdout = os.fdopen(ours, "w", buffering=1, encoding=sys.stdout.encoding, errors=sys.stdout.errors)


def _outlive_nobody() -> None:
    """Stop when the launcher is gone, however it went: its end of the pipe is then closed."""
    if (number := os.environ.pop(LAUNCHER, "")) == "":
        return

    def wait() -> None:
        import signal

        os.read(int(number), 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="hush-launched", daemon=True).start()

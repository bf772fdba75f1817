"""`run`: an algorithm on a problem for so many rounds, with records, checkpoints and progress as it goes."""

import contextlib
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from hush.core.algorithm import Algorithm, InTurn
from hush.core.check import flag
from hush.core.problem import Problem
from hush.core.rehearsal import rehearse
from hush.execution import hosts
from hush.execution.admission import check_pair
from hush.execution.lanes import Sweep, check_sweep, lay_out
from hush.execution.simulation import Simulation
from hush.runs.bits import costs_of
from hush.runs.limits import limits_of
from hush.runs.loop import Loop
from hush.runs.progress import Display
from hush.runs.result import Result
from hush.runs.samples import Samples, Thinning
from hush.runs.spending import Spending
from hush.runs.telling import OnEvaluate, accompanied
from hush.runs.telling import check as check_callback
from hush.settings import RunSettings, tables_of
from hush.settings.run import DELTA, EVALUATE_EVERY, MOST_SAMPLES, WHEN_SPENT
from hush.stopping import listening
from hush.store import RunFolder, Unreadable
from hush.store.files import CLIENT_STATES
from hush.store.fingerprint import Fingerprint, fingerprint
from hush.store.reading import began
from hush.tasks.classes import class_counts, class_names
from hush.tasks.metrics import Asked
from hush.tasks.problem import Supervised


def run(
    algorithm: Algorithm | InTurn,
    problem: Problem,
    rounds: int | None = None,
    *,
    seed: int = 0,
    repetitions: int | Sequence[int] = 1,
    evaluate_every: int = EVALUATE_EVERY,
    sweep: Sweep | None = None,
    bit_budget: float | None = None,
    client_bit_budget: float | None = None,
    capacity: float | None = None,
    delta: float = DELTA,
    unit: str | None = None,
    trust: str | None = None,
    epsilon: float | None = None,
    when_spent: str = WHEN_SPENT[0],
    metrics: Asked = (),
    evaluate_clients: bool | None = None,
    watch: bool = False,
    keep_models: bool = False,
    sample_every: int | None = None,
    warm_up: int = 0,
    most_samples: int = MOST_SAMPLES,
    folder: str | Path | None = None,
    resume: bool = False,
    replace: bool = False,
    clients_at_once: int | None = None,
    devices: int | None = None,
    streamed: bool | None = None,
    progress: bool = True,
    on_evaluate: OnEvaluate | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Result:
    """Run `algorithm` on `problem` and return its records and models.

    rounds, seed, repetitions   how long, from which seed, how many independent repetitions (or a list of their numbers)
    evaluate_every              rounds between evaluations; the initial model and the last round's are always evaluated
    sweep                       {"local.lr": [0.01, 0.1], …}: every point of the grid, in the same program; or a list of
                                points [{"local.lr": 0.1, "server.lr": 1.0}, …], whose settings go together
    bit_budget                  stop at the last round whose uplink bits, all clients together, it pays for; with it,
                                `rounds` may be left out: as many as it pays for (paper fedpaq-dp, eq 11)
    client_bit_budget           no client sends more uplink bits than these in the whole run: see `when_spent`
    capacity                    of the uplink in bits a second, shared by all: adds the column `channel_seconds`
    delta, unit, trust          of the privacy guarantee, which every run reports or says why there is none
    epsilon                     a budget of ε at that δ, which ends the run where all clients pay alike
    when_spent                  where a client has spent a budget of its own, of bits or of ε, the run stops; or, with
                                "retire", that client takes part no more, and the others go on for all `rounds`
    metrics                     of all test predictions: names of scikit-learn's scorers and a few others, or functions
                                of (targets [n], outputs [n, …]), in a list or a mapping by name: see hush.metrics
    evaluate_clients            measure the model, and each client's personal one, on that client's own data: means and
                                the worst tenth in the records, each client in `result.clients`; if not said, this is
                                done where clients have personal models
    watch                       keep the length and the angle of every client's update in `result.updates`
    keep_models                 keep the model of each evaluation in `result.history`
    sample_every, warm_up       take the models every so many rounds after a warm-up as samples of a posterior: see
                                `result.posterior`; test predictions are averaged over them as they come
    most_samples                how many are kept for each lane, evenly thinned; with a folder all are, on disk
    folder, resume, replace     write a run folder as the run goes; go on from the checkpoint that is in it, with the
                                same algorithm, problem and seed; or replace the run that is in it
    clients_at_once, devices    how the work is laid out; changes no result, and is chosen for the machine if not given
    streamed                    let only the clients of the next rounds lie on the devices, and read those of later ones
                                meanwhile; changes no result, and is so for tasks on disk (`hush.tasks.stored`) if not
                                given
    progress                    show how it gets on: live on a terminal and in a notebook, lines elsewhere; or nothing
    on_evaluate                 a function that is told of each evaluation once it is written, or a tracker of
                                `hush.trackers`; where it fails, the run stops, and can be resumed
    """
    check_pair(algorithm, problem)
    if isinstance(problem, Supervised) and problem.is_remote:
        raise ValueError("the examples of this task lie on devices, and none of them here: run it with hush serve")
    asked = RunSettings(
        rounds=rounds,
        seed=seed,
        repetitions=repetitions,
        evaluate_every=evaluate_every,
        sweep=sweep,
        bit_budget=bit_budget,
        client_bit_budget=client_bit_budget,
        capacity=capacity,
        delta=delta,
        unit=unit,
        trust=trust,
        epsilon=epsilon,
        when_spent=when_spent,
        metrics=metrics,
        evaluate_clients=evaluate_clients,
        watch=watch,
        keep_models=keep_models,
        sample_every=sample_every,
        warm_up=warm_up,
        most_samples=most_samples,
        clients_at_once=clients_at_once,
        devices=devices,
        streamed=streamed,
    )
    for name, value in (("resume", resume), ("replace", replace), ("progress", progress)):
        flag(name, value)
    _check_folder(folder, resume, replace)
    check_callback(on_evaluate)
    files = None if folder is None else RunFolder(folder)
    # Of several processes one may wait in vain, inside a compiled program: that process is ours to end.
    with listening(leave=hosts.processes() > 1) as stopping, hosts.together():
        progress = progress and hosts.speaks()
        on_evaluate = _by_first(on_evaluate)
        stopping.spoken = progress
        loop = _prepared(algorithm, problem, asked, files, settings)
        _check_same(loop)
        loop.on_evaluate = on_evaluate
        stopping.check()
        with contextlib.nullcontext() if files is None else files:
            if files is not None:
                open_folder(files, loop, problem, resume, replace)
            with Display(loop.rounds or 1, start=loop.simulation.round, enabled=progress) as display:
                return accompanied(on_evaluate, lambda: loop.run(display, stopping))


def _prepared(
    algorithm: Algorithm | InTurn,
    problem: Problem,
    asked: RunSettings,
    files: RunFolder | None,
    settings: Mapping[str, Any] | None,
) -> Loop:
    """All that can be checked and made ready before a folder is touched."""
    check_sweep(algorithm, asked.sweep)
    lanes = lay_out(asked.repetitions, asked.sweep)
    spending = Spending(algorithm, problem, lanes, asked.rounds, asked.delta, asked.unit, asked.trust)
    if asked.client_bit_budget is not None:
        rehearse(algorithm, problem)  # what costs are asked of keeps to the contract
    priced = functools.cache(lambda: costs_of(algorithm, problem, lanes))
    limits, allowance = limits_of(asked, spending, priced)
    simulation = Simulation(
        algorithm,
        problem,
        seed=asked.seed,
        repetitions=asked.repetitions,
        sweep=asked.sweep,
        clients_at_once=asked.clients_at_once,
        devices=asked.devices,
        watch=asked.watch,
        allowance=allowance,
        bit_budget=asked.bit_budget,
        streamed=asked.streamed,
        states_file=None if files is None else CLIENT_STATES.path(files.path),
    )
    simulation.end_at(limits.last)
    described = dict(settings) if settings is not None else tables_of(algorithm, problem, asked)
    depends_on = asked.identity(retiring=allowance is not None)
    identity = functools.cache(lambda: fingerprint(algorithm, problem, depends_on))
    samples = None
    if asked.sample_every is not None:
        samples = Samples(Thinning(asked.sample_every, asked.warm_up, asked.most_samples), simulation, files)
    return Loop(simulation, limits, spending, asked, described, identity, files, samples)


def open_folder(files: RunFolder, loop: Loop, problem: Problem, resume: bool, replace: bool) -> None:
    """Begin the folder, or go on in it: nothing is written there before all is checked."""
    state = files.reopen() if resume else None
    found = None if state is None else [int(state["round"]), float(state["seconds"])]
    if hosts.agreed(found) != found:
        raise ValueError(
            f"process {hosts.process()} finds another checkpoint in {files.path} than process 0: "
            "the folder must lie on a disk that all processes see"
        )
    if state is None:  # a new run, or one that was ended before its first checkpoint
        files.begin(loop.settings, class_counts(problem), class_names(problem), replace or resume)
        return
    try:
        loop.restore(state)
    except Unreadable:
        raise  # it names its file
    except ValueError as error:
        raise ValueError(f"{files.path} cannot be resumed: {error}") from error
    files.go_on(loop.settings, pd.DataFrame(loop.rows) if loop.rows else None)


def _by_first(callback: OnEvaluate | None) -> OnEvaluate | None:
    """Of several processes the first tells; whether there is anybody to tell is the same in all of them."""
    there = hosts.agreed(callback is not None)
    return callback if hosts.speaks() else (lambda _: None) if there else None


def _check_same(loop: Loop) -> None:
    """Refuse to run with other processes that were given something else."""
    if hosts.processes() == 1:
        return
    ours = loop.fingerprint()
    if different := Fingerprint(hosts.agreed(ours.texts), {}).differences(ours):
        raise ValueError(
            f"process {hosts.process()} was given another run than process 0: different are {', '.join(different)}"
        )


def _check_folder(folder: str | Path | None, resume: bool, replace: bool) -> None:
    if folder is None:
        if resume or replace:
            raise ValueError(f"{'resume' if resume else 'replace'} needs the folder of a run")
        return
    if not isinstance(folder, str | Path) or str(folder) == "":
        raise ValueError(f"folder must name a folder, found {folder!r}")
    if resume and replace:
        raise ValueError("a run is either resumed or replaced, found resume=True and replace=True")
    if resume and not began(Path(folder)):
        raise ValueError(f"{folder} holds no run to resume")

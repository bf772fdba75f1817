"""`run`: an algorithm on a problem for so many rounds, with records, checkpoints and progress as it goes."""

import contextlib
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from hush.core.algorithm import Algorithm, InTurn
from hush.core.check import flag, known, positive, whole
from hush.core.problem import Problem
from hush.execution.admission import check_pair
from hush.execution.lanes import check_sweep, lay_out, numbered
from hush.execution.simulation import Simulation
from hush.runs.loop import Limits, Work
from hush.runs.progress import Display
from hush.runs.result import Result
from hush.runs.samples import Plan, Samples
from hush.runs.spending import Spending
from hush.settings import describe
from hush.stopping import listening
from hush.store import RunFolder, Unreadable
from hush.store.fingerprint import fingerprint
from hush.store.reading import began
from hush.tasks.classes import class_counts

DELTA = 1e-5
WHEN_SPENT = ("stop", "retire")


def run(
    algorithm: Algorithm | InTurn,
    problem: Problem,
    rounds: int | None = None,
    *,
    seed: int = 0,
    repetitions: int | Sequence[int] = 1,
    evaluate_every: int = 10,
    sweep: Mapping[str, Sequence[float]] | None = None,
    bit_budget: float | None = None,
    capacity: float | None = None,
    delta: float = DELTA,
    unit: str | None = None,
    trust: str | None = None,
    epsilon: float | None = None,
    when_spent: str = "stop",
    watch: bool = False,
    keep_models: bool = False,
    sample_every: int | None = None,
    warm_up: int = 0,
    most_samples: int = 1000,
    folder: str | Path | None = None,
    resume: bool = False,
    replace: bool = False,
    clients_at_once: int | None = None,
    devices: int | None = None,
    progress: bool = True,
    settings: Mapping[str, Any] | None = None,
) -> Result:
    """Run `algorithm` on `problem` and return its records and models.

    rounds, seed, repetitions   how long, from which seed, how many independent repetitions (or a list of their numbers)
    evaluate_every              rounds between evaluations; the last round is always evaluated
    sweep                       {"local.lr": [0.01, 0.1], …}: every point of the grid, in the same program
    bit_budget                  stop at the last round whose uplink bits, all clients together, it pays for; with it,
                                `rounds` may be left out: as many as it pays for (paper 000, eq 11)
    capacity                    of the uplink in bits a second, shared by all: adds the column `channel_seconds`
    delta, unit, trust          of the privacy guarantee, which every run reports or says why there is none
    epsilon, when_spent         a budget of ε at that δ: where it is spent, the run stops, or, with "retire" and where
                                each client pays for its own rounds, the client takes part no more
    watch                       keep the length and the angle of every client's update in `result.updates`
    keep_models                 keep the model of each evaluation in `result.history`
    sample_every, warm_up       take the models every so many rounds after a warm-up as samples of a posterior: see
                                `result.posterior`; test predictions are averaged over them as they come
    most_samples                how many are kept for each lane, evenly thinned; with a folder all are, on disk
    folder, resume, replace     write a run folder as the run goes; go on from the checkpoint that is in it, with the
                                same algorithm, problem and seed; or replace the run that is in it
    clients_at_once, devices    how the work is laid out; changes no result, and is chosen for the machine if not given
    progress                    show how it gets on: live on a terminal, plain lines elsewhere; or nothing
    """
    check_pair(algorithm, problem)
    _check(rounds, bit_budget, capacity, epsilon, delta, when_spent)
    for name, value in (("watch", watch), ("keep_models", keep_models), ("resume", resume), ("replace", replace)):
        flag(name, value)
    flag("progress", progress)
    whole("evaluate_every", evaluate_every)
    sampling = _plan(sample_every, warm_up, most_samples, rounds)
    _check_folder(folder, resume, replace)
    with listening() as stopping:
        stopping.spoken = progress
        check_sweep(algorithm, sweep)
        spending = Spending(algorithm, problem, lay_out(repetitions, sweep), rounds, delta, unit, trust)
        limits, allowance = _limits(rounds, bit_budget, epsilon, when_spent, spending)
        simulation = Simulation(
            algorithm,
            problem,
            seed=seed,
            repetitions=repetitions,
            sweep=sweep,
            clients_at_once=clients_at_once,
            devices=devices,
            watch=watch,
            allowance=allowance,
            bit_budget=bit_budget,
        )
        asked = {
            "rounds": rounds,
            "seed": seed,
            "repetitions": repetitions if isinstance(repetitions, int) else list(repetitions),
            "evaluate_every": evaluate_every,
            "bit_budget": bit_budget,
            "capacity": capacity,
            "delta": delta,
            "unit": unit,
            "trust": trust,
            "epsilon": epsilon,
            "when_spent": when_spent,
            "watch": watch,
            "keep_models": keep_models,
            "sample_every": sample_every,
            "warm_up": warm_up,
            "most_samples": most_samples,
        }
        described = dict(settings) if settings is not None else describe(algorithm, problem, asked, sweep)
        retiring = RETIRING if allowance is not None else ()
        names = list(numbered(repetitions))
        depends_on = {name: asked[name] for name in (*MAKES_IT, *retiring)} | {
            "repetitions": len(names) if names == list(range(len(names))) else str(names),
            "sweep": sweep,
        }
        identity = functools.cache(lambda: fingerprint(algorithm, problem, depends_on))
        files = None if folder is None else RunFolder(folder)
        samples = None if sampling is None else Samples(sampling, simulation, files)
        work = Work(
            simulation, limits, spending, evaluate_every, capacity, keep_models, described, identity, files, samples
        )
        stopping.check()
        with contextlib.nullcontext() if files is None else files:
            if files is not None:
                _open(files, work, described, problem, resume, replace)
            with Display(limits.last or 1, start=simulation.round, enabled=progress) as display:
                return work.go(display, stopping)


# Of how a run is run, what makes it the run it is; and what else does where clients retire.
MAKES_IT = ("seed", "sample_every", "warm_up", "most_samples", "watch", "keep_models")
RETIRING = ("epsilon", "delta", "unit", "trust")


def _open(
    files: RunFolder, work: Work, described: dict[str, Any], problem: Problem, resume: bool, replace: bool
) -> None:
    """Begin the folder, or go on in it: nothing is written there before all is checked."""
    state = files.reopen() if resume else None
    if state is None:  # a new run, or one that was ended before its first checkpoint
        files.begin(described, class_counts(problem), replace or resume)
        return
    try:
        work.restore(state)
    except Unreadable:
        raise  # it names its file
    except ValueError as error:
        raise ValueError(f"{files.path} cannot be resumed: {error}") from error
    files.go_on(described, pd.DataFrame(work.rows) if work.rows else None)


def _plan(sample_every: int | None, warm_up: int, most_samples: int, rounds: int | None) -> Plan | None:
    if sample_every is None:
        if warm_up:
            raise ValueError(f"warm_up goes with sample_every, found warm_up={warm_up} without it")
        return None
    plan = Plan(sample_every, warm_up, most_samples)
    if rounds is not None and plan.after(0) > rounds:
        raise ValueError(
            f"no sample would be taken: the first comes in round {plan.after(0)} (warm_up={warm_up}, "
            f"sample_every={sample_every}), but rounds={rounds}"
        )
    return plan


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


def _check(
    rounds: int | None,
    bit_budget: float | None,
    capacity: float | None,
    epsilon: float | None,
    delta: float,
    when_spent: str,
) -> None:
    if rounds is None and bit_budget is None and (epsilon is None or when_spent == "retire"):
        raise ValueError("a run needs rounds, a bit_budget, or an epsilon at which to stop")
    if rounds is not None:
        whole("rounds", rounds)
    for name, value in (("bit_budget", bit_budget), ("capacity", capacity), ("epsilon", epsilon), ("delta", delta)):
        if value is not None:
            positive(name, value)
    if delta >= 1:
        raise ValueError(f"delta must be a number above 0 and below 1, found {delta}")
    known("thing to do when the privacy budget is spent", when_spent, WHEN_SPENT)


def _limits(
    rounds: int | None, bit_budget: float | None, epsilon: float | None, when_spent: str, spending: Spending
) -> tuple[Limits, Any]:
    """What ends the run, and what ends the part of a client."""
    if epsilon is None:
        return Limits(rounds, bit_budget), None
    if not spending:
        raise ValueError(f"an epsilon of {epsilon} cannot be kept: {spending.reason}")
    if not spending.per_client:
        if when_spent == "retire":
            raise ValueError("all clients spend alike under this guarantee: when_spent must be 'stop'")
        private = spending.rounds_within(epsilon)
        if private == 0:
            raise ValueError(f"an epsilon of {epsilon} does not pay for one round")
        return Limits(rounds, bit_budget, epsilon, private), None
    if when_spent == "retire" and not spending.may_retire:
        raise ValueError(
            "a client that stops alone changes what the others weigh, on which their ε rests: when_spent must be 'stop'"
        )
    allowance = spending.allowance(epsilon)
    if when_spent == "retire":
        return Limits(rounds, bit_budget, epsilon), allowance
    return Limits(rounds, bit_budget, epsilon, allowance=allowance), None

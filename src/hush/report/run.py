"""`run`: an algorithm on a problem for so many rounds, with records, checkpoints and progress as it goes."""

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hush.core.algorithm import Algorithm, InTurn
from hush.core.check import known, positive, whole
from hush.core.contract import Problem
from hush.core.lanes import lay_out
from hush.core.simulation import Simulation
from hush.report.folder import RunFolder
from hush.report.holdings import holdings
from hush.report.progress import Display
from hush.report.result import Result
from hush.report.sampling import Plan, Samples
from hush.report.spending import Spending
from hush.report.work import Limits, Work
from hush.settings import describe

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
    folder, resume              write a run folder as the run goes; go on from the checkpoint that is in it
    clients_at_once, devices    how the work is laid out; changes no result, and is chosen for the machine if not given
    progress                    show how it gets on: live on a terminal, plain lines elsewhere; or nothing
    """
    _check(rounds, bit_budget, capacity, epsilon, delta, when_spent)
    whole("evaluate_every", evaluate_every)
    if resume and folder is None:
        raise ValueError("resume needs the folder to resume from")
    sampling = None if sample_every is None else Plan(sample_every, warm_up, most_samples)
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
    files = None if folder is None else RunFolder(folder)
    samples = None if sampling is None else Samples(sampling, simulation, None if files is None else files.path)
    work = Work(simulation, limits, spending, evaluate_every, capacity, keep_models, described, files, samples)
    if files is not None and resume:
        files.reopen(described)
        work.restore(files)
    elif files is not None:
        files.begin(described, holdings(problem))
    with (
        Display(limits.last or 1, start=simulation.round, enabled=progress) as display,
        _deferred_interrupt() as interrupted,
    ):
        return work.go(display, interrupted)


@contextmanager
def _deferred_interrupt() -> Iterator[threading.Event]:
    """Ctrl-C sets the event, so that a round is never cut in two; a second one stops at once."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    earlier = signal.getsignal(signal.SIGINT)

    def hear(*_: Any) -> None:
        event.set()
        signal.signal(signal.SIGINT, earlier)

    signal.signal(signal.SIGINT, hear)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, earlier)


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
    allowance = spending.allowance(epsilon)
    if when_spent == "retire":
        return Limits(rounds, bit_budget, epsilon), allowance
    return Limits(rounds, bit_budget, epsilon, allowance=allowance), None

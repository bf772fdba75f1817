"""A run over devices: the loop of `hush.run`, with a federation in place of a simulation."""

import contextlib
import functools
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from hush.core import keys
from hush.core.algorithm import Algorithm, InTurn
from hush.core.device import on_device
from hush.core.flat import initial
from hush.core.problem import Problem
from hush.execution.admission import check_pair
from hush.execution.lanes import lay_out
from hush.network.agreement import Agreement, agree, check_apart, guarantee
from hush.network.desk import Desk
from hush.network.device import Device, rehearsed_key
from hush.network.federation import Exchange, Federation, federation
from hush.network.guard import Guard
from hush.network.memory import InMemory
from hush.network.secure_sum import Verifier
from hush.runs.bits import costs_of
from hush.runs.errors import Diverged
from hush.runs.limits import limits_of
from hush.runs.loop import Loop
from hush.runs.progress import Display
from hush.runs.result import Result
from hush.runs.run import open_folder
from hush.runs.samples import Samples, Thinning
from hush.runs.spending import Spending
from hush.settings import NetworkSettings, RunSettings, tables_of
from hush.settings.tables import plain
from hush.stopping import Stopping, listening
from hush.store import RunFolder
from hush.store.files import JOURNAL
from hush.store.fingerprint import fingerprint
from hush.store.journal import Journal, told_in
from hush.store.reading import began

DRAWN = "is drawn exactly, on a grid, by each device or by the server, from its operating system; nobody can repeat it"
REHEARSED = "of this rehearsal comes from its seed, so that it can be laid beside a simulation, and protects nobody"
# What only a simulation can do: several runs side by side, and looking at clients.
ONLY_SIMULATED = ("repetitions", "sweep", "watch", "evaluate_clients")
OWN_NOISE = ("local", "sum")  # trust under which clients add the noise, and weights are nobody's secret
Connect = Callable[[Desk], contextlib.AbstractContextManager[Exchange]]


def serve(
    algorithm: Algorithm | InTurn,
    problem: Problem,
    run: RunSettings,
    connect: Connect,
    *,
    rules: NetworkSettings | None = None,
    folder: str | Path | None = None,
    replace: bool = False,
    rehearsal: bool = False,
    verifier: Verifier | None = None,
    task: Any = None,
    progress: bool = True,
) -> Result:
    """Run `algorithm` with real devices, and return records and model as `hush.run` does.

    connect     what brings devices to the desk: a transport
    folder      a run folder; one in which this federation was begun is gone on with, from its last round
    rehearsal   all randomness from the run's seed, so that a simulation can be laid beside it: protects nobody
    verifier    by whom devices are known to each other, which secure sums need (`hush.network.secure_sum`)
    """
    check_pair(algorithm, problem)
    _check(run)
    found, _ = guarantee(algorithm, problem, run)
    rules = rules or NetworkSettings()
    if verifier is None and not rehearsal and any(phase.channel.sums_codes for phase in algorithm.phases):
        raise ValueError("a secure sum needs devices that know each other by their enrolment; give a verifier")
    if not rehearsal:
        check_apart(found)
        if found is not None and found.first.trust in OWN_NOISE:
            on_device(algorithm)  # refused here, before devices are asked to
    if found is not None and found.first.trust == "server":
        _check_sums(rules)
        if not rehearsal:
            _check_end(run)
    agreement = agree(algorithm, problem, run, rehearsal, task)
    noise = REHEARSED if rehearsal else DRAWN
    spending = Spending(algorithm, problem, lay_out(1, None), run.rounds, run.delta, run.unit, run.trust, noise)
    limits, allowance = limits_of(run, spending, lambda: costs_of(algorithm, problem, lay_out(1, None)))
    files = None if folder is None else RunFolder(folder)
    with listening() as stopping, contextlib.nullcontext() if files is None else files:
        made = federation(
            algorithm,
            problem,
            rules,
            agreement.digest,
            share=found is None or found.first.trust in OWN_NOISE,
            rehearsal=run.seed if rehearsal else None,
            verifier=verifier,
            allowance=allowance,
            bit_budget=run.bit_budget,
            client_bit_budget=limits.client_bit_budget,
            stopped=lambda: bool(stopping),
        )
        identity = functools.cache(lambda: fingerprint(algorithm, problem, run.identity(allowance is not None)))
        samples = None
        if run.sample_every is not None:
            samples = Samples(Thinning(run.sample_every, run.warm_up, run.most_samples), made, files)
        described = tables_of(algorithm, problem, run) | {"network": plain(asdict(made.rules))}
        loop = Loop(made, limits, spending, run, described, identity, files, samples)
        loop.how_to_go_on, made.persist = "hush serve SETTINGS --folder", loop.save
        if files is not None:
            files.path.chmod(0o700)  # the checkpoint holds the key by which cohorts are drawn
            open_folder(files, loop, problem, resume=began(files.path) and not replace, replace=replace)
        return _federated(loop, made, agreement, connect, files, stopping, progress)


def _federated(
    loop: Loop,
    made: Federation,
    agreement: Agreement,
    connect: Connect,
    files: RunFolder | None,
    stopping: Stopping,
    progress: bool,
) -> Result:
    """The run itself, with a journal where there is a folder, and devices at the desk."""
    journal = None if files is None else Journal(JOURNAL.path(files.path))
    desk = Desk(made.coordinator, agreement.text, *(() if journal is None else (journal.note,)))
    if journal is not None:
        made.told_before = functools.partial(told_in, journal.path)
    with contextlib.closing(journal) if journal is not None else contextlib.nullcontext(), connect(desk) as exchange:
        made.exchange = exchange
        with Display(loop.rounds or 1, start=made.round, enabled=progress) as display:
            try:
                result = loop.run(display, stopping)
            except Diverged as over:
                desk.end(str(over))
                raise
        desk.end(result.status["message"] or "the run is over")
        return result


def through_bytes(algorithm: Algorithm | InTurn, problem: Problem, run: RunSettings, **places: Any) -> Result:
    """The run of `hush.run`, each message made into bytes and back: devices in this process, with a simulation's keys.

    The model is that of the simulation to rounding, and the bits are those of real bytes.
    """
    agreement = agree(algorithm, problem, run, rehearsal=True)
    start = initial(problem, keys.at(keys.root(run.seed), "repetition", 0, "init"))

    @contextlib.contextmanager
    def connect(desk: Desk) -> Any:
        devices = {
            client: rehearsing(agreement, algorithm, problem, run, client, start)
            for client in range(problem.population.clients)
        }
        yield InMemory(desk, devices)

    return serve(algorithm, problem, run, connect, rehearsal=True, **places)


def rehearsing(
    agreement: Agreement, algorithm: Algorithm | InTurn, problem: Problem, run: RunSettings, client: int, start: Any
) -> Device:
    """A device of a rehearsal, which believes what it is told and keeps nothing on a disk."""
    assert run.rounds is not None  # `guarantee` has asked
    limits: dict[str, Any] = {"rounds": run.rounds, "epsilon": None, "delta": run.delta, "largest": 1e30}
    guard = Guard(algorithm, problem.population, client, dimension=int(start.size), rehearsal=True, **limits)
    key = rehearsed_key(run.seed, client)
    return Device(agreement.digest, problem.client(client), guard, key=key, initial=start)


def _check_sums(rules: NetworkSettings) -> None:
    """Refuse what lets one client decide about others' answers: noise covers a client's own, and nothing else."""
    usual = NetworkSettings()
    if rules.enough != usual.enough:
        raise ValueError(
            f"where the server's noise protects clients, enough must be {usual.enough:g}, found {rules.enough:g}: "
            "closed early, a round without one client's answer has another's in its place, and noise covers one"
        )
    if rules.minimum != usual.minimum:
        raise ValueError(
            f"where the server's noise protects clients, minimum must be {usual.minimum:g}, found {rules.minimum:g}: "
            "that a round was abandoned shows how many answered, without any noise"
        )


def _check_end(run: RunSettings) -> None:
    """Refuse an end that tells how many devices answered, without any noise."""
    stops = {"bit_budget": True, "client_bit_budget": run.when_spent == "stop"}
    for name in (name for name, ends in stops.items() if ends and getattr(run, name) is not None):
        raise ValueError(
            f"where the server's noise protects clients, no {name} may end the run: that would show how many devices "
            "have answered, without any noise; end it by rounds"
        )


def _check(run: RunSettings) -> None:
    """Refuse what only a simulation can do."""
    usual = {each.name: each.default for each in fields(RunSettings)}
    for name in ONLY_SIMULATED:
        if (found := getattr(run, name)) and found != usual[name]:
            raise ValueError(f"{name} is for simulations: a federation is one run, and sees only what devices send")

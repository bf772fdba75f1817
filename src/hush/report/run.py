"""`run`: an algorithm on a problem for so many rounds, with records, checkpoints and progress as it goes."""

import signal
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hush.core.algorithm import Algorithm, InTurn
from hush.core.check import positive, whole
from hush.core.contract import Problem
from hush.core.simulation import Simulation
from hush.report.folder import Row, RunFolder
from hush.report.holdings import holdings
from hush.report.progress import Display
from hush.report.result import Result, write_all
from hush.settings import describe

# A call into the compiled program takes about this long: progress is seen and Ctrl-C heard as often.
SECONDS_AT_ONCE = 0.5
SECONDS_BETWEEN_CHECKPOINTS = 30.0


class Diverged(RuntimeError):
    """Every lane met a number that is not finite. `result` holds all up to there."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


class Interrupted(KeyboardInterrupt):
    """Ctrl-C. `result` holds all up to there, and a run folder can be resumed."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


class WriteFailed(OSError):
    """The run folder could not be written. `result` holds all up to there, `save` writes it elsewhere."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


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
    keep_models: bool = False,
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
    keep_models                 keep the model of each evaluation in `result.history`
    folder, resume              write a run folder as the run goes; go on from the checkpoint that is in it
    clients_at_once, devices    how the work is laid out; changes no result, and is chosen for the machine if not given
    progress                    show how it gets on: live on a terminal, plain lines elsewhere; or nothing
    """
    if rounds is None and bit_budget is None:
        raise ValueError("a run needs rounds, a bit_budget, or both")
    if rounds is not None:
        whole("rounds", rounds)
    for name, value in (("bit_budget", bit_budget), ("capacity", capacity)):
        if value is not None:
            positive(name, value)
    whole("evaluate_every", evaluate_every)
    if resume and folder is None:
        raise ValueError("resume needs the folder to resume from")
    simulation = Simulation(
        algorithm,
        problem,
        seed=seed,
        repetitions=repetitions,
        sweep=sweep,
        clients_at_once=clients_at_once,
        devices=devices,
    )
    asked = {
        "rounds": rounds,
        "seed": seed,
        "repetitions": repetitions if isinstance(repetitions, int) else list(repetitions),
        "evaluate_every": evaluate_every,
        "bit_budget": bit_budget,
        "capacity": capacity,
        "keep_models": keep_models,
    }
    described = dict(settings) if settings is not None else describe(algorithm, problem, asked, sweep)
    files = None if folder is None else RunFolder(folder)
    work = _Run(simulation, rounds, evaluate_every, bit_budget, capacity, keep_models, described, files)
    if files is not None and resume:
        files.reopen(described)
        work.restore(files)
    elif files is not None:
        files.begin(described, holdings(problem))
    with (
        Display(rounds or 1, start=simulation.round, enabled=progress) as display,
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


class _Run:
    """The state of a run on the host."""

    def __init__(
        self,
        simulation: Simulation,
        rounds: int | None,
        evaluate_every: int,
        bit_budget: float | None,
        capacity: float | None,
        keep_models: bool,
        settings: dict[str, Any],
        files: RunFolder | None,
    ) -> None:
        self.simulation, self.rounds, self.evaluate_every = simulation, rounds, evaluate_every
        self.bit_budget, self.capacity, self.spent = bit_budget, capacity, False
        self.settings, self.files = settings, files
        self.rows: list[Row] = []
        self.history: list[np.ndarray[Any, Any]] | None = [] if keep_models else None
        self.seconds = self.compile_seconds = 0.0
        self.alive = np.ones(len(simulation.lanes), bool)

    def restore(self, files: RunFolder) -> None:
        """Go on from the checkpoint: the rows after it are run again."""
        state = files.read_checkpoint()
        self.simulation.restore(state)
        self.seconds = float(state["seconds"])
        self.rows = [row for row in files.read_records() if row["round"] <= self.simulation.round]
        if self.history is not None:
            self.history = list(state["history"]) if "history" in state else []
        if self.rows:
            files.table(pd.DataFrame(self.rows))

    def go(self, display: Display, interrupted: threading.Event) -> Result:
        """Blocks of rounds, evaluations and checkpoints, until the end or until something stops it."""
        try:
            self._status("running", "")
            self._compile(display)
            self._rounds(display, interrupted)
        except OSError as error:
            file, reason = error.filename or "the run folder", error.strerror or error
            message = f"stopped at round {self.simulation.round}: cannot write {file}: {reason}"
            raise WriteFailed(message, self._result("failed", message)) from error
        if not self.alive.any():
            message = f"diverged: every lane met a number that is not finite by round {self.simulation.round}"
            raise Diverged(message, self._end("diverged", message))
        if not self.complete:
            message = f"interrupted after round {self.simulation.round}" + (f" of {self.rounds}" if self.rounds else "")
            if self.files is not None:
                message += f"; go on with: hush resume {self.files.path}"
            raise Interrupted(message, self._end("interrupted", message))
        return self._end("finished", self._budget_in_words() if self.spent else "")

    @property
    def complete(self) -> bool:
        """Whether all that was asked for is done."""
        return self.spent or self.simulation.round == self.rounds

    def _budget_in_words(self) -> str:
        most = int(self.simulation.ledger.uplink_bits.max())
        return f"the bit budget is spent: {most:,} of {self.bit_budget:,.0f} bits in {self.simulation.round} rounds"

    def _compile(self, display: Display) -> None:
        display.message("compiling")
        begin = time.perf_counter()
        self.simulation.advance(0)
        self.compile_seconds = time.perf_counter() - begin

    def _rounds(self, display: Display, interrupted: threading.Event) -> None:
        at_once, saved = 1, time.perf_counter()
        while not self.complete and self.alive.any() and not interrupted.is_set():
            now = self.simulation.round
            until = (now // self.evaluate_every + 1) * self.evaluate_every
            until = until if self.rounds is None else min(self.rounds, until)
            block = min(at_once, until - now)
            begin = time.perf_counter()
            done = self.simulation.advance(block, self.bit_budget)
            self.spent = self.bit_budget is not None and done < block
            took = time.perf_counter() - begin
            self.seconds += took
            at_once = int(np.clip(SECONDS_AT_ONCE * block / took, 1, self.simulation.layout.rounds_at_once))
            due = self.simulation.round == until or (self.spent and self._unseen())
            evaluated = self._evaluate(display) if due else None
            display.rounds = self._expected()
            display.update(self.simulation.round, evaluated)
            if self.files is not None and time.perf_counter() - saved > SECONDS_BETWEEN_CHECKPOINTS:
                self.files.checkpoint(self._state())
                saved = time.perf_counter()

    def _unseen(self) -> bool:
        """Whether the last round has yet to be evaluated."""
        if self.simulation.round == 0:
            message = f"a bit_budget of {self.bit_budget:,.0f} does not pay for one round"
            self._status("failed", message)
            raise ValueError(message)
        return not self.rows or self.rows[-1]["round"] < self.simulation.round

    def _expected(self) -> int:
        """How many rounds there will be: as asked for, or as many as the budget pays for, if all cost the same."""
        now, limit = self.simulation.round, float("inf") if self.rounds is None else self.rounds
        if self.bit_budget is not None and not self.spent:
            limit = min(limit, self.bit_budget // (self.simulation.ledger.uplink_bits.max() / now))
        return now if self.spent else int(limit)

    def _evaluate(self, display: Display) -> dict[str, float]:
        columns = self.simulation.evaluate() | self.simulation.ledger.read()
        first = [name for name in ("train_loss", "test_loss", "accuracy") if name in columns]
        names = first + [name for name in columns if name not in first]
        rows = [
            {"repetition": lane.repetition}
            | lane.settings
            | {"round": self.simulation.round}
            | {name: columns[name][index].item() for name in names}
            | {"seconds": self.seconds}
            | ({} if self.capacity is None else {"channel_seconds": columns["uplink_bits"][index] / self.capacity})
            for index, lane in enumerate(self.simulation.lanes)
        ]
        self.rows += rows
        if self.history is not None:
            self.history.append(self.simulation.models)
        if self.files is not None:
            self.files.append(rows)
        self._notice_divergence(columns["train_loss"], display)
        return {name: float(np.mean(columns[name])) for name in names}

    def _notice_divergence(self, losses: np.ndarray[Any, Any], display: Display) -> None:
        finite = np.isfinite(losses) & np.isfinite(self.simulation.models).all(1)
        for index in np.flatnonzero(self.alive & ~finite):
            lane = self.simulation.lanes[index]
            at = ", ".join(f"{name} = {value:g}" for name, value in lane.settings.items())
            where = f"repetition {lane.repetition}" + (f" with {at}" if at else "")
            message = f"{where} met a number that is not finite by round {self.simulation.round}"
            display.message(message)
            if len(self.alive) > 1:
                warnings.warn(message, RuntimeWarning, stacklevel=5)
        self.alive &= finite

    def _state(self) -> dict[str, np.ndarray[Any, Any]]:
        history = {} if self.history is None else {"history": np.array(self.history)}
        return self.simulation.state() | history | {"seconds": np.array(self.seconds)}

    def _described(self, status: str, message: str) -> dict[str, Any]:
        layout = self.simulation.layout
        return {
            "status": status,
            "message": message,
            "round": self.simulation.round,
            "rounds": self.simulation.round if self.spent or self.rounds is None else self.rounds,
            "compile_seconds": self.compile_seconds,
            "dimension": self.simulation.dimension,
            "layout": {
                "devices": layout.mesh.size,
                "clients_at_once": layout.clients_at_once,
                "lanes_at_once": layout.lanes_at_once,
            },
        }

    def _status(self, status: str, message: str) -> None:
        if self.files is not None:
            self.files.status(**self._described(status, message))

    def _result(self, status: str, message: str) -> Result:
        return Result(
            records=pd.DataFrame(self.rows),
            vector=self.simulation.models,
            problem=self.simulation.problem,
            status=self._described(status, message),
            settings=self.settings,
            state=self._state(),
            history=None if self.history is None else np.array(self.history),
            folder=None if self.files is None else self.files.path,
        )

    def _end(self, status: str, message: str) -> Result:
        result = self._result(status, message)
        if self.files is not None:
            try:
                write_all(self.files, result)
            except OSError as error:
                raise WriteFailed(f"the run ended, but its folder cannot be written: {error}", result) from error
        return result

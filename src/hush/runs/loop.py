"""A run as the host sees it: blocks of rounds, evaluations, records and checkpoints, until something ends it."""

import contextlib
import math
import signal
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from hush.core.columns import in_order, together
from hush.execution import hosts
from hush.execution.words import HostLost
from hush.runs import own_data, telling
from hush.runs.advancing import Advancing
from hush.runs.errors import CallbackFailed, Diverged, Interrupted, WriteFailed
from hush.runs.limits import Limits
from hush.runs.metrics import Metrics
from hush.runs.progress import Display
from hush.runs.promises import Promises
from hush.runs.result import OWN, Result, write_all
from hush.runs.samples import Samples
from hush.runs.spending import Spending
from hush.settings import RunSettings
from hush.stopping import Stopping
from hush.store.fingerprint import Fingerprint
from hush.store.folder import Row, RunFolder
from hush.store.reading import rows_of
from hush.store.records import all_columns

# A call into the compiled program takes about this long: progress is seen and Ctrl-C obeyed as often.
SECONDS_AT_ONCE = 0.5


class Loop:
    """The state of a run on the host."""

    def __init__(
        self,
        simulation: Advancing,
        limits: Limits,
        spending: Spending,
        asked: RunSettings,
        settings: dict[str, Any],
        fingerprint: Callable[[], Fingerprint],
        files: RunFolder | None,
        samples: Samples | None = None,
    ) -> None:
        self.simulation, self.limits, self.spending = simulation, limits, spending
        self.asked, self.rounds, self.spent = asked, limits.last, False
        self.settings, self.fingerprint, self.files, self.samples = settings, fingerprint, files, samples
        self.promises = Promises(spending, self.rounds, asked)
        self.rows: list[Row] = []
        self.history: list[np.ndarray[Any, Any]] | None = [] if asked.keep_models else None
        self.seconds = self.compile_seconds = 0.0
        self.of_clients = own_data.wanted(asked.evaluate_clients, simulation)
        self.metrics = Metrics(asked.metrics, simulation)
        self.own: dict[str, np.ndarray[Any, Any]] = {}  # the last measures on each client's own data, [lanes, N]
        self.alive = np.ones(len(simulation.lanes), bool)
        self.how_to_go_on = "hush resume"
        self.on_evaluate: telling.OnEvaluate | None = None

    def restore(self, state: dict[str, np.ndarray[Any, Any]]) -> None:
        """Go on from a checkpoint: what came after it is run again. Refuses one that this run cannot go on from."""
        before = Fingerprint.restore(state) if "fingerprint" in state else None
        if before is None:
            raise ValueError("the checkpoint is of an earlier version of hush; start the run anew")
        if different := before.differences(self.fingerprint()):
            raise ValueError(f"the checkpoint is of another run: different are {', '.join(different)}")
        self.limits.check_rounds(int(state["round"]))
        self.simulation.restore(state)
        self.limits.check_bits(self.simulation.ledger)
        self.promises.restore(state, self.simulation.ledger)
        self.seconds = float(state["seconds"])
        if (records := rows_of(state)) is not None:
            self.rows = [{str(name): value for name, value in row.items()} for row in records.to_dict("records")]
        if self.promises.restated:
            self._restate()
        if self.history is not None:
            self.history = list(state["history"]) if "history" in state else []
        self.own = {name[len(OWN) :]: values for name, values in state.items() if name.startswith(OWN)}
        if self.samples is not None:
            self.samples.restore(state)

    def _restate(self) -> None:
        """Leave out what ε was at another δ, or against somebody else.

        What each client has taken part in is known of all rounds so far, and no more of those before.
        """
        now = self._epsilons().max(1)
        here = dict(zip(range(-len(now), 0), now, strict=True))
        for place, row in enumerate(self.rows, -len(self.rows)):
            if "epsilon" in row:
                row["epsilon"] = float(here.get(place, math.nan)) if row["round"] == self.simulation.round else math.nan

    def run(self, display: Display, stopping: Stopping) -> Result:
        """Blocks of rounds, evaluations and checkpoints, until the end or until something stops it."""
        hosts.advise(self._how_to_go_on())
        try:
            with hosts.noticing():
                return self._from_here_on(display, stopping)
        except HostLost as error:
            hosts.go_apart()
            message = f"stopped at round {self.simulation.round}: {error}{self._how_to_go_on()}"
            with contextlib.suppress(OSError):
                self._status("failed", message)
            raise HostLost(message) from error
        except OSError as error:
            if isinstance(error, WriteFailed):
                raise
            file, reason = error.filename or "the run folder", error.strerror or error
            message = f"stopped at round {self.simulation.round}: cannot write {file}: {reason}"
            with contextlib.suppress(OSError):  # the disk may be too full even for this
                self._status("failed", message)
            raise WriteFailed(message, self._result("failed", message)) from error
        except KeyboardInterrupt as error:
            if isinstance(error, Interrupted):
                raise
            hosts.go_apart()  # others were somewhere else when they heard of it
            message = f"interrupted at once{self._how_to_go_on()}"
            with contextlib.suppress(OSError):
                self._status("interrupted", message)
            raise KeyboardInterrupt(message) from None
        finally:
            stopping.finishing = False

    def _from_here_on(self, display: Display, stopping: Stopping) -> Result:
        if self.promises.news:
            display.message(self.promises.news)
        self.save()
        self._status("running", "")
        self._compile(display)
        if not self.rows and self.simulation.round == 0:
            display.update(0, self._evaluate(display))
        stopping.check()
        stopping.finishing = True
        self._rounds(display, stopping)
        return self._finish(stopping)

    def _finish(self, stopping: Stopping) -> Result:
        """What is said and written at the end, whichever it is."""
        if not self.alive.any():
            message = f"diverged: every lane met a number that is not finite by round {self.simulation.round}"
            raise Diverged(message, self._end("diverged", message))
        if not self.complete:
            by = "" if stopping.signal == signal.SIGINT else f" by {signal.Signals(stopping.signal).name}"
            message = f"interrupted{by} after round {self.simulation.round}"
            message += (f" of {self.rounds}" if self.rounds else "") + self._how_to_go_on()
            raise Interrupted(message, self._end("interrupted", message, not stopping.urgent), stopping.signal)
        return self._end("finished", self.limits.spent_in_words(self.simulation, self.spending, self.spent))

    def _how_to_go_on(self) -> str:
        return "" if self.files is None else f"; go on with: {self.how_to_go_on} {self.files.path}"

    @property
    def complete(self) -> bool:
        """Whether all that was asked for is done."""
        return self.spent or self.simulation.round == self.rounds

    def _epsilons(self) -> np.ndarray[Any, Any]:
        """ε of each lane and client so far."""
        return self.spending.epsilons(self.simulation.round, self.simulation.ledger.client_rounds)

    def _compile(self, display: Display) -> None:
        display.message("compiling")
        begin = time.perf_counter()
        self.simulation.advance(0)
        self.compile_seconds = time.perf_counter() - begin

    def _rounds(self, display: Display, stopping: Stopping) -> None:
        saved = time.perf_counter()
        at_once, _, stop = self._agreed(1, False, stopping)
        while not self.complete and self.alive.any() and not stop:
            now = self.simulation.round
            until = (now // self.asked.evaluate_every + 1) * self.asked.evaluate_every
            until = until if self.rounds is None else min(self.rounds, until)
            sample = until if self.samples is None else self.samples.thinning.after(now)
            block = min(at_once, until - now, sample - now)
            begin = time.perf_counter()
            limits = self.limits
            done = self.simulation.advance(block, limits.bit_budget, limits.allowance, limits.client_bit_budget)
            self.spent = done < block and self.simulation.stopped_by != ""  # and not by a signal
            took = time.perf_counter() - begin
            self.seconds += took
            if self.samples is not None and self.simulation.round == sample:
                self.samples.take()
            at_once = int(np.clip(SECONDS_AT_ONCE * block / took, 1, self.simulation.layout.rounds_at_once))
            overdue = time.perf_counter() - saved > self.simulation.checkpoint_seconds
            due = self.simulation.round == until or (self.spent and self._unseen())
            evaluated = self._evaluate(display) if due else None
            now = self.simulation.round
            display.rounds = now if self.spent else self.limits.expected(now, self.simulation.ledger)
            display.update(now, evaluated)
            at_once, overdue, stop = self._agreed(at_once, overdue, stopping)
            if overdue:
                self.save()
                saved = time.perf_counter()

    def _agreed(self, at_once: int, overdue: bool, stopping: Stopping) -> tuple[int, bool, bool]:
        """What clocks and signals say, which differ between processes, as process 0 has it.

        That is how many rounds to run at once, whether to save now, and whether to stop.
        """
        told: Any = hosts.agreed([at_once, overdue, hosts.asked_to_stop(stopping.signal)])
        stopping.signal = stopping.signal or told[2]
        return told[0], told[1], told[2] != 0

    def _unseen(self) -> bool:
        """Whether the last round has yet to be evaluated."""
        if self.simulation.round == 0:
            message = self.limits.unpaid(self.simulation)
            self._status("failed", message)
            raise ValueError(message)
        return not self.rows or self.rows[-1]["round"] < self.simulation.round

    def _evaluate(self, display: Display) -> dict[str, float]:
        measured, drawn = self.simulation.evaluate(), {} if self.samples is None else self.samples.scores()
        self.own = self.simulation.evaluate_clients() if self.of_clients else {}
        measured |= own_data.summarised(self.own) if self.own else {}
        counted, metrics = self.simulation.ledger.read(), self.metrics()
        self.metrics.check_columns(measured | counted)
        columns = {name: measured[name] for name in in_order(measured)} | metrics | drawn | counted
        worst, capacity = self._epsilons().max(1) if self.spending else [], self.asked.capacity
        rows = [
            {"repetition": lane.repetition}
            | lane.settings
            | {"round": self.simulation.round}
            | {name: values[index].item() for name, values in columns.items()}
            | ({"epsilon": float(worst[index])} if self.spending else {})
            | {"seconds": self.seconds}
            | ({} if capacity is None else {"channel_seconds": columns["uplink_bits"][index] / capacity})
            for index, lane in enumerate(self.simulation.lanes)
        ]
        self._keep(rows)
        if self.history is not None:
            self.history.append(self.simulation.models)
        if self.simulation.round:  # a first loss may be infinite, and come down
            self._notice_divergence(columns.get("train_loss", np.zeros(1)), display)
        self._tell(rows)
        latest = columns | ({"epsilon": worst} if self.spending else {})
        return {name: together(name, values) for name, values in latest.items()}

    def _tell(self, rows: list[Row]) -> None:
        """Tell of an evaluation whoever wants to know; a failure ends the run, with all that there is written."""
        if self.on_evaluate is None:
            return
        beside = telling.beside_epsilon(self.spending)
        where, copies = None if self.files is None else self.files.path, [dict(row) for row in rows]
        told = telling.Evaluation(self.simulation.round, copies, self.settings, beside, where)
        try:
            hosts.by_first(self.on_evaluate)(told)
        except Exception as error:
            message = telling.failed(self.on_evaluate, error, self.simulation.round) + self._how_to_go_on()
            raise CallbackFailed(message, self._end("failed", message)) from error

    def _keep(self, rows: list[Row]) -> None:
        """Add rows to the records; of columns that came or went since the first row, the others have no number."""
        before = list(self.rows[0]) if self.rows else []
        names = all_columns(before, list(rows[0]))
        rows = [{name: row.get(name, math.nan) for name in names} for row in rows]
        more = bool(before) and names != before
        if more:
            self.rows = [{name: row.get(name, math.nan) for name in names} for row in self.rows]
        self.rows += rows
        if self.files is not None:
            self.files.records(pd.DataFrame(self.rows)) if more else self.files.append(rows)

    def _notice_divergence(self, losses: np.ndarray[Any, Any], display: Display) -> None:
        finite = np.array(hosts.agreed((np.isfinite(losses) & np.isfinite(self.simulation.models).all(1)).tolist()))
        for index in np.flatnonzero(self.alive & ~finite):
            lane = self.simulation.lanes[int(index)]
            at = ", ".join(f"{name} = {value:g}" for name, value in lane.settings.items())
            where = f"repetition {lane.repetition}" + (f" with {at}" if at else "")
            message = f"{where} met a number that is not finite by round {self.simulation.round}"
            display.message(message)
            if len(self.alive) > 1 and hosts.speaks():
                warnings.warn(message, RuntimeWarning, stacklevel=5)
        self.alive &= finite

    def save(self) -> None:
        """Write a checkpoint, where there is a folder."""
        if self.files is not None:
            records = pd.DataFrame(self.rows) if self.rows else None
            self.files.checkpoint(self._state(), self.fingerprint(), records)
            self.simulation.saved()

    def _state(self) -> dict[str, np.ndarray[Any, Any]]:
        history = {} if self.history is None else {"history": np.array(self.history)}
        samples = {} if self.samples is None else self.samples.state()
        own = {f"{OWN}{name}": values for name, values in self.own.items()}
        told = self.promises.state() | {"seconds": np.array(self.seconds)}
        return self.simulation.state() | history | samples | own | told

    def _state_if_there_is_room(self) -> dict[str, np.ndarray[Any, Any]]:
        """The state; where the disk is too full for what clients remember, what is known without that."""
        try:
            return self._state()
        except OSError:
            ledger = {f"ledger/{name}": value for name, value in self.simulation.ledger.state().items()}
            return ledger | {"round": np.array(self.simulation.round)}

    def _described(self, status: str, message: str) -> dict[str, Any]:
        return {
            "status": status,
            "message": message,
            "round": self.simulation.round,
            "rounds": self.simulation.round if self.spent or self.rounds is None else self.rounds,
            "compile_seconds": self.compile_seconds,
            "dimension": self.simulation.dimension,
            "privacy": self.spending.in_words(self.simulation.round, self.simulation.ledger.client_rounds)
            | ({"on resuming": self.promises.told} if self.promises.told else {}),
            "layout": self.simulation.arrangement,
        }

    def _status(self, status: str, message: str) -> None:
        if self.files is not None:
            self.files.status(**self._described(status, message))

    def _result(self, status: str, message: str) -> Result:
        return Result(
            records=pd.DataFrame(self.rows),
            epsilons=self._epsilons() if self.spending else None,
            vector=self.simulation.models,
            problem=self.simulation.problem,
            status=self._described(status, message),
            settings=self.settings,
            state=self._state_if_there_is_room(),
            fingerprint=self.fingerprint,
            history=None if self.history is None else np.array(self.history),
            samples=None if self.samples is None else self.samples.posterior(self.settings),
            average=None if self.samples is None else self.samples.average,
            folder=None if self.files is None else self.files.path,
        )

    def _end(self, status: str, message: str, pages: bool = True) -> Result:
        result = self._result(status, message)
        if self.files is not None:
            try:
                hosts.by_first(write_all)(self.files, result, pages)
            except OSError as error:
                raise WriteFailed(f"the run ended, but its folder cannot be written: {error}", result) from error
        return result

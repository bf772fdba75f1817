"""`load`: a run folder as what its run returned, read when it is asked for."""

import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hush.core.flat import dimension
from hush.core.problem import Problem
from hush.extras import require
from hush.models.products import on_any_backend
from hush.posterior import Posterior
from hush.runs.result import Result
from hush.runs.samples import Thinning
from hush.settings import build
from hush.settings.tables import OWN
from hush.store import manifest, reading
from hush.store.files import CHECKPOINT, CLIENTS, MODELS, SAMPLES, UPDATES
from hush.store.fingerprint import Fingerprint, of_problem
from hush.store.records import swept

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray[Any, Any]
MODEL = ("carry.server['model']", "carry/['model']")  # in a checkpoint: of a simulation, of a federation


def load(folder: str | Path, problem: Problem | None = None) -> "Loaded":
    """The run in a folder, finished or not: its records, status and settings; its models where the problem is known.

    The problem is made again from the settings when a model is asked for. One of your own must be given: it is held
    against the fingerprint of the run, and other data or another model are refused by what differs.
    """
    return Loaded(folder, problem)


class Loaded:
    """What `hush.run` returned, from its folder. Read where it is asked for; what cannot be is named."""

    def __init__(self, folder: str | Path, problem: Problem | None = None) -> None:
        self.folder = reading.require_run(folder)
        self._given = problem
        if problem is not None:
            self._check(problem)

    def __repr__(self) -> str:
        status, broken = self.status, reading.damaged(self.folder)
        said = f"{status.get('status', 'unknown')} at round {status.get('round', '?')} of {status.get('rounds', '?')}"
        said += f", {len(self.records)} rows of records"
        return f"<run in {self.folder}: {said}{'; damaged or missing: ' + ', '.join(broken) if broken else ''}>"

    @cached_property
    def records(self) -> pd.DataFrame:
        """A row for each lane and evaluation, as far as they were written."""
        return reading.load_records(self.folder)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Everything as resolved."""
        return reading.load_settings(self.folder)

    @cached_property
    def status(self) -> dict[str, Any]:
        """How it ended, or stands; `killed` where it says that it is running and nobody runs it."""
        found = reading.load_status(self.folder)
        return found | {"status": "killed"} if reading.was_killed(self.folder, found) else found

    @cached_property
    def state(self) -> dict[str, Array]:
        """What the last checkpoint holds."""
        return reading.load_archive(self.folder, CHECKPOINT.name)

    @cached_property
    def vector(self) -> Array:
        """The models [lanes, d]: the final ones, or of an unfinished run those of its last checkpoint."""
        if MODELS.path(self.folder).is_file():
            return reading.load_archive(self.folder, MODELS.name)["vector"]
        found = [self.state[name] for name in MODEL if name in self.state]
        if not found:
            raise reading.Unreadable(f"{self.folder} has neither {MODELS.name} nor a model in {CHECKPOINT.name}")
        return found[0] if found[0].ndim == 2 else found[0][None]

    @cached_property
    def clients(self) -> pd.DataFrame:
        """What each client has sent, been told and spent of privacy; a row for each lane and client."""
        found = reading.load_table(self.folder, CLIENTS.name)
        return self.result.clients if found is None else found

    @cached_property
    def updates(self) -> pd.DataFrame:
        """The length of every client's update and its cosine to the last global one, where the run was watched."""
        found = reading.load_table(self.folder, UPDATES.name)
        return self.result.updates if found is None else found

    @cached_property
    def problem(self) -> Problem:
        """The problem that was given, or made again from the settings."""
        if self._given is not None:
            return self._given
        task = self.settings.get("task", {"name": OWN})
        if task.get("name") == OWN:
            raise ValueError(
                f"the problem of {self.folder} is the user's own, which its settings cannot make again: "
                "give it, hush.load(folder, problem=problem)"
            )
        with on_any_backend():  # what a GPU has trained in bfloat16 can be looked at anywhere
            made = build({"algorithm": {"name": "fedavg", "steps": 1}, "task": task}).problem()  # any algorithm will do
        self._check(made)
        return made

    def _check(self, problem: Problem) -> None:
        """Refuse another problem than the run's."""
        try:
            before = Fingerprint.restore(self.state)
        except (reading.Unreadable, KeyError) as error:
            message = f"{self.folder}: whether this is the run's problem cannot be told: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=3)
            if (size := dimension(problem)) != self.vector.shape[1]:
                found = self.vector.shape[1]
                raise ValueError(f"the run's models have {found} parameters, the problem's have {size}") from error
            return
        if different := before.of_problem().differences(of_problem(problem)):
            raise ValueError(f"{self.folder} is of another problem: different are {', '.join(different)}")

    @cached_property
    def result(self) -> Result:
        """All of it as the run itself returned it; the problem must be known for this."""
        state, records = self.state, self.records
        taken = int(state.get("samples/taken", 0))
        return Result(
            records=records,
            vector=self.vector,
            problem=self.problem,
            status=self.status,
            settings=self.settings,
            state=state,
            fingerprint=lambda: Fingerprint.restore(state),
            epsilons=self._epsilons(),
            history=state.get("history"),
            samples=self._samples(taken) if taken else None,
            average=state["samples/predicted"] / taken if "samples/predicted" in state else None,
            folder=self.folder,
        )

    def _epsilons(self) -> Array | None:
        clients = reading.load_table(self.folder, CLIENTS.name)
        if clients is None or "epsilon" not in clients:
            return None
        return clients["epsilon"].to_numpy().reshape(len(self.vector), -1)

    def _samples(self, taken: int) -> Posterior:
        lanes, size = self.vector.shape
        values: Array
        if "samples/kept" in self.state:  # of a run in memory, saved afterwards
            values = self.state["samples/kept"]
        else:
            if manifest.matches(self.folder, SAMPLES.name) is False:
                raise reading.Unreadable(f"{SAMPLES.path(self.folder)} is missing or damaged")
            values = np.memmap(SAMPLES.path(self.folder), np.float32, "r", shape=(taken, lanes, size))
        run = self.settings["run"]
        thinning = Thinning(run["sample_every"], run.get("warm_up", 0))
        rounds = thinning.round_of(np.arange(taken)[:: int(self.state["samples/stride"])])
        first = self.records[self.records["round"] == self.records["round"].min()]
        each = first[["repetition", *swept(self.records)]].to_dict("records")
        chains = [{str(name): value for name, value in lane.items()} for lane in each]
        return Posterior(values, self.problem, rounds, chains, self.settings)

    def model(self, index: int = 0) -> Any:
        """The `index`-th model, as `Result.model` gives it."""
        return self.result.model(index)

    @property
    def posterior(self) -> Posterior:
        """The samples of a run with `sample_every`."""
        return self.result.posterior

    def predictions(self) -> dict[str, Array]:
        """The probabilities of the test examples' classes [lanes, n, classes]: by the final models, and by samples."""
        return self.result.predictions()

    def calibration(self) -> pd.DataFrame:
        """Accuracy, Brier score, log-likelihood and calibration error of each lane's `predictions`."""
        return self.result.calibration()

    def reliability(self, beside: Mapping[str, Result] | None = None) -> "Figure":
        """How often predictions are right against how sure they were, drawn."""
        return self.result.reliability(beside)

    def trace(self, parameters: Sequence[str] | None = None) -> "Figure":
        """Every chain over the rounds."""
        return self.result.trace(parameters)

    def density(self, parameters: Sequence[str] | None = None, reference: Any = None) -> "Figure":
        """How parameters are spread."""
        return self.result.density(parameters, reference)

    def plot(self, measure: str = "accuracy", against: str = "round") -> "Figure":
        """A curve of one measure, with a band over repetitions."""
        require("matplotlib")
        from hush.report.plots import curve

        return curve(self.records, measure, against)

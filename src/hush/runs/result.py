"""What a run returns: a value. Its plots are imported when they are asked for."""

import dataclasses
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hush.core.columns import in_order
from hush.core.flat import unravelled
from hush.core.problem import Problem
from hush.extras import how_to_install, missing, require
from hush.posterior import Posterior, is_classifier, labels
from hush.posterior.tables import named, predictions, reliability_table, score_table
from hush.runs.shown import as_html
from hush.store import RunFolder
from hush.store.files import CALIBRATION, CLIENT_STATES, CLIENTS, RELIABILITY, REPORT, UPDATES
from hush.store.fingerprint import Fingerprint
from hush.store.records import swept
from hush.tasks.classes import class_counts, class_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure


OWN = "own/"  # how the names of measures on each client's own data begin in a checkpoint


@dataclass(frozen=True)
class Result:
    """The records of a run and the models it ended with."""

    records: pd.DataFrame  # a row for each lane and evaluation
    vector: np.ndarray[Any, Any]  # [lanes, d], the final models; a lane is a repetition, or a point of a sweep
    problem: Problem
    status: dict[str, Any]  # how it ended: status, message, round, rounds, compile_seconds, layout, dimension
    settings: dict[str, Any]
    state: dict[str, np.ndarray[Any, Any]] = field(repr=False)  # what a checkpoint holds
    fingerprint: Callable[[], Fingerprint] = field(repr=False)  # of what the run depends on
    epsilons: np.ndarray[Any, Any] | None = None  # [lanes, N], what each client has spent of privacy
    history: np.ndarray[Any, Any] | None = None  # [evaluations, lanes, d], if `keep_models` asked for it
    samples: Posterior | None = field(default=None, repr=False)
    average: np.ndarray[Any, Any] | None = field(default=None, repr=False)  # [lanes, n, classes], over the samples
    folder: Path | None = None

    def _repr_html_(self) -> str:
        return as_html(self.records, self.status, self.settings)

    def model(self, index: int = 0) -> Any:
        """The `index`-th final model: a pytree, and for an equinox model one that can be called."""
        return self.problem.present(unravelled(self.problem, self.vector[index]))

    def save_torch(self, path: str | Path, index: int = 0) -> None:
        """Write the state_dict of the `index`-th final model, which must be a PyTorch module, by torch.save."""
        require("torch")
        from hush.models.torch_module import save

        save(self.model(index), path)

    @property
    def clients(self) -> pd.DataFrame:
        """What each client has sent, been told and spent of privacy, and how good models are on its own data.

        A row for each lane and client, with its name where the data has one; the measures are of the last evaluation,
        where clients were evaluated.
        """
        sent, received = (self.state[f"ledger/client_{way}_bits"] for way in ("uplink", "downlink"))
        lanes, clients = sent.shape
        each = self._lanes()
        rows = each.loc[each.index.repeat(clients)].reset_index(drop=True)
        names = self.problem.client_names
        rows = rows.assign(
            client=np.tile(np.arange(clients), lanes),
            **({} if names is None else {"client_name": list(names) * lanes}),
            rounds=self.state["ledger/client_rounds"].max(0).ravel(),
            uplink_bits=sent.ravel(),
            downlink_bits=received.ravel(),
        )
        if self.state["ledger/channel_uses"].any():
            rows = rows.assign(energy=self.state["ledger/client_energy"].ravel())
        if self.epsilons is not None:
            rows = rows.assign(epsilon=self.epsilons.ravel())
        own = {name[len(OWN) :]: values.ravel() for name, values in self.state.items() if name.startswith(OWN)}
        return rows.assign(**{name: own[name] for name in in_order(own)})

    @property
    def updates(self) -> pd.DataFrame:
        """The length of every client's update and its cosine to the last global one, where the run was watched.

        Nobody may see these but in a simulation: publishing them would void any privacy guarantee.
        """
        seen = {name[5:]: values for name, values in self.state.items() if name.startswith("seen/")}
        if not seen:
            raise ValueError("this run was not watched; run it with watch=True")
        lanes = self._lanes().iloc[seen.pop("lane")].reset_index(drop=True)
        return lanes.assign(**seen)

    @property
    def posterior(self) -> Posterior:
        """The samples that `sample_every` asked for, a chain for each lane; for ArviZ, netCDF and plots."""
        if self.samples is None:
            raise ValueError("this run took no samples; run it with sample_every, and more rounds than its warm-up")
        return self.samples

    def trace(self, parameters: Sequence[str] | None = None) -> "Figure":
        """Every chain over the rounds: of these parameters, or of those whose chains agree least."""
        require("matplotlib")
        from hush.report.posterior_plots import trace

        return trace(self.posterior, parameters=parameters)

    def density(self, parameters: Sequence[str] | None = None, reference: Any = None) -> "Figure":
        """How parameters are spread, with credible intervals, beside a reference: samples, or (mean, covariance)."""
        require("matplotlib")
        from hush.report.posterior_plots import density

        return density(self.posterior, reference=reference, parameters=parameters)

    def predictions(self) -> dict[str, np.ndarray[Any, Any]]:
        """The probabilities of the test examples' classes [lanes, n, classes]: by the final models, and by samples."""
        return predictions(self.problem, self.vector, self.average)

    def calibration(self) -> pd.DataFrame:
        """Accuracy, Brier score, log-likelihood and calibration error of each lane's `predictions`."""
        return score_table(self.predictions(), np.asarray(labels(self.problem)), self._lanes())

    def reliability(self, beside: Mapping[str, "Result"] | None = None) -> "Figure":
        """How often predictions are right against how sure they were, drawn; other runs stand `beside` by name."""
        require("matplotlib")
        from hush.report.reliability import reliability_diagram

        tables: dict[str, pd.DataFrame] = {}
        for name, result in {**(beside or {}), "": self}.items():
            bins = reliability_table(result.predictions(), np.asarray(labels(result.problem)), result._lanes())
            tables |= {": ".join(filter(None, (name, said))): table for said, table in named(bins).items()}
        return reliability_diagram(tables)

    def _lanes(self) -> pd.DataFrame:
        """Each lane's repetition and swept settings."""
        first = self.records[self.records["round"] == self.records["round"].min()]
        return first[["repetition", *swept(self.records)]].reset_index(drop=True)

    def plot(self, measure: str = "accuracy", against: str = "round") -> "Figure":
        """A curve of one measure, with a band over repetitions."""
        require("matplotlib")
        from hush.report.plots import curve

        return curve(self.records, measure, against)

    def save(self, folder: str | Path, replace: bool = False) -> "Result":
        """Write a run folder, as `run(folder=…)` does while it goes; with `replace`, over a run that is there."""
        with RunFolder(folder) as made:
            made.begin(self.settings, class_counts(self.problem), class_names(self.problem), replace)
            if self.folder is not None and (states := CLIENT_STATES.path(self.folder)).exists():
                shutil.copyfile(states, CLIENT_STATES.path(made.path))
            write_all(made, self)
        return dataclasses.replace(self, folder=made.path)


def write_all(folder: RunFolder, result: Result, pages: bool = True) -> None:
    """All that is known at the end; without the pages, which `hush report` can write later, if time is short."""
    has_records = len(result.records) > 0
    folder.checkpoint(result.state, result.fingerprint(), result.records if has_records else None)
    folder.models(result.vector)
    if has_records:
        folder.table(result.records)
        folder.parquet(CLIENTS, result.clients)
        if any(name.startswith("seen/") for name in result.state):
            folder.parquet(UPDATES, result.updates)
    folder.status(**result.status)
    if not pages:
        return
    if has_records and is_classifier(result.problem):
        predicted, answers, lanes = result.predictions(), np.asarray(labels(result.problem)), result._lanes()
        folder.parquet(CALIBRATION, score_table(predicted, answers, lanes))
        folder.parquet(RELIABILITY, reliability_table(predicted, answers, lanes))
    _write_by_extras(folder, result.samples)


# What each extra's package writes in a run folder.
WRITES = {"matplotlib": f"{REPORT.name} and its pictures", "arviz": "diagnostics and netCDF files of the samples"}


def _write_by_extras(folder: RunFolder, samples: Posterior | None) -> None:
    """The chains for ArviZ, and the report; what is left out for want of an extra is said once."""
    lacking = missing("matplotlib") if samples is None else missing("matplotlib", "arviz")
    if samples is not None and not lacking:
        from hush.report.posterior_page import write_posterior

        write_posterior(folder, samples)
    if "matplotlib" not in lacking:
        from hush.report.page import write_report

        write_report(folder.path)
    if lacking:
        left_out = ", ".join(WRITES[package] for package in lacking)
        later = "report" if samples is None else "resume"  # which has the samples again
        warnings.warn(
            f"not written: {left_out}; {how_to_install(*lacking)}, then hush {later} {folder.path} writes them",
            stacklevel=4,
        )

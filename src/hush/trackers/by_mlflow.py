"""Records for MLflow: a run there for a run here, and one below it for each lane where there are several."""

import time
from collections.abc import Mapping
from typing import Any

from hush.extras import require
from hush.runs.telling import Evaluation
from hush.store.folder import Row
from hush.trackers.lanes import FAILED, FINISHED, STOPPED, Lane, Tracker, hyperparameters, which

STATUS = {FINISHED: "FINISHED", FAILED: "FAILED", STOPPED: "KILLED"}
AT_ONCE = 100  # settings in one request, no more of which a server takes
LONGEST = 6000  # letters of a setting, likewise


class MLflow(Tracker):
    """Tells an MLflow server, or a folder or database, of an experiment; without a `uri`, where MLflow itself would.

    MLflow's own idea of an active run is left alone: a run of yours may be open beside this one.
    """

    def __init__(self, experiment: str = "hush", *, uri: str | None = None) -> None:
        require("mlflow")
        if not isinstance(experiment, str) or experiment == "":
            raise ValueError(f"an experiment of MLflow must have a name, found {experiment!r}")
        super().__init__()
        self.experiment, self.uri = experiment, uri
        self._client: Any = None
        self._above: str | None = None  # the run that those of several lanes are below

    def begin(self, name: str, row: Row, evaluation: Evaluation) -> Lane:
        if self._client is None:
            from mlflow import MlflowClient

            self._client = MlflowClient(tracking_uri=self.uri)
        title = "run" if evaluation.folder is None else evaluation.folder.resolve().name
        if name and self._above is None:
            self._above = self._run(title, evaluation, evaluation.settings, {})
        tags = {} if self._above is None else {"mlflow.parentRunId": self._above}
        known = {f"lane.{part}": f"{value:g}" for part, value in which(row).items()}
        own = hyperparameters(evaluation.settings, row)
        return _Run(self._client, self._run(name or title, evaluation, own, tags | known))

    def _run(self, title: str, evaluation: Evaluation, settings: Mapping[str, Any], tags: dict[str, str]) -> str:
        from mlflow.entities import Param

        found = self._client.get_experiment_by_name(self.experiment)
        where = self._client.create_experiment(self.experiment) if found is None else found.experiment_id
        tags = tags | {"privacy": evaluation.privacy[:LONGEST]}
        made = str(self._client.create_run(where, run_name=title, tags=tags).info.run_id)
        given = [Param(name, str(value)[:LONGEST]) for name, value in hyperparameters(settings, {}).items()]
        for start in range(0, len(given), AT_ONCE):
            self._client.log_batch(made, params=given[start : start + AT_ONCE])
        return made

    def end(self, status: str) -> None:
        above, self._above = self._above, None
        if above is not None:
            self._client.set_terminated(above, STATUS[status])


class _Run:
    def __init__(self, client: Any, run: str) -> None:
        self._client, self._run = client, run

    def log(self, round: int, numbers: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        self._client.log_batch(self._run, metrics=[Metric(name, value, now, round) for name, value in numbers.items()])

    def end(self, status: str) -> None:
        self._client.set_terminated(self._run, STATUS[status])

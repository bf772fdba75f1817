"""Records for Weights & Biases: a run there for each lane, all lanes of a run in one group."""

import secrets
from collections.abc import Mapping
from typing import Any

from hush.extras import require
from hush.runs.telling import Evaluation
from hush.store.folder import Row
from hush.trackers.lanes import FINISHED, Lane, Tracker, hyperparameters


class WandB(Tracker):
    """Tells a project of Weights & Biases; further options go to `wandb.init` as they are.

    Settings, measures and ε leave this machine for that company's servers, unless an option is `mode="offline"`.
    """

    def __init__(self, project: str, **options: Any) -> None:
        require("wandb")
        if not isinstance(project, str) or project == "":
            raise ValueError(f"a project of Weights & Biases must have a name, found {project!r}")
        super().__init__()
        self.project, self.options = project, options
        self._group = ""

    def begin(self, name: str, row: Row, evaluation: Evaluation) -> Lane:
        import wandb

        title = "run" if evaluation.folder is None else evaluation.folder.resolve().name
        if name:
            self._group = self._group or f"{title}-{secrets.token_hex(3)}"
        settings = hyperparameters(evaluation.settings, row) | {"privacy": evaluation.privacy}
        places = {"group": self._group} if name else {}
        how = {"project": self.project, "name": name or title, "config": settings, "reinit": "create_new"}
        return _Run(wandb.init(**(how | places | self.options)))

    def end(self, status: str) -> None:
        self._group = ""


class _Run:
    def __init__(self, run: Any) -> None:
        self._run = run

    def log(self, round: int, numbers: Mapping[str, float]) -> None:
        self._run.log(dict(numbers), step=round)

    def end(self, status: str) -> None:
        self._run.finish(exit_code=0 if status == FINISHED else 1)

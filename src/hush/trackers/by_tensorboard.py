"""Event files for TensorBoard, which shows them with `tensorboard --logdir FOLDER`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hush.extras import require
from hush.runs.telling import Evaluation
from hush.settings import dumps
from hush.store.folder import Row
from hush.trackers.lanes import Lane, Tracker, hyperparameters


class TensorBoard(Tracker):
    """Writes event files in a folder, and in a folder of its own for each lane where there are several.

    A number there has 32 bits, about seven digits: the run's own records have all of them.
    """

    def __init__(self, folder: str | Path) -> None:
        require("tensorboardX")
        if str(folder) == "":
            raise ValueError("a folder for TensorBoard must have a name, found ''")
        super().__init__()
        self.folder = Path(folder)

    def begin(self, name: str, row: Row, evaluation: Evaluation) -> Lane:
        from tensorboardX import SummaryWriter
        from tensorboardX.summary import hparams

        # A lane that was tracked before and goes on from an earlier round: what came after that round is hidden.
        writer = SummaryWriter(str(self.folder / name), purge_step=evaluation.round)
        writer.add_text("settings", f"```toml\n{dumps(dict(evaluation.settings))}\n```", evaluation.round)
        writer.add_text("privacy", evaluation.privacy, evaluation.round)
        for part in hparams(hyperparameters(evaluation.settings, row), {}):
            writer.file_writer.add_summary(part)
        return _Writer(writer)


class _Writer:
    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def log(self, round: int, numbers: Mapping[str, float]) -> None:
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, round)
        self._writer.flush()

    def end(self, status: str) -> None:
        self._writer.add_text("status", status)
        self._writer.close()

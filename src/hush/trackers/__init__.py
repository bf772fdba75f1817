"""Trackers: what a run measures, told to TensorBoard, MLflow or Weights & Biases as it goes.

    hush.run(algorithm, problem, 100, on_evaluate=hush.trackers.TensorBoard("logs/first"))

Each lane, a repetition or a point of a sweep, is a run of its own there. They need an extra of their own each.
"""

from hush.trackers.by_mlflow import MLflow
from hush.trackers.by_tensorboard import TensorBoard
from hush.trackers.by_wandb import WandB
from hush.trackers.lanes import Tracker

__all__ = ["MLflow", "TensorBoard", "Tracker", "WandB", "tracker"]


def tracker(asked: str) -> Tracker:
    """A tracker as `hush run --track` names it: tensorboard=FOLDER, mlflow, mlflow=EXPERIMENT or wandb=PROJECT."""
    name, _, value = asked.partition("=")
    if name == "tensorboard" and value:
        return TensorBoard(value)
    if name == "mlflow":
        return MLflow(value) if value else MLflow()
    if name == "wandb" and value:
        return WandB(value)
    allowed = "tensorboard=FOLDER, mlflow, mlflow=EXPERIMENT or wandb=PROJECT"
    raise ValueError(f"a tracker must be {allowed}, found {asked!r}")

"""Packages that an extra brings. Runs, their folders and the command line do without; whatever cannot says so."""

from importlib.util import find_spec
from typing import NamedTuple


class Brought(NamedTuple):
    """What needs a package, and the extra that brings it; under another name than it is imported by, if so."""

    need: str
    extra: str
    distribution: str = ""


PACKAGES = {
    "matplotlib": Brought("plots need matplotlib", "report"),
    "arviz": Brought("diagnostics and netCDF files of posterior samples need arviz", "bayes"),
    "blackjax": Brought("reference posteriors need blackjax", "bayes"),
    "optuna": Brought("a plan's search needs optuna", "plan"),
    "starlette": Brought("hush view answers a browser with starlette", "view"),
    "uvicorn": Brought("hush view is served by uvicorn", "view"),
    "tensorboardX": Brought("event files for TensorBoard need tensorboardX", "tensorboard"),
    "mlflow": Brought("records for MLflow need mlflow", "mlflow", "mlflow-skinny"),
    "wandb": Brought("records for Weights & Biases need wandb", "wandb"),
    "flwr": Brought("a federation over Flower needs flwr", "flower"),
    "torch": Brought("a torch.nn.Module as a model needs PyTorch", "torch"),
}


class MissingExtra(ImportError):
    """Something was asked for that needs packages which are not installed."""


def how_to_install(*packages: str) -> str:
    """The command that brings packages.

    >>> how_to_install("arviz", "blackjax", "matplotlib")
    "pip install 'hush[bayes,report]'"
    """
    extras = dict.fromkeys(PACKAGES[package].extra for package in packages)
    return f"pip install 'hush[{','.join(extras)}]'"


def missing(*packages: str) -> tuple[str, ...]:
    """Those of some packages that are not installed; none of them is imported."""
    return tuple(package for package in packages if find_spec(package) is None)


def require(*packages: str) -> None:
    """Refuse to go on without packages, by the names of the extras that bring them."""
    if lacking := missing(*packages):
        needs = "; ".join(PACKAGES[package].need for package in lacking)
        raise MissingExtra(f"{needs}: {how_to_install(*lacking)}", name=lacking[0])

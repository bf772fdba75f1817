"""Models on each client's own data: one number for all clients, and one for those that are served worst."""

import math
from typing import Any

import numpy as np

from hush.core.columns import column
from hush.runs.advancing import Advancing

Array = np.ndarray[Any, Any]
WORST = 10  # the worst tenth of the clients


def wanted(asked: bool | None, simulation: Advancing) -> bool:
    """Whether clients are evaluated one by one: as asked or, if nothing is, where they have models of their own."""
    possible = simulation.has_examples
    if asked and not possible:
        raise ValueError("evaluate_clients needs clients with examples to evaluate a model on, and these have none")
    return possible and (simulation.has_personal_models if asked is None else asked)


def summarised(found: dict[str, Array]) -> dict[str, Array]:
    """Accuracy [lanes, N], or where there is none, loss: the mean over all clients, and over the worst tenth of them.

    >>> {name: value.tolist() for name, value in summarised({"loss": np.array([[1.0, 2.0, 6.0]])}).items()}
    {'client_loss': [3.0], 'client_loss_worst_tenth': [6.0]}
    """
    measure = "accuracy" if "accuracy" in found else "loss"
    columns = {}
    for kind, name in (("client", measure), ("personal", f"personal_{measure}")):
        if name in found:
            columns[f"{kind}_{measure}"] = found[name].mean(1)
            columns[f"{kind}_{measure}_worst_tenth"] = _worst(found[name], column(measure).higher_is_better)
    return columns


def _worst(values: Array, higher_is_better: bool) -> Array:
    ordered = np.sort(values, axis=1) if higher_is_better else -np.sort(-values, axis=1)
    worst: Array = ordered[:, : math.ceil(values.shape[1] / WORST)].mean(1)
    return worst

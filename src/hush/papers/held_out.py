"""Tasks that choose a setting: their clients go without a part of the training set, and are tested on it."""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from hush import tasks
from hush.data import partitions
from hush.data.datasets import load
from hush.tasks.problem import Supervised


def tested_on_held_out(name: str, share: float, clients: int, **options: Any) -> Supervised:
    """The named task without a share of its training examples, which take the place of its test set."""
    made, whole = tasks.TASKS[name](clients, set_aside=share, **options), load(name)
    assert isinstance(made, Supervised)
    assert made.test is not None
    first, second, _ = partitions.set_aside(len(whole.train_y), share, seed=0)
    rows = np.concatenate([first, second])
    held_out = replace(made.test, x=jnp.asarray(whole.train_x[rows]), y=jnp.asarray(whole.train_y[rows]))
    return replace(made, test=held_out)

"""Tables of trials that were never made, of which the truth is known."""

import pytest

from hush.plans.trials import Trials

PLAIN = {
    "family": "fedavg",
    "steps": 10,
    "batch": 20,
    "clients": 10,
    "coding": "none",
    "variance": 0.0,
    "rounds": 80,
    "run": 80,
    "score": 0.5,
    "repetitions": 1,
    "message_bits": 1000.0,
    "client_bits": 8000.0,
    "bits": 800_000.0,
    "noise": 0.0,
    "epsilon": float("nan"),
    "lr": 0.1,
    "server_lr": 1.0,
    "decay": 1e-3,
}


@pytest.fixture(scope="session")
def trials():
    """Trials whose rows are like a plain one but in what is said; a candidate each, unless `trial` is said."""

    def make(rows):
        made = Trials()
        for number, row in enumerate(rows):
            made.add({"trial": number} | PLAIN | row)
        return made

    return make

"""The settings to begin with: small enough for a laptop, hard enough to see differences."""

from typing import Any

from hush.algorithms import ALGORITHMS
from hush.settings.schema import schema

TASK = {"name": "digits", "clients": 20, "classes_per_client": 2, "model": "softmax"}
ARGUMENTS = {"clients": 10, "steps": 10, "lr": 0.1, "batch": 16}
# What an algorithm cannot do without.
NEEDED: dict[str, dict[str, Any]] = {
    "private_fedpaq": {"steps": 2, "clip": 1.0, "noise_multiplier": 2.0},
    "ce_fedavg": {"clip": 0.5},
    "fedper": {"personal": [[640, 650]]},  # the last numbers of softmax are its biases
    # The gradient of the sum over 1,437 examples: a step size of 0.1 for their mean is one of 7e-5 for that.
    "fa_ld": {"lr": 3e-5, "prior": 1.0, "scheme": "II", "per_round": 10, "correlation": 1.0},
    "dp_fedavg": {"population": 20, "clip": 0.5, "noise_multiplier": 0.5},
    "secure_dp_fedavg": {"population": 20, "clip": 0.5, "noise_multiplier": 0.5, "dimension": 650},
}
# What a run of it would be pointless without.
RUN_NEEDED: dict[str, dict[str, Any]] = {
    "fa_ld": {"rounds": 200, "evaluate_every": 20, "sample_every": 2, "warm_up": 60}
}
RUN = {"rounds": 60, "seed": 0, "repetitions": 3, "evaluate_every": 5}


def default_tables(algorithm: str = "fedavg") -> dict[str, Any]:
    """Settings for an algorithm by name, complete enough to run."""
    taken = schema(ALGORITHMS[algorithm])
    arguments = {name: value for name, value in ARGUMENTS.items() if name in taken} | NEEDED.get(algorithm, {})
    return {
        "task": dict(TASK),
        "algorithm": {"name": algorithm} | arguments,
        "run": RUN | RUN_NEEDED.get(algorithm, {}),
    }

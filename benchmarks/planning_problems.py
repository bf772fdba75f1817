"""Twenty problems to plan for: who holds what, and what a run may cost. Nothing of the planner was made with them.

Of every data set half of the training examples are kept from all clients. A plan is made on these; what it chose is run
on the other half, and judged on the data set's own test examples. Made-up data is made up again, from another seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hush.core.problem import Problem
from hush.plans.budgets import Budgets
from hush.plans.proxies import proxy_of
from hush.plans.scene import Scene
from hush.settings import build

HALF = {"set_aside": 0.5}
OTHER_SEED = 1000  # added to a seed, for made-up data to plan on
SMALL = {"model": "mlp", "model_options": {"hidden": [32]}}


@dataclass(frozen=True)
class Asked:
    """One problem: the task as in a settings file, and the budgets."""

    number: int
    task: dict[str, Any]
    budgets: Budgets

    @cached_property
    def real(self) -> Problem:
        """What the plan is for."""
        return _made(self.task)

    @cached_property
    def proxy(self) -> Problem:
        """What it is made on."""
        if self.task["name"] == "synthetic":
            return _made(self.task | {"partition_seed": self.task["partition_seed"] + OTHER_SEED})
        return _made(proxy_of(self.task, {"use": "set-aside"}))

    def let_go(self) -> None:
        """Forget the data: that of twenty problems would be much at once."""
        for name in ("real", "proxy"):
            self.__dict__.pop(name, None)

    def scene(self) -> Scene:
        """The real task, with what a run of it may cost."""
        return Scene(self.real, self.real.population, self.budgets)

    def stage(self) -> Scene:
        """The proxy, with the same budgets and the noise that the real clients need."""
        return Scene(self.proxy, self.real.population, self.budgets)

    @property
    def kind(self) -> str:
        """What is protected: nothing, a client or an example."""
        return "plain" if self.budgets.epsilon is None else self.budgets.unit

    @property
    def marks(self) -> str:
        """By which it is known again."""
        return f"{sorted(self.task.items())}, {self.budgets}"

    @property
    def words(self) -> str:
        """For a line of a table."""
        task, budgets = self.task, self.budgets
        kinds = ("classes_per_client", "dominant_classes", "dirichlet")
        spread = next((f"{kind.split('_')[0]} {task[kind]:g}" for kind in kinds if kind in task), "iid")
        paid = [
            f"{value:.3g} bits {whose}"
            for value, whose in ((budgets.client_bits, "each"), (budgets.bits, "in all"))
            if value is not None
        ]
        paid += [] if budgets.seconds is None else [f"{budgets.seconds:g} s at {budgets.capacity:.3g} bit/s"]
        paid += (
            []
            if budgets.epsilon is None
            else [f"ε = {budgets.epsilon:g} of {'a client' if budgets.unit == 'client' else 'an example'}"]
        )
        paid += [f"≤ {budgets.rounds} rounds"]
        return f"{task['name']}, {task['model']}, {task['clients']} clients, {spread}; {', '.join(paid)}"


def _made(task: dict[str, Any]) -> Problem:
    return build({"task": task, "algorithm": {"name": "fedavg"}}).problem()


def _client(epsilon: float, **more: Any) -> Budgets:
    return Budgets(epsilon=epsilon, unit="client", trust="server", **more)


def _example(epsilon: float, **more: Any) -> Budgets:
    return Budgets(epsilon=epsilon, unit="example", trust="local", **more)


def _images(name: str, clients: int, seed: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "clients": clients, "partition_seed": seed, "model": "softmax"} | HALF | more


def _made_up(clients: int, seed: int, **more: Any) -> dict[str, Any]:
    sizes = {"examples_per_client": 100, "features": 60, "test_examples": 10_000}
    return {"name": "synthetic", "clients": clients, "partition_seed": seed, "model": "softmax"} | sizes | more


# A plain message is 32 bits for each number of the model: 251,200 with softmax and 814,400 with the perceptron on MNIST
# and Fashion-MNIST, 983,360 with softmax on CIFAR-10, 20,800 on digits; 19,520 and 73,024 on the 60 made-up features.
TABLE: list[tuple[dict[str, Any], Budgets]] = [
    # No privacy asked for.
    (_images("mnist", 100, 1), Budgets(client_bits=1.0e6, rounds=200)),  # 4 plain messages
    (_images("mnist", 100, 2, classes_per_client=2), Budgets(client_bits=3.8e6, rounds=300)),  # 15
    (_images("fashion_mnist", 60, 3, dirichlet=0.5), Budgets(bits=1.0e8, rounds=200)),  # 7 for each client
    (_images("fashion_mnist", 50, 4, classes_per_client=1), Budgets(client_bits=1.5e7, rounds=300)),  # 60
    (_images("mnist", 100, 5, classes_per_client=2, **SMALL), Budgets(client_bits=4.1e6, rounds=200)),  # 5
    (
        _images("fashion_mnist", 150, 26, dirichlet=0.5, **SMALL),
        Budgets(seconds=900.0, capacity=1.5e5, rounds=150),
    ),  # 1.1
    (_images("cifar10", 50, 7), Budgets(client_bits=1.0e6, rounds=100)),  # 1
    (_made_up(200, 8, dominant_classes=2, **SMALL), Budgets(bits=1.2e8, rounds=200)),  # 8
    (_images("digits", 20, 9, classes_per_client=3), Budgets(client_bits=2.5e4, rounds=100)),  # 1.2
    # All of a client's data protected, the server trusted.
    (_images("mnist", 500, 10), _client(3.0, rounds=120)),
    (_images("mnist", 300, 11, classes_per_client=2), _client(8.0, client_bits=2.5e6, rounds=200)),  # 10
    (_images("fashion_mnist", 400, 12), _client(1.0, rounds=150)),
    (_images("fashion_mnist", 300, 13, dominant_classes=2, **SMALL), _client(8.0, rounds=150)),
    (_made_up(500, 14, classes_per_client=3), _client(3.0, bits=5.0e7, rounds=150)),  # 5
    (_images("mnist", 400, 15, **SMALL), _client(3.0, client_bits=4.1e6, rounds=100)),  # 5
    (_images("cifar10", 300, 16), _client(8.0, seconds=3600.0, capacity=2.5e5, rounds=100)),  # 3
    # One example protected, from the server too.
    (_images("mnist", 50, 17), _example(2.0, client_bits=5.0e6, rounds=150)),  # 20
    (_images("fashion_mnist", 100, 18, classes_per_client=3), _example(8.0, client_bits=1.0e6, rounds=200)),  # 4
    (
        _made_up(60, 19, dominant_classes=3, examples_per_client=400, **SMALL),
        _example(8.0, bits=4.4e7, rounds=150),  # 10
    ),
    (_images("mnist", 50, 20, **SMALL), _example(8.0, client_bits=8.2e6, rounds=100)),  # 10
]
PROBLEMS = {number: Asked(number, task, budgets) for number, (task, budgets) in enumerate(TABLE, start=1)}

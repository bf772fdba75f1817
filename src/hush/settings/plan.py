"""What a settings file asks for, ready to run."""

from dataclasses import asdict, dataclass, field
from typing import Any

from hush.core.algorithm import Algorithm, InTurn
from hush.core.check import positive, seed, whole
from hush.core.problem import Problem
from hush.execution.lanes import numbered
from hush.settings.describe import OWN, Tables, describe, plain
from hush.settings.errors import SettingsError
from hush.settings.values import make
from hush.tasks import TASKS


@dataclass(frozen=True)
class Run:
    """How long, from which seed, how often; and how the work is laid out, which changes no result.

    rounds, evaluate_every      how many rounds (100 without a budget), and how many of them between evaluations
    bit_budget                  stop at the last round that it pays for: uplink bits of all clients together
    capacity                    of the uplink, in bits a second: adds the time on the channel to the records
    seed, repetitions           where randomness begins; how many independent repetitions, or a list of their numbers
    clients_at_once, devices    how the work is laid out; chosen for the machine if not given
    delta, unit, trust          of the privacy guarantee: δ, example or client, and a name from hush.privacy.TRUST
    epsilon, when_spent         a budget of ε, at whose end the run stops, or a client retires
    watch                       keep the length and the angle of every client's update
    keep_models                 keep the model of every evaluation
    sample_every, warm_up       take posterior samples, every so many rounds after a warm-up
    most_samples                how many are kept in memory; with a folder, all are kept on disk
    """

    rounds: int | None = None
    seed: int = 0
    repetitions: int | tuple[int, ...] = 1
    evaluate_every: int = 10
    clients_at_once: int | None = None
    devices: int | None = None
    keep_models: bool = False
    bit_budget: float | None = None
    capacity: float | None = None
    delta: float = 1e-5
    unit: str | None = None
    trust: str | None = None
    epsilon: float | None = None
    when_spent: str = "stop"
    watch: bool = False
    sample_every: int | None = None
    warm_up: int = 0
    most_samples: int = 1000

    def __post_init__(self) -> None:
        if self.rounds is None and self.bit_budget is None and (self.epsilon is None or self.when_spent == "retire"):
            object.__setattr__(self, "rounds", 100)
        for name in ("bit_budget", "capacity", "epsilon", "delta"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))
        if self.delta >= 1:
            raise ValueError(f"delta must be a number above 0 and below 1, found {self.delta}")
        seed("seed", self.seed)
        numbered(self.repetitions)
        whole("evaluate_every", self.evaluate_every)
        whole("warm_up", self.warm_up, 0)
        whole("most_samples", self.most_samples, 2)
        for name in ("rounds", "clients_at_once", "devices", "sample_every"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name))


@dataclass(frozen=True)
class Plan:
    """An algorithm, a problem that is made when it is asked for, and how to run the one on the other.

    `run(plan.algorithm, plan.problem(), **plan.run, sweep=plan.sweep)` is what a settings file means.
    """

    algorithm: Algorithm | InTurn
    run: dict[str, Any] = field(default_factory=lambda: asdict(Run()))
    sweep: dict[str, list[float]] | None = None
    task: dict[str, Any] | None = None  # `name`, and the arguments of that task
    name: str = "own"  # what to call it: the algorithm's name, or its local rule's

    def problem(self) -> Problem:
        """The data and the model: reads files and may download them."""
        if self.task is None:
            raise SettingsError("task", f"is missing; a table with a name, known: {', '.join(TASKS)}")
        if self.task["name"] == OWN:
            raise SettingsError(
                "task.name",
                "the problem is the user's own, which a settings file cannot make again; run it from Python",
            )
        arguments = {name: value for name, value in self.task.items() if name != "name"}
        made: Problem = make(TASKS[self.task["name"]], arguments, "task")
        return made

    @property
    def tables(self) -> Tables:
        """All of it written out, with nothing left to defaults."""
        tables = describe(self.algorithm, None, self.run, self.sweep)
        return tables if self.task is None else tables | {"task": plain(self.task)}

"""What a settings file asks for, ready to run."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hush.core.algorithm import Algorithm, InTurn
from hush.core.problem import Problem
from hush.settings.errors import SettingsError
from hush.settings.network import NetworkSettings
from hush.settings.own import make_own
from hush.settings.run import RunSettings
from hush.settings.tables import OWN, Tables, plain, tables_of
from hush.settings.values import make
from hush.tasks import TASKS


@dataclass(frozen=True)
class Experiment:
    """An algorithm, a problem that is made when it is asked for, and how to run the one on the other.

    `run(it.algorithm, it.problem(), **it.run.keywords())` is what a settings file means.
    """

    algorithm: Algorithm | InTurn
    run: RunSettings
    task: dict[str, Any] | None = None  # `name`, and the arguments of that task
    network: NetworkSettings = field(default_factory=NetworkSettings)  # how it is run with real devices
    name: str = "own"  # what to call it: the algorithm's name, or its local rule's
    made_by: Callable[..., Any] | None = None  # what makes the task, where it is of one's own

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
        if self.made_by is None:
            made: Problem = make(TASKS[self.task["name"]], arguments, "task")
            return made
        own = make_own(self.task["name"], self.made_by, arguments, "task")
        if not isinstance(own, Problem):
            raise SettingsError("task.name", f"{self.task['name']} must return a Problem, found {type(own).__name__}")
        return own

    @property
    def tables(self) -> Tables:
        """All of it written out, with nothing left to defaults."""
        tables = tables_of(self.algorithm, None, self.run)
        return tables if self.task is None else tables | {"task": plain(self.task)}

"""How a run is run: one frozen description.

It is the keyword arguments of `hush.run`, the tables `[run]` and `[sweep]` of a settings file, and what a run folder
records. Whatever is asked for is checked here and nowhere else, whichever way it comes in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from hush.core.check import flag, integer, known, positive, seed
from hush.execution.lanes import Sweep, numbered
from hush.settings.schema import Field, schema
from hush.tasks.metrics import parsed

EVALUATE_EVERY = 10
DELTA = 1e-5
WHEN_SPENT = ("stop", "retire")
MOST_SAMPLES = 1000

# Which of these make a run the run it is, so that it goes on from a checkpoint only with the same.
ALWAYS = {"identity": "always"}
WHERE_CLIENTS_RETIRE = {"identity": "where clients retire"}


@dataclass(frozen=True)
class RunSettings:
    """How long, from which seed, how often; and how the work is laid out, which changes no result.

    rounds, evaluate_every      how many rounds (in a file without a budget 100), and how many between evaluations
    seed, repetitions           where randomness begins; how many independent repetitions, or a list of their numbers
    sweep                       values of float settings, by their paths, or a list of points; in a settings file, a
                                table of its own, or an array of tables
    bit_budget                  stop at the last round that it pays for: uplink bits of all clients together
    client_bit_budget           no client sends more uplink bits than these in the whole run
    capacity                    of the uplink, in bits a second: adds the time on the channel to the records
    delta, unit, trust          of the privacy guarantee: δ, example or client, and a name from hush.privacy.TRUST
    epsilon                     a budget of ε
    when_spent                  where a client has spent its own budget, of bits or of ε, the run stops or it retires
    metrics                     of all test predictions: a list of names (scikit-learn's scorers, or `module:function`),
                                or a table of these by the names of their columns
    evaluate_clients            measure models on each client's own data; if not said, where clients have personal ones
    watch                       keep the length and the angle of every client's update
    keep_models                 keep the model of every evaluation
    sample_every, warm_up       take posterior samples, every so many rounds after a warm-up
    most_samples                how many are kept in memory; with a folder, all are kept on disk
    clients_at_once, devices    how the work is laid out; chosen for the machine if not given
    streamed                    let only the clients of the next rounds lie on the devices; always so of a store on disk
    """

    rounds: int | None = None
    seed: int = field(default=0, metadata=ALWAYS)
    repetitions: int | Sequence[int] = field(default=1, metadata=ALWAYS)
    evaluate_every: int = EVALUATE_EVERY
    sweep: Sweep | None = field(default=None, metadata=ALWAYS)
    bit_budget: float | None = None
    client_bit_budget: float | None = field(default=None, metadata=WHERE_CLIENTS_RETIRE)
    capacity: float | None = None
    delta: float = field(default=DELTA, metadata=WHERE_CLIENTS_RETIRE)
    unit: str | None = field(default=None, metadata=WHERE_CLIENTS_RETIRE)
    trust: str | None = field(default=None, metadata=WHERE_CLIENTS_RETIRE)
    epsilon: float | None = field(default=None, metadata=WHERE_CLIENTS_RETIRE)
    when_spent: str = WHEN_SPENT[0]
    metrics: Any = ()  # hush.tasks.metrics.Asked; checked and resolved here
    evaluate_clients: bool | None = None
    watch: bool = field(default=False, metadata=ALWAYS)
    keep_models: bool = field(default=False, metadata=ALWAYS)
    sample_every: int | None = field(default=None, metadata=ALWAYS)
    warm_up: int = field(default=0, metadata=ALWAYS)
    most_samples: int = field(default=MOST_SAMPLES, metadata=ALWAYS)
    clients_at_once: int | None = None
    devices: int | None = None
    streamed: bool | None = None

    def __post_init__(self) -> None:
        if never_ends(self.keywords()):
            raise ValueError("a run needs rounds, a bit_budget, or an epsilon or a client_bit_budget at which to stop")
        for name in ("rounds", "clients_at_once", "devices", "sample_every"):
            if getattr(self, name) is not None:
                integer(name, getattr(self, name))
        for name in ("bit_budget", "client_bit_budget", "capacity", "epsilon"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))
        positive("delta", self.delta)
        if self.delta >= 1:
            raise ValueError(f"delta must be a number above 0 and below 1, found {self.delta}")
        known("thing to do when a budget is spent", self.when_spent, WHEN_SPENT)
        seed("seed", self.seed)
        integer("evaluate_every", self.evaluate_every)
        object.__setattr__(self, "metrics", parsed(self.metrics))
        for name in ("evaluate_clients", "streamed"):
            if getattr(self, name) is not None:
                flag(name, getattr(self, name))
        flag("watch", self.watch)
        flag("keep_models", self.keep_models)
        self._check_samples()
        names = numbered(self.repetitions)
        object.__setattr__(self, "repetitions", len(names) if isinstance(names, range) else tuple(names))

    def _check_samples(self) -> None:
        integer("warm_up", self.warm_up, 0)
        integer("most_samples", self.most_samples, 2)
        if self.sample_every is None:
            if self.warm_up:
                raise ValueError(f"warm_up goes with sample_every, found warm_up={self.warm_up} without it")
            return
        first = self.warm_up + self.sample_every
        if self.rounds is not None and first > self.rounds:
            raise ValueError(
                f"no sample would be taken: the first comes in round {first} (warm_up={self.warm_up}, "
                f"sample_every={self.sample_every}), but rounds={self.rounds}"
            )

    def keywords(self) -> dict[str, Any]:
        """As `hush.run` takes them."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def identity(self, retiring: bool) -> dict[str, Any]:
        """What makes it the run it is; where clients retire, what they may spend does too."""
        kinds = ("always", "where clients retire") if retiring else ("always",)
        found = {each.name: getattr(self, each.name) for each in fields(self) if each.metadata.get("identity") in kinds}
        # `3` and `[0, 1, 2]` are the same repetitions.
        names = list(numbered(self.repetitions))
        return found | {"repetitions": len(names) if names == list(range(len(names))) else str(names)}


def never_ends(asked: Mapping[str, Any]) -> bool:
    """Whether nothing that is asked for would end a run: clients that retire leave the rounds to go on without them."""
    ends = ["rounds", "bit_budget"] + (["epsilon", "client_bit_budget"] if asked.get("when_spent") != "retire" else [])
    return all(asked.get(name) is None for name in ends)


def run_table() -> dict[str, Field]:
    """What the table `[run]` of a settings file may hold."""
    return {name: entry for name, entry in schema(RunSettings).items() if name != "sweep"}

"""What a device agrees to: a document of settings, pinned by its digest. No code travels, only names and numbers.

Server and devices each build the same algorithm from it, with the pieces installed on them.
"""

import hashlib
import tomllib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tomli_w

from hush.core.algorithm import Algorithm, InTurn
from hush.core.costs import costs
from hush.core.flat import dimension as parameters
from hush.core.problem import Population, Problem
from hush.network.messages import PROTOCOL
from hush.privacy import Description, NoGuarantee, describe
from hush.privacy.shown import rounded_up
from hush.settings import Experiment, RunSettings, build
from hush.settings.errors import SettingsError
from hush.settings.tables import Tables, plain, tables_of

# What of a run's settings concerns a device. Where data lies, and how often the server evaluates, does not.
OF_THE_RUN = ("rounds", "delta", "unit", "trust", "epsilon")
AT_THE_SERVER = ("test",)  # of a task
HEADER = "agreement"
# Trust in anything but oneself, the server, or a secure sum is nothing that this network can enforce.
ENFORCED = ("local", "server")


@dataclass(frozen=True)
class Agreement:
    """The document, as text, that both sides hold the same of."""

    text: str

    @property
    def digest(self) -> bytes:
        """What a device pins."""
        return hashlib.sha256(self.text.encode()).digest()

    @property
    def name(self) -> str:
        """The digest as people compare it."""
        return self.digest.hex()[:16]

    @cached_property
    def header(self) -> Tables:
        """What is said beside the settings."""
        found = self._tables.get(HEADER)
        if not isinstance(found, dict) or found.get("protocol") != PROTOCOL:
            raise SettingsError(HEADER, f"is not one of protocol {PROTOCOL}")
        return found

    @property
    def rehearsal(self) -> int | None:
        """The seed that all randomness comes from, where this is a rehearsal that protects nobody."""
        return self.header.get("rehearsal_seed")

    @cached_property
    def experiment(self) -> Experiment:
        """The algorithm, the task and the run that the document asks for, every name and value checked."""
        return build({name: table for name, table in self._tables.items() if name != HEADER})

    @cached_property
    def _tables(self) -> Tables:
        try:
            return tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            raise SettingsError(HEADER, f"is no TOML document: {error}") from error

    def check(self, population: Population) -> None:
        """Refuse a population that is not the one agreed to: weights and ε depend on it."""
        if self.header.get("population") != _named(population):
            raise ValueError(
                f"the agreement is about {self.header.get('clients')} clients with "
                f"{self.header.get('examples')} examples, found {population.clients} with {population.examples}, or "
                "shared out in another way"
            )


def agree(
    algorithm: Algorithm | InTurn, problem: Problem, run: RunSettings, rehearsal: bool = False, task: Any = None
) -> Agreement:
    """The agreement on an algorithm, a problem and how long the one is run on the other."""
    tables = tables_of(algorithm, problem if task is None else None)
    tables.pop("algorithm", None)  # its name is the server's word, and binds nobody
    if task is not None:
        tables["task"] = plain(task)
    tables["task"] = {name: value for name, value in tables["task"].items() if name not in AT_THE_SERVER}
    asked = run.keywords()
    tables["run"] = plain({name: asked[name] for name in OF_THE_RUN})
    population = problem.population
    header: Tables = {"protocol": PROTOCOL, "clients": population.clients, "examples": population.examples}
    header["population"] = _named(population)
    tables[HEADER] = header | ({"rehearsal_seed": run.seed} if rehearsal else {})
    return Agreement(tomli_w.dumps(_sorted(tables)))


def enforced_by(algorithm: Algorithm | InTurn) -> tuple[str, ...]:
    """The trust that a federation of this algorithm needs no faith for, beside what its name says."""
    summed = all(phase.channel.sums_codes for phase in algorithm.phases)
    return ("sum", "local") if summed else ENFORCED


def guarantee(algorithm: Algorithm | InTurn, problem: Problem, run: RunSettings) -> tuple[Description | None, str]:
    """What a device is promised, and if that is nothing the reason why; refuses trust that nothing here enforces."""
    if run.rounds is None:
        raise ValueError("a federation needs rounds: what devices agree to has an end")
    enforced = enforced_by(algorithm)
    if run.trust is not None and run.trust not in enforced:
        raise ValueError(
            f"trust={run.trust!r} cannot be enforced: here the server sees every message; say {' or '.join(enforced)}"
        )
    try:
        found = describe(algorithm, problem, run.rounds, unit=run.unit, trust=run.trust)
    except NoGuarantee as reason:
        if (run.unit, run.trust, run.epsilon) != (None,) * 3:
            raise
        return None, str(reason)
    if found.first.trust not in enforced:
        return None, f"trust={found.first.trust!r} cannot be enforced: here the server sees every message"
    return found, ""


def check_apart(found: Description | None) -> None:
    """Refuse examples that several devices hold: each would count only what it sends of them itself."""
    if found is not None and found.sharing is not None:
        raise ValueError(
            f"up to {found.holders} devices hold the same example, and each would count only what it sends of it "
            "itself; let no two of them hold the same"
        )


def in_words(agreement: Agreement, algorithm: Algorithm | InTurn, problem: Problem) -> dict[str, str]:
    """What an owner is shown before a device joins."""
    run, size = agreement.experiment.run, parameters(problem)
    found, reason = guarantee(algorithm, problem, run)
    each = costs(algorithm, problem.population, size)
    up = each.client_uplink_bits
    words = {
        "agreement": agreement.digest.hex(),
        "algorithm": agreement.experiment.name,
        "rounds": f"{run.rounds} at most, among {problem.population.clients} devices",
        "model": f"{size:,} numbers",
        "sends a round": f"{up.most:,.0f} bits" + ("" if up.exact else " at most"),
        "is sent a round": f"{each.client_downlink_bits:,} bits",
    }
    if agreement.rehearsal is not None:
        words["rehearsal"] = "all randomness comes from a seed that everybody knows: NOTHING IS PROTECTED"
    if found is None:
        return words | {"privacy": f"NONE: {reason}"}
    epsilon = found.most(run.delta)
    budget = "" if run.epsilon is None else f", and the run stops at ε = {run.epsilon:g}"
    return words | {"privacy": f"ε = {rounded_up(epsilon)} at most after all rounds{budget}"} | found.table(run.delta)


def _named(population: Population) -> str:
    """The sizes of all clients, by a digest."""
    return hashlib.sha256(np.asarray(population.sizes, "<i8").tobytes()).hexdigest()


def _sorted(value: Any) -> Any:
    """The same tables in one order, so that equal settings are equal texts."""
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(entry) for entry in value] if isinstance(value, list) else value

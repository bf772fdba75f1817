"""From settings to a guarantee: every piece is looked at, and a combination without a proof is refused with the reason.

Two ways to be private are known here. *Example level*: a client's own training is private, by noise at every step or
on its result, whoever sees the message. *Client level*: what one client can add to a sum is bounded, and noise covers
it.
"""

from dataclasses import dataclass

from hush.core.algorithm import Algorithm, InTurn
from hush.core.check import known, whole
from hush.core.contract import Population, Problem
from hush.privacy.clients import client_level
from hush.privacy.examples import example_level
from hush.privacy.guarantee import TRUST, UNITS, Description, Guarantee
from hush.privacy.releases import NoGuarantee


@dataclass(frozen=True)
class Question:
    """What a phase is asked: for how long it runs, on whom, and who is trusted."""

    population: Population
    rounds: int
    trust: str | None


def describe(
    algorithm: Algorithm | InTurn,
    problem: Problem | Population,
    rounds: int,
    *,
    unit: str | None = None,
    trust: str | None = None,
) -> Description:
    """The guarantee of an algorithm on a population for so many rounds, or a `NoGuarantee` that says why there is none.

    `unit` is example or client; without one, whichever has a proof. `trust` is local, sum or server; without one, noise
    that clients add is taken for the local model, noise that the server adds for a trusted server.
    """
    population = problem if isinstance(problem, Population) else problem.population
    whole("rounds", rounds)
    if unit is not None:
        known("unit", unit, UNITS)
    if trust is not None:
        known("trust model", trust, TRUST)
    question = Question(population, rounds, trust)
    sizes = tuple(int(size) for size in population.sizes)
    reasons = []
    for name in UNITS if unit is None else (unit,):
        try:
            return Description(tuple(_phase(name, phase, question) for phase in algorithm.phases), sizes)
        except NoGuarantee as reason:
            reasons.append(f"{name} level: {reason}")
    raise NoGuarantee("no privacy guarantee is known for this algorithm; " + "; ".join(reasons))


def _phase(unit: str, phase: Algorithm, question: Question) -> Guarantee:
    if unit == "client":
        return client_level(phase, question.population, question.rounds, question.trust)
    if question.trust not in (None, "local"):
        raise NoGuarantee(
            f"noise inside local training needs no trust ({TRUST['local']}); found trust={question.trust!r}"
        )
    return example_level(phase.local, question.population, question.rounds)

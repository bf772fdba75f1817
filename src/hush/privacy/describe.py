"""From settings to a guarantee, and from an ε to the settings that keep it.

Every piece is looked at, and a combination without a proof is refused with the reason.

Two ways to be private are known here. *Example level*: a client's own training is private, by noise at every step or
on its result, whoever sees the message. *Client level*: what one client can add to a sum is bounded, and noise covers
it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hush.core.algorithm import Algorithm, InTurn
from hush.core.check import at_least, integer, known, positive
from hush.core.flat import dimension as parameters
from hush.core.problem import ClientData, Problem
from hush.models.partly import Partly
from hush.models.wrap import itself
from hush.privacy.accounting import ACCOUNTANTS, MOST_NOISE, NO_NOISE
from hush.privacy.calibration import least_noise
from hush.privacy.clients import client_level
from hush.privacy.cohorts import by_cohort
from hush.privacy.examples import by_rule
from hush.privacy.guarantee import TRUST, UNITS, Description, Guarantee
from hush.privacy.releases import NoGuarantee, fraction
from hush.privacy.sharing import sharing
from hush.privacy.who import Clients, check_known
from hush.server import CorrelatedNoise
from hush.tasks.measures import next_token
from hush.tasks.problem import Holding, Supervised

SCALED = "what inputs are scaled and shifted by was not computed from the clients' data: that would cost privacy too"
CONSTANTS = (
    "inputs are scaled by the mean and deviation of the whole data set, constants that are taken for known beforehand: "
    "what they tell of the clients' examples, which are among those, is not counted"
)
FOUND = "the classes and categories, which are those found in the clients' data, were known beforehand"
FROZEN = "frozen weights, and those training starts from, were not computed from the clients' data: that costs privacy"
VOCABULARY = "the vocabulary was not made from the clients' text: that costs privacy"
APART = "no two devices hold the same example: what they hold is not known here"


@dataclass(frozen=True)
class Question:
    """What a phase is asked: for how long it runs, on whom, and who is trusted."""

    problem: Problem | None
    clients: Clients
    rounds: int
    trust: str | None
    dimension: int | None  # the number of parameters, if it is known


def describe(
    algorithm: Algorithm | InTurn,
    problem: Problem | Clients,
    rounds: int,
    *,
    unit: str | None = None,
    trust: str | None = None,
    dimension: int | None = None,
) -> Description:
    """The guarantee of an algorithm on a population for so many rounds, or a `NoGuarantee` that says why there is none.

    `unit` is example or client; without one, whichever has a proof. `trust` is local, sum or server, or another of
    `hush.privacy.TRUST`; without one, noise that clients add is taken for the local model, noise that the server adds
    for a trusted server. A population alone does not tell which examples clients share, nor the model's `dimension`, on
    which noise on a grid depends a little: a problem does.
    """
    integer("rounds", rounds)
    if unit is not None:
        known("unit", unit, UNITS)
    if trust is not None:
        known("trust model", trust, TRUST)
    if isinstance(problem, Clients):
        question = Question(None, problem, rounds, trust, dimension)
    elif dimension is not None:
        raise ValueError("dimension goes with a population: a problem knows its own")
    else:
        question = Question(problem, problem.population, rounds, trust, parameters(problem))
    reasons = []
    for name in UNITS if unit is None else (unit,):
        try:
            return _described(name, algorithm, question)
        except NoGuarantee as reason:
            reasons.append(f"{name} level: {reason}")
    raise NoGuarantee("no privacy guarantee is known for this algorithm; " + "; ".join(reasons))


def _described(unit: str, algorithm: Algorithm | InTurn, question: Question) -> Description:
    check_known(question.clients)
    _check_streams(algorithm)
    phases = tuple(_phase(unit, phase, question) for phase in algorithm.phases)
    problem, clients = question.problem, question.clients
    more = _taken_for_granted(problem, unit) if type(problem) is Supervised else ()
    phases = tuple(replace(phase, assumptions=(*phase.assumptions, *more)) for phase in phases)
    shared = None
    if unit == "example" and problem is not None:
        _check_gradients(problem)
        identities = problem.identities()
        shared = None if identities is None else sharing(identities, clients.sizes)
    return Description(phases, clients, question.rounds, shared)


def _taken_for_granted(problem: Supervised, unit: str) -> tuple[str, ...]:
    """What a guarantee assumes of the data; refuses inputs that tell of all clients' data before any noise is added."""
    scaled_by = problem.names.scaled_by
    if scaled_by == "clients":
        raise NoGuarantee(
            "inputs are standardised by means and deviations of the clients' own data, which no noise hides; "
            "scale them by numbers that are known beforehand"
        )
    holds = {
        SCALED: problem.is_rescaled and scaled_by == "given",
        CONSTANTS: scaled_by == "constants",
        FOUND: problem.names.from_data,
        FROZEN: isinstance(itself(problem.model), Partly),
        VOCABULARY: problem.measures is next_token,
        APART: problem.is_remote and unit == "example",
    }
    return tuple(assumption for assumption, needed in holds.items() if needed)


def _phase(unit: str, phase: Algorithm, question: Question) -> Guarantee:
    if unit == "client":
        return client_level(phase, question.clients, question.rounds, question.trust, question.dimension)
    if question.trust not in (None, "local"):
        raise NoGuarantee(
            f"noise inside local training needs no trust ({TRUST['local']}); found trust={question.trust!r}"
        )
    by_cohort.check(phase.cohort)  # one of somebody's own may draw a client many times in a round
    return by_rule(phase.local, question.clients, question.rounds, question.dimension)


def _check_streams(algorithm: Algorithm | InTurn) -> None:
    """Refuse two rules of correlated noise: each would take from one stream what the other counts on."""
    streams = 0
    for phase in algorithm.phases:
        server: Any = phase.server
        while server is not None:  # whatever rule it stands within
            streams += isinstance(server, CorrelatedNoise)
            server = getattr(server, "inner", None)
    if streams > 1:
        raise NoGuarantee("more than one rule of correlated noise: they would share one stream of it")


def _check_gradients(problem: Problem) -> None:
    """Refuse a problem that clips its examples in a way of its own."""
    view = type(problem.client(0))
    if view.clipped_gradient not in (ClientData.clipped_gradient, Holding.clipped_gradient):
        raise NoGuarantee(f"no proof is known for how {view.__name__} clips each example's gradient")


def calibrate(
    make: Callable[[float], Algorithm | InTurn],
    problem: Problem | Clients,
    rounds: int,
    epsilon: float,
    delta: float,
    *,
    unit: str | None = None,
    trust: str | None = None,
    dimension: int | None = None,
    accountant: str = "least",
    low: float = NO_NOISE,
    high: float = MOST_NOISE,
) -> float:
    """The least noise, to a relative 1e-4, with which `describe` finds an algorithm within (ε, δ) for so many rounds.

    `make(noise)` is the algorithm with that noise, and more noise is to be more private. What is returned lies between
    `low` and `high` and was itself described and found within the target, for a client that takes part whenever it may.

    >>> import hush
    >>> made = lambda noise: hush.dp_fedavg(80, 1920, clip=1.0, noise_multiplier=noise)
    >>> clients = hush.privacy.EqualClients(1920)
    >>> print(f"{calibrate(made, clients, rounds=100, epsilon=1.5, delta=1e-5, accountant='rdp'):.2f}")
    1.53
    """
    positive("epsilon", epsilon)
    fraction("delta", delta)
    known("accountant", accountant, ACCOUNTANTS)
    positive("low", low)
    at_least("high", high, low)

    def costs(noise: float, accountant: str) -> float:
        described = describe(make(noise), problem, rounds, unit=unit, trust=trust, dimension=dimension)
        failure = described.released(described.most_times, described.different[0])[1]
        if failure >= delta:
            raise NoGuarantee(
                f"rounds may not be drawn as they are accounted for, with a probability of {failure:.2g} in all: no "
                f"noise makes up for that at δ = {delta:g}"
            )
        return described.most(delta, accountant)

    return least_noise(costs, epsilon, f"δ = {delta:g} after {rounds} rounds", accountant, low, high)

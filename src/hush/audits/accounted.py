"""What the accountant claims of an algorithm, or that it claims nothing, and why."""

from dataclasses import replace

from hush.audits.claims import Claim, claim_of, nothing_claimed
from hush.core.algorithm import Algorithm, InTurn
from hush.core.problem import Problem
from hush.privacy import NoGuarantee, describe
from hush.privacy.clients import UNSEEN

# What is looked at where nobody says what is claimed.
UNIT, TRUST = "client", "server"
WHY = "why the accountant claims nothing"


def accounted(
    algorithm: Algorithm | InTurn,
    problem: Problem,
    rounds: int,
    delta: float,
    unit: str | None = None,
    trust: str | None = None,
    size: int | None = None,
) -> Claim:
    """The accountant's claim, of the worst client or of one with so many examples; where it refuses, nothing, and why.

    A client is then added or removed where each comes by a coin of its own that nobody sees, and else replaced, as an
    example is.

    >>> import hush
    >>> claim = accounted(hush.fedavg(clients=2), hush.tasks.linear_regression(clients=4), 3, 1e-5)
    >>> claim.epsilon, claim.relation
    (inf, 'replace')
    """
    try:
        return claim_of(describe(algorithm, problem, rounds, unit=unit, trust=trust), delta, size)
    except NoGuarantee as refusal:
        who, what = trust or TRUST, unit or UNIT
        alone = what == "client" and who in UNSEEN and all(phase.cohort.independent for phase in algorithm.phases)
        relation = "add-or-remove" if alone else "replace"
        nothing = nothing_claimed(delta, unit=what, relation=relation, trust=who)
        return replace(nothing, words=dict(nothing.words) | {WHY: str(refusal)})

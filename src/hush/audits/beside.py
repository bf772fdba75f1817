"""What is promised, to stand beside what an attack found; where nothing is, why not."""

from dataclasses import replace

from hush.audits.accounted import accounted
from hush.audits.claims import Claim
from hush.core.algorithm import Algorithm, InTurn
from hush.core.problem import Problem
from hush.privacy import TRUST
from hush.privacy.shown import rounded_up

DELTA = 1e-5
OTHERWISE = "otherwise"  # under which word stands what is claimed under another trust
PROTECTED = {"example": "one example of one client", "client": "all the data of one client"}


def promised(
    algorithm: Algorithm | InTurn,
    problem: Problem,
    rounds: int,
    delta: float,
    trust: str | None = None,
    size: int | None = None,
) -> Claim:
    """What the accountant claims, of the worst client or of one with so many examples; or nothing, and the reason.

    Where nothing is claimed under the trust that is asked for, what is under another stands in the words.
    """
    found = accounted(algorithm, problem, rounds, delta, trust=trust, size=size)
    if is_promised(found) or trust is None:
        return found
    other = accounted(algorithm, problem, rounds, delta, size=size)
    return replace(found, words={**found.words, OTHERWISE: in_full(other)}) if is_promised(other) else found


def is_promised(claim: Claim) -> bool:
    """Whether anything is claimed."""
    return claim.epsilon < float("inf")


def in_short(claim: Claim) -> str:
    """The figure alone, for a title.

    >>> from hush.audits import nothing_claimed
    >>> in_short(nothing_claimed(1e-5, unit="example", relation="replace", trust="local"))
    'no guarantee'
    """
    return f"ε = {rounded_up(claim.epsilon)}" if is_promised(claim) else "no guarantee"


def in_full(claim: Claim) -> str:
    """The figure with its δ, what is protected, and who is trusted."""
    if not is_promised(claim):
        nothing = "no guarantee against who sees each message" if claim.trust == "local" else "no guarantee"
        return f"{nothing}; otherwise {claim.words[OTHERWISE]}" if OTHERWISE in claim.words else nothing
    trusted = TRUST[claim.trust].partition(":")[0]
    return f"{in_short(claim)} at δ = {claim.delta:g}; protected: {PROTECTED[claim.unit]}; trusted: {trusted}"

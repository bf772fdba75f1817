"""What is promised, to stand beside what an attack found; where nothing is, why not."""

from dataclasses import replace

from hush.audits.claims import Claim, claim_of, nothing_claimed
from hush.core.algorithm import Algorithm, InTurn
from hush.core.problem import Problem
from hush.privacy import TRUST, NoGuarantee, describe
from hush.privacy.shown import rounded_up

DELTA = 1e-5
PROTECTED = {"example": "one example of one client", "client": "all the data of one client"}


def promised(
    algorithm: Algorithm | InTurn,
    problem: Problem,
    rounds: int,
    delta: float,
    trust: str | None = None,
    size: int | None = None,
) -> Claim:
    """What the accountant claims, of the worst client or of one with so many examples; or nothing, and the reason."""
    try:
        return claim_of(describe(algorithm, problem, rounds, trust=trust), delta, size)
    except NoGuarantee as reason:
        nothing = nothing_claimed(delta, unit="example", relation="replace", trust=trust or "server")
        return replace(nothing, words={"claim": "nothing is claimed", "reason": str(reason)})


def is_promised(claim: Claim) -> bool:
    """Whether anything is claimed."""
    return claim.epsilon < float("inf")


def in_short(claim: Claim) -> str:
    """The figure alone, for a title.

    >>> in_short(nothing_claimed(1e-5, unit="example", relation="replace", trust="local"))
    'no guarantee'
    """
    return f"ε = {rounded_up(claim.epsilon)}" if is_promised(claim) else "no guarantee"


def in_full(claim: Claim) -> str:
    """The figure with its δ, what is protected, and who is trusted."""
    if not is_promised(claim):
        return "no guarantee against who sees each message" if claim.trust == "local" else "no guarantee"
    trusted = TRUST[claim.trust].partition(":")[0]
    return f"{in_short(claim)} at δ = {claim.delta:g}; protected: {PROTECTED[claim.unit]}; trusted: {trusted}"

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
    """What the accountant claims, of the worst client or of one with so many examples; or nothing, and the reason.

    Where nothing is claimed under the trust that is asked for, what is under another stands in the words.
    """
    try:
        return claim_of(describe(algorithm, problem, rounds, trust=trust), delta, size)
    except NoGuarantee as reason:
        nothing = nothing_claimed(delta, unit="example", relation="replace", trust=trust or "server")
        words = {"claim": "nothing is claimed", "reason": str(reason)}
    if trust is not None and is_promised(other := promised(algorithm, problem, rounds, delta, size=size)):
        words["otherwise"] = in_full(other)
    return replace(nothing, words=words)


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
        nothing = "no guarantee against who sees each message" if claim.trust == "local" else "no guarantee"
        return f"{nothing}; otherwise {claim.words['otherwise']}" if "otherwise" in claim.words else nothing
    trusted = TRUST[claim.trust].partition(":")[0]
    return f"{in_short(claim)} at δ = {claim.delta:g}; protected: {PROTECTED[claim.unit]}; trusted: {trusted}"

"""The answer of an audit: both sides of ε, and what each attack saw and found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import pandas as pd

from hush.audits.claims import ADVERSARIES, Claim
from hush.audits.findings import Finding
from hush.privacy.shown import rounded_down, rounded_up

REFUTED, STANDS = "refuted", "not refuted"
NOT_COVERED, NOTHING_CLAIMED = "not covered by the claim", "nothing is claimed"


def verdict_of(finding: Finding) -> str:
    """What a lower bound says of the claim. That it is not refuted does not prove it."""
    if finding.refuted:
        return REFUTED
    if not finding.covered:
        return NOT_COVERED
    return NOTHING_CLAIMED if finding.claim.epsilon == inf else STANDS


@dataclass(frozen=True)
class Audit:
    """What was claimed, what attacks found against it, and what they took out of the messages."""

    what: str  # was audited, in words
    rounds: int
    claim: Claim
    findings: tuple[Finding, ...]
    others: Mapping[str, Any] = field(default_factory=dict)  # by method: what has more to show than a bound
    seconds: float = 0.0
    complete: bool = True  # False where it was told to stop before its end
    folder: Path | None = None

    @property
    def refuted(self) -> bool:
        """Whether an attack that the claim covers proved more than is claimed, up to the confidence."""
        return any(finding.refuted for finding in self.findings)

    @property
    def strongest(self) -> Finding | None:
        """Of the attacks that the claim covers (of all, where it covers none), the one that proved most."""
        told = [each for each in self.findings if each.covered] or list(self.findings)
        return max(told, key=lambda each: (each.refuted, each.bound), default=None)

    @property
    def table(self) -> pd.DataFrame:
        """A row for each attack."""
        return pd.DataFrame(
            [
                {
                    "method": each.method,
                    "adversary": each.adversary,
                    "sees": ADVERSARIES[each.adversary],
                    "covered": each.covered,
                    "delta": each.claim.delta,
                    "claimed": each.claim.epsilon,
                    "bound": each.bound,
                    "confidence": each.confidence,
                    "estimate": float("nan") if each.estimate is None else each.estimate,
                    "verdict": verdict_of(each),
                    "seconds": each.seconds,
                    "words": each.words,
                }
                for each in self.findings
            ]
        )

    @property
    def sentence(self) -> str:
        """The outcome, with all that an ε must stand beside."""
        first = self.strongest
        if first is None:
            return "No attack here ends in a bound on ε."
        claim = first.claim
        proved = (
            f"ε is at least {rounded_down(first.bound)} at δ = {claim.delta:g}, with {first.confidence:.4g} "
            f"confidence, against who sees {ADVERSARIES[first.adversary]} ({about(claim)})"
        )
        if first.refuted:
            worst = max((each for each in first.bounds if each.refutes), key=lambda each: each.epsilon - each.claimed)
            at = "" if worst.delta == claim.delta else f" at δ = {worst.delta:g}"
            said = f"ε ≤ {rounded_up(worst.claimed)}{at} is claimed, and ε ≥ {rounded_down(worst.epsilon)} was shown"
            return f"The claim is refuted: {said}. {proved}."
        if not first.covered:
            return f"{proved}: the claim is not about this adversary."
        if claim.epsilon == inf:
            return f"{proved}. Nothing is claimed, so nothing is refuted."
        return f"{proved}; ε ≤ {rounded_up(claim.epsilon)} is claimed, and is not refuted. That is no proof of it."

    def save(self, folder: str | Path, replace: bool = False) -> "Audit":
        """Write the answer into a folder: audit.json, audit.csv, and a page that opens anywhere."""
        from hush.audits.writing import save

        return save(self, folder, replace)

    def _repr_html_(self) -> str:
        from hush.report.markup import text

        shown = (
            self.table[["method", "adversary", "claimed", "bound", "confidence", "verdict"]] if self.findings else ""
        )
        inner = shown.to_html(index=False) if isinstance(shown, pd.DataFrame) else ""
        return f"<p>{text(self.sentence)}</p>{inner}"


def about(claim: Claim) -> str:
    """Whom a claim protects, from whom: the words without which an ε means nothing."""
    unit = {"example": "one example", "client": "one client"}[claim.unit]
    means = {"add-or-remove": "added or removed", "replace": "replaced"}[claim.relation]
    return f"{unit} {means}, trust: {claim.trust}, all rounds together"

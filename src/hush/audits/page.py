"""An audit as its page shows it."""

from math import inf
from pathlib import Path

import numpy as np

from hush.audits.answer import NOTHING_CLAIMED, REFUTED, Audit, about, verdict_of
from hush.audits.bounds import clopper_pearson
from hush.audits.claims import ADVERSARIES
from hush.audits.extras import extras_of
from hush.audits.findings import Finding, Scores
from hush.audits.rates import rates
from hush.privacy.shown import rounded_up
from hush.report import audit_plots
from hush.report.audit_page import AttackFacts, AuditFacts, write_audit_page
from hush.report.style import write_png
from hush.store.audits import PAGE, PICTURES

# Where a claim is looked at to draw what it leaves room for: an accountant claims an ε at each of them.
OTHER_DELTAS = (1e-6, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
MEANS = (
    "A lower bound proves that no smaller ε holds, up to the confidence. That a claim is not refuted proves nothing: a "
    "better attack may come closer."
)
CRAFTED = (
    "Attacks on crafted worst cases say what could be lost by somebody; what your own data loses may be less, and "
    "membership, reconstruction and exposure look at that."
)
TOGETHER = (
    "The confidence is shared out among the bounds, so that they hold together; it is over the draws of the attack."
)


def write_page(answer: Audit, folder: Path) -> Path:
    """The page and its large pictures, in the audit's folder."""
    shown = facts(answer)
    drawn = [each.drawn for each in shown.attacks]
    if drawn:
        write_png(audit_plots.both_sides(drawn), folder / PICTURES[0])
        write_png(audit_plots.region(drawn, shown.allowed), folder / PICTURES[1])
    return write_audit_page(folder / PAGE, shown)


def facts(answer: Audit) -> AuditFacts:
    """All that the page shows."""
    claim, first = answer.claim, answer.strongest
    verdict = REFUTED if answer.refuted else NOTHING_CLAIMED if first is None else verdict_of(first)
    claimed = f"ε ≤ {rounded_up(claim.epsilon)}" if claim.epsilon < inf else "nothing"
    names = {"claimed": f"{claimed}, at δ = {claim.delta:g}", "about": about(claim)}
    return AuditFacts(
        title="Does the ε hold?",
        question=answer.what,
        verdict=verdict,
        sentence=answer.sentence,
        epsilon=claim.epsilon,
        delta=claim.delta,
        allowed=[(claim.epsilon_at(delta), delta) for delta in (claim.delta, *OTHER_DELTAS)],
        attacks=[_attack(each) for each in answer.findings],
        claim=names | dict(claim.words),
        extras=extras_of(answer.others),
        notes=notes(answer),
        seconds=answer.seconds,
    )


def notes(answer: Audit) -> list[str]:
    """What must be known to read the page rightly."""
    found = [MEANS, CRAFTED, TOGETHER, *(_most(each) for each in answer.findings if each.method == "pairs")]
    if any(not each.covered for each in answer.findings):
        found.append("An adversary that sees more than the trust allows is not what the claim is about.")
    return found if answer.complete else [*found, "The audit was interrupted: this is what had come to an end."]


def _most(finding: Finding) -> str:
    """What so many runs could have shown at most, however much were lost."""
    included, excluded = (len(each) for each in finding.scores)
    apart = Scores(np.ones(included), np.zeros(excluded))
    most = clopper_pearson(apart, 0.5, finding.claim.delta, finding.confidence)
    return (
        f"{finding.method}, {finding.adversary}: {included:,} and {excluded:,} runs cannot show more than "
        f"ε = {rounded_up(most)} at δ = {finding.claim.delta:g}, were the two told apart always; more runs can."
    )


def _attack(finding: Finding) -> AttackFacts:
    told = rates(finding.scores) if min(map(len, finding.scores)) else None
    drawn = audit_plots.Attack(
        name=f"{finding.method}, {finding.adversary}",
        claimed=finding.claim.epsilon,
        bound=finding.bound,
        covered=finding.covered,
        refuted=finding.refuted,
        included=finding.scores.included,
        excluded=finding.scores.excluded,
        false=np.zeros(0) if told is None else told.false_positives,
        true=np.zeros(0) if told is None else told.true_positives,
    )
    return AttackFacts(
        drawn,
        sees=ADVERSARIES[finding.adversary],
        confidence=finding.confidence,
        verdict=verdict_of(finding),
        words=finding.words,
        estimate=finding.estimate,
        seconds=finding.seconds,
        bounds=[(each.delta, each.claimed, each.epsilon) for each in finding.bounds],
    )

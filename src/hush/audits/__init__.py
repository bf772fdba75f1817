"""Does the ε hold? Attacks on what was trained, and the lower bounds on ε that they prove."""

from hush.audits.answer import Audit
from hush.audits.auditing import audit
from hush.audits.canaries import canaries
from hush.audits.claims import ADVERSARIES, Claim, asserted, claim_of, nothing_claimed
from hush.audits.findings import Bound, Finding, Scores
from hush.audits.pairs import audit_pairs

__all__ = [
    "ADVERSARIES",
    "Audit",
    "Bound",
    "Claim",
    "Finding",
    "Scores",
    "asserted",
    "audit",
    "audit_pairs",
    "canaries",
    "claim_of",
    "nothing_claimed",
]

# The single attacks, by the name of the whole: hush.audit.canaries(...).
for _attack in (canaries,):
    setattr(audit, _attack.__name__, _attack)

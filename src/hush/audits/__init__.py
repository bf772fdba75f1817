"""Does the ε hold? Attacks on what was trained, and the lower bounds on ε that they prove."""

from hush.audits.answer import Audit
from hush.audits.auditing import audit
from hush.audits.canaries import canaries
from hush.audits.claims import ADVERSARIES, Claim, asserted, claim_of, nothing_claimed
from hush.audits.exposure import Exposure, exposure
from hush.audits.findings import Bound, Finding, Scores
from hush.audits.membership import Membership, membership, membership_of
from hush.audits.pairs import audit_pairs
from hush.audits.reconstruction import Reconstruction, Reconstructions, compare_reconstructions, reconstruct

__all__ = [
    "ADVERSARIES",
    "Audit",
    "Bound",
    "Claim",
    "Exposure",
    "Finding",
    "Membership",
    "Reconstruction",
    "Reconstructions",
    "Scores",
    "asserted",
    "audit",
    "audit_pairs",
    "canaries",
    "claim_of",
    "compare_reconstructions",
    "exposure",
    "membership",
    "membership_of",
    "nothing_claimed",
    "reconstruct",
]

# The single attacks, by the name of the whole: hush.audit.canaries(...).
for _attack in (canaries, exposure, membership, reconstruct):
    setattr(audit, _attack.__name__, _attack)

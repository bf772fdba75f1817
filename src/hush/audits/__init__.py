"""Does the ε hold? Attacks on what was trained, and the lower bounds on ε that they prove."""

from hush.audits.claims import ADVERSARIES, Claim, asserted, claim_of, nothing_claimed
from hush.audits.findings import Bound, Finding, Scores

__all__ = ["ADVERSARIES", "Bound", "Claim", "Finding", "Scores", "asserted", "claim_of", "nothing_claimed"]

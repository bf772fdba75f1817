"""Does the ε hold? Attacks on what was trained, and the lower bounds on ε that they prove."""

from hush.audits.claims import ADVERSARIES, Claim, asserted, claim_of, nothing_claimed
from hush.audits.exposure import Exposure, exposure
from hush.audits.findings import Bound, Finding, Scores
from hush.audits.reconstruction import Reconstruction, Reconstructions, compare_reconstructions, reconstruct

__all__ = [
    "ADVERSARIES",
    "Bound",
    "Claim",
    "Exposure",
    "Finding",
    "Reconstruction",
    "Reconstructions",
    "Scores",
    "asserted",
    "claim_of",
    "compare_reconstructions",
    "exposure",
    "nothing_claimed",
    "reconstruct",
]

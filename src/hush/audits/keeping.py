"""Findings as arrays, so that an attack that has come to its end is not made again."""

import json
from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np

from hush.audits.claims import Claim
from hush.audits.findings import Bound, Finding, Scores

Array = np.ndarray[Any, Any]
PLAIN = ("method", "adversary", "confidence", "estimate", "words", "seconds", "gaussian_bound")
OF_CLAIM = ("delta", "unit", "relation", "trust", "size")


def packed(finding: Finding) -> dict[str, Array]:
    """All of a finding; of its claim, what is claimed at the δ of its bounds."""
    claim = {name: getattr(finding.claim, name) for name in OF_CLAIM} | {"words": dict(finding.claim.words)}
    told = {name: getattr(finding, name) for name in PLAIN} | {"claim": claim}
    arrays = {"bounds": np.array(finding.bounds, dtype=float)} | finding.scores._asdict()
    return {"told": np.array(json.dumps(told))} | arrays


def unpacked(arrays: Mapping[str, Array]) -> Finding:
    """The reverse of `packed`."""
    told = json.loads(str(arrays["told"]))
    bounds = tuple(Bound(*map(float, row)) for row in arrays["bounds"])
    claimed = {bound.delta: bound.claimed for bound in bounds}
    claim = Claim(**told.pop("claim"), epsilon_at=lambda delta: claimed.get(delta, inf))
    scores = Scores(*(arrays[name] for name in Scores._fields))
    return Finding(claim=claim, bounds=bounds, scores=scores, **told)

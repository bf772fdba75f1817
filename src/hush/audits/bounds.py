"""From scores to lower bounds on ε, by jax-privacy's statistics.

Whatever was chosen (a score, a threshold, a δ) must have been chosen by other draws than those that are counted here.
"""

from collections.abc import Sequence

import numpy as np
from jax_privacy.auditing import CanaryScoreAuditor, Explicit

from hush.audits.claims import Claim
from hush.audits.findings import Bound, Scores

CONFIDENCE = 0.95


def best_threshold(scores: Scores, delta: float, confidence: float = CONFIDENCE) -> float:
    """The threshold with the largest lower bound on these scores; to be used on others."""
    auditor = CanaryScoreAuditor(scores.included, scores.excluded)
    # The library has no public name for this search over all thresholds at once.
    return float(auditor._epsilon_clopper_pearson_all_thresholds(1 - confidence, delta, False)[1])


def clopper_pearson(scores: Scores, threshold: float, delta: float, confidence: float = CONFIDENCE) -> float:
    """ε ≥ ln((TPR − δ)/FPR), or the same of the other world, with exact bounds on both rates (Jagielski et al. 2020).

    >>> import numpy as np
    >>> told_apart = Scores(np.ones(10_000), np.zeros(10_000))
    >>> print(f"{clopper_pearson(told_apart, 0.5, delta=1e-5):.2f}")  # ln of 10,000 / 3.69
    7.90
    """
    auditor = CanaryScoreAuditor(np.asarray(scores.included), np.asarray(scores.excluded))
    strategy = Explicit(threshold)
    return float(auditor.epsilon_clopper_pearson(1 - confidence, delta, False, threshold_strategy=strategy))


def held_to(claim: Claim, scores: Scores, choices: Sequence[tuple[float, float]], confidence: float) -> list[Bound]:
    """Bounds at some δ, each by its threshold, which hold together: the error is shared out among them."""
    each = 1 - (1 - confidence) / len(choices)
    found = [(delta, clopper_pearson(scores, threshold, delta, each)) for delta, threshold in choices]
    return [Bound(delta, bound, claim.epsilon_at(delta)) for delta, bound in found]

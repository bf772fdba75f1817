"""The 2-Wasserstein distance, W2(μ, ν)² = inf E‖X − Y‖² over all pairs X ~ μ, Y ~ ν: paper fa-ld, section 5.

Between Gaussians it has a closed form, which section 7 uses on the mean and covariance of samples. All in float64.
"""

from typing import Any

import numpy as np

from hush.core.check import integer

Array = np.ndarray[Any, Any]

MOST_SAMPLES = 5000  # the exact pairing of n samples takes n² memory and about n³ time
FLOOR_DRAWS = 200
ROUNDING = 1e-5  # of the largest entry: so far may rounding push a covariance from symmetry or below zero


def between_gaussians(mean_a: Any, covariance_a: Any, mean_b: Any, covariance_b: Any) -> float:
    """W2² = ‖m_a − m_b‖² + tr(A + B − 2(A^½ B A^½)^½), of N(m_a, A) and N(m_b, B); either may be singular.

    With A = F Fᵀ and B = G Gᵀ the trace is min ‖F − G U‖² over rotations U (Bhatia, Jain and Lim, 2019). Written so,
    near Gaussians are near: the trace itself would lose half of the digits to cancellation.
    """
    mean_a, F = _gaussian(mean_a, covariance_a)
    mean_b, G = _gaussian(mean_b, covariance_b)
    if len(mean_a) != len(mean_b):
        raise ValueError(f"the two Gaussians must have one dimension, found {len(mean_a)} and {len(mean_b)}")
    left, _, right = np.linalg.svd(G.T @ F)
    return float(np.hypot(np.linalg.norm(mean_a - mean_b), np.linalg.norm(F - G @ (left @ right))))


def to_gaussian(samples: Any, mean: Any, covariance: Any) -> float:
    """W2 from the Gaussian with the samples' [R, d] mean and covariance to N(mean, covariance)."""
    samples = _samples("samples", samples, 2)
    own = np.atleast_2d(np.cov(samples, rowvar=False, ddof=1))
    return between_gaussians(samples.mean(0), own, mean, covariance)


def between_samples(a: Any, b: Any) -> float:
    """W2 of two equally large samples [n, d], exactly: the pairing of one with the other that moves them least."""
    a, b = _samples("the first sample", a), _samples("the second sample", b)
    if a.shape != b.shape:
        raise ValueError(
            f"both samples must have the shape [n, d], found {a.shape} and {b.shape}; "
            "subsample the larger one at random if only n differs"
        )
    if len(a) > MOST_SAMPLES:
        raise ValueError(f"at most {MOST_SAMPLES} samples can be paired exactly, found {len(a)}; subsample both")
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    squares = cdist(a, b, "sqeuclidean")
    return float(np.sqrt(squares[linear_sum_assignment(squares)].mean()))


def floor(covariance: Any, samples: int) -> float:
    """What `to_gaussian` shows for so many perfect samples of N(·, covariance): a median over simulated ones.

    No sampler can be seen to come closer than that: R = 300 in paper fa-ld, section 7, have a floor of about 7e-4.
    """
    integer("samples", samples, 2)
    covariance = np.asarray(covariance, float)
    mean, F = _gaussian(np.zeros(len(np.atleast_1d(covariance))), covariance)
    draws = np.random.default_rng(0)
    perfect = (draws.normal(size=(samples, len(mean))) @ F.T for _ in range(FLOOR_DRAWS))
    return float(np.median([to_gaussian(each, mean, covariance) for each in perfect]))


def _gaussian(mean: Any, covariance: Any) -> tuple[Array, Array]:
    """The mean, and a factor F of the covariance F Fᵀ."""
    mean, covariance = np.asarray(mean, float), np.asarray(covariance, float)
    if mean.ndim != 1 or covariance.shape != (len(mean), len(mean)):
        raise ValueError(
            f"a Gaussian has a mean [d] and a covariance [d, d], found shapes {mean.shape} and {covariance.shape}"
        )
    if not (np.isfinite(mean).all() and np.isfinite(covariance).all()):
        raise ValueError("mean and covariance must be finite, found some that are not")
    slack = ROUNDING * np.abs(covariance).max(initial=0)
    if np.abs(covariance - covariance.T).max(initial=0) > slack:
        raise ValueError("a covariance must be symmetric, found one that is not")
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    if values.min(initial=0) < -slack:
        raise ValueError(f"a covariance must have no negative eigenvalue, found {values.min():.3g}")
    return mean, vectors * np.sqrt(np.maximum(values, 0))


def _samples(name: str, samples: Any, least: int = 1) -> Array:
    samples = np.asarray(samples, float)
    if samples.ndim != 2 or len(samples) < least or samples.shape[1] == 0:
        raise ValueError(f"{name} must have the shape [n, d] with n at least {least}, found {samples.shape}")
    if not np.isfinite(samples).all():
        raise ValueError(f"{name} must be finite, found {int((~np.isfinite(samples)).sum())} numbers that are not")
    return samples

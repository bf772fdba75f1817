"""Where clipped federated averaging comes to rest on scalar quadratics: paper clipping, Claims 2.1, 2.2 and Table 1.

Client i holds f_i(x) = ½(A_i x − b_i)², and Q full gradient steps of size η move it by −Λ_i ∇f_i(x) with
Λ_i = (1 − (1 − ηA_i²)^Q)/A_i². Everyone takes part, nothing is random. What is computed is corrected:

- Claim 2.1 (clipping models) is right, for 0 < η < 2; its proof looks at λ = (1 − η)^Q in (0, 1) only.
- Claim 2.2 (clipping differences) takes Q = 1 and η = 1/max‖∇f_i(x*)‖, for which clipping to c < 1 is active at x*. It
  needs the factor c, and η below 2/L besides: on problem (8) with c = 10 the step c/6 alone is too long to settle. And
  for a vector x it must be below both: at c/max‖∇f_i(x*)‖ itself one client is at the edge of clipping at x*, which may
  then repel (a test has such a problem). "Small enough", says the paper, and the proof shows rest, not convergence.
- Eq 7's outer branch, c|Λf/A| − c²/2, is a parabola. The loss whose slope is ±c and which meets ½Λ(Ax − b)² where
  Λ|A||Ax − b| = c is c|Ax − b|/|A| − c²/(2ΛA²).
"""

from math import inf
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from hush.core.check import at_least, natural, positive

Array = NDArray[np.float64]

# Problem (8): f_1 = ½(x − 4)², f_2 = ½(2x − 1)², f_3 = ½(6x + 1)²; the minimum of their mean is at 0.
PROBLEM_8 = (1.0, 2.0, 6.0), (4.0, 1.0, -1.0)
TABLE_1_STEPS = (1, 10, 100, 1000)
TABLE_1_BOUNDS = (inf, 1.0, 0.1, 0.05, 0.01)


def model_clipping_clients(bound: float, far: float = 5.0) -> tuple[float, float, float]:
    """The minima of Claim 2.1's three clients f_i(x) = ½(x − b_i)²: −c/2, −c/2 and kc."""
    positive("bound", bound)
    if not far > 1:
        raise ValueError(f"far must be a number above 1, found {far!r}")
    return (-bound / 2, -bound / 2, far * bound)


def model_clipping_limit(bound: float, lr: float, steps: int, far: float = 5.0) -> float:
    """Claim 2.1: where averaging of clipped models ends, x∞ = λc/(3 − 2λ) with λ = (1 − η)^Q.

    The third client is clipped there for every k ≥ 4, and the optimum (k − 1)c/3 is out of reach for k > 4. For less
    it may be reached: if nobody is clipped at it, which is when it is the smaller of the two.

    >>> model_clipping_limit(bound=1.0, lr=0.5, steps=1), sum(model_clipping_clients(1.0)) / 3
    (0.25, 1.333)
    """
    optimum = sum(model_clipping_clients(bound, far)) / 3
    _settles(np.ones(1), lr)
    natural("steps", steps)
    shrink = (1 - lr) ** steps
    return min(optimum, shrink * bound / (3 - 2 * shrink))


def local_scale(A: ArrayLike, lr: float, steps: int) -> Array:
    """Λ_i = (1 − (1 − ηA_i²)^Q)/A_i²: Q steps are one of this size.

    >>> local_scale([1.0, 2.0], lr=0.01, steps=1).tolist()
    [0.01, 0.01]
    """
    slopes = np.asarray(A, dtype=np.float64)
    _settles(slopes, lr)
    natural("steps", steps)
    return (1 - (1 - lr * slopes**2) ** steps) / slopes**2


def _settles(A: Array, lr: float) -> None:
    """Local steps must lead to the client's own minimum: 0 < ηA_i² < 2."""
    positive("lr", lr)
    if not ((A != 0).all() and (lr * A**2 < 2).all()):
        raise ValueError(f"lr × A² must be above 0 and below 2 for every client, found lr {lr!r} and A {A.tolist()}")


def settling_step(gradients: ArrayLike, bound: float, smoothness: float, as_printed: bool = False) -> float:
    """Claim 2.2: a step size for which one local step (Q = 1) with clipped differences ends at the optimum.

    `gradients` are the clients' at the optimum [N, d], `smoothness` is L of their mean f. A step of c/max‖∇f_i(x*)‖
    leaves every client at x* unclipped, so that x* is at rest; 1/L at the most brings the model there. For a scalar x
    it does so from anywhere, at this step or a smaller one; for a vector at a smaller one, from near x*.
    """
    positive("bound", bound)
    positive("smoothness", smoothness)
    found = np.asarray(gradients, dtype=np.float64)
    if found.ndim != 2:
        raise ValueError(f"gradients must be [clients, dimension], found shape {found.shape}")
    largest = float(np.linalg.norm(found, axis=1).max())
    if as_printed:
        return 1 / largest if largest else inf
    return min(bound / largest if largest else inf, 1 / smoothness)


def clipped_gradient(x: ArrayLike, A: float, b: float, scale: float, bound: float) -> Array:
    """Eq 6 for a scalar x: Λ∇f(x) = ΛA(Ax − b), clipped to c."""
    _branch(A, scale, bound)
    return np.clip(scale * A * (A * np.asarray(x, dtype=np.float64) - b), -bound, bound)


def huberised_loss(x: ArrayLike, A: float, b: float, scale: float, bound: float, as_printed: bool = False) -> Array:
    """Eq 7: the loss that clipped differences descend, quadratic where they are not clipped and linear where they are.

    >>> huberised_loss([1.0, 2.0, 3.0], A=1.0, b=0.0, scale=1.0, bound=2.0).tolist()
    [0.5, 2.0, 4.0]
    """
    _branch(A, scale, bound)
    apart = np.abs(A * np.asarray(x, dtype=np.float64) - b)
    inner = scale * apart**2 / 2
    if as_printed:
        outer = bound * np.abs(scale / A * apart**2 / 2) - bound**2 / 2
    else:
        outer = bound * apart / abs(A) - bound**2 / (2 * scale * A**2)
    return np.where(scale * abs(A) * apart <= bound, inner, outer)


def _branch(A: float, scale: float, bound: float) -> None:
    positive("|A|", abs(A))
    positive("scale", scale)
    positive("bound", bound)


class Interval(NamedTuple):
    """All points at rest, from the lowest to the highest; one point if these are the same."""

    low: float
    high: float


def stationary_set(A: ArrayLike, b: ArrayLike, bound: float, lr: float, steps: int) -> Interval:
    """Where Σ_i clip(Λ_i∇f_i(x), c) = 0: FedAvg with differences clipped to c moves no more. inf is no clipping.

    The sum never falls and is linear between the points where a client begins or ceases to be clipped, so it is solved
    exactly. With an odd number of clients one of them is always unclipped at rest, and the point is the only one. With
    an even number half may pull each way, all of them clipped, over a whole interval: any of it is then at rest.

    >>> stationary_set([1.0, 1.0], [-3.0, 3.0], bound=0.125, lr=0.125, steps=1)
    Interval(low=-2.0, high=2.0)
    """
    slopes, targets = np.asarray(A, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if slopes.ndim != 1 or slopes.shape != targets.shape or slopes.size == 0:
        raise ValueError(f"A and b must be [clients], found shapes {slopes.shape} and {targets.shape}")
    minima, pull = targets / slopes, local_scale(slopes, lr, steps) * slopes**2
    if bound == inf:
        alone = float(pull @ minima / pull.sum())
        return Interval(alone, alone)
    positive("bound", bound)
    corners = np.unique(np.concatenate([minima - bound / pull, minima + bound / pull]))
    sums = np.clip(pull * (corners[:, None] - minima), -bound, bound).sum(axis=1)
    rounding = 1e-12 * bound * slopes.size
    # Below the first corner all pull up, above the last all pull down: both of these exist.
    below, above = int(np.flatnonzero(sums < -rounding)[-1]), int(np.flatnonzero(sums > rounding)[0])
    if above > below + 1:
        return Interval(float(corners[below + 1]), float(corners[above - 1]))
    between = float(np.interp(0.0, sums[[below, above]], corners[[below, above]]))
    return Interval(between, between)


def table_1(lr: float = 0.01) -> pd.DataFrame:
    """Table 1: the stationary points for problem (8), a row for each Q and a column for each c (inf: unclipped).

    Three clients, so each is one point. The optimum is 0: one step finds it unless it is clipped, many steps do not,
    and clipping then leads nearer to it, to the middle client's minimum ½ in the end.

    >>> table_1().loc[100].round(4).tolist()
    [1.0931, 0.6681, 0.5, 0.5, 0.5]
    """
    at_least("lr", lr, 0)
    cells = [[stationary_set(*PROBLEM_8, bound, lr, steps).low for bound in TABLE_1_BOUNDS] for steps in TABLE_1_STEPS]
    rows = pd.Index(TABLE_1_STEPS, name="steps")
    return pd.DataFrame(cells, index=rows, columns=pd.Index(TABLE_1_BOUNDS, name="bound"))

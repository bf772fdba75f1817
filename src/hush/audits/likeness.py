"""How like two pictures are, and which of some reconstructions is of which original. All numbers are from 0 to 1."""

from typing import Any

import numpy as np
from scipy.ndimage import uniform_filter
from scipy.optimize import linear_sum_assignment

Array = np.ndarray[Any, Any]

WINDOW = 7  # pixels: smaller pictures have a smaller one


def is_image(shape: tuple[int, ...]) -> bool:
    """Whether inputs of this shape can be shown: height × width, grey or of three colours."""
    channels = shape[2] if len(shape) == 3 else 1
    return len(shape) in (2, 3) and min(shape[:2]) > 1 and channels in (1, 3)


def matched(originals: Array, found: Array) -> Array:
    """Which reconstruction goes with which original: the pairs with the least squared errors together.

    A message is a sum over examples, so that nothing in it tells their order.

    >>> matched(np.array([[0.0], [1.0]]), np.array([[0.9], [0.2]])).tolist()
    [1, 0]
    """
    flat = [np.reshape(each, (len(each), -1)) for each in (originals, found)]
    errors = np.sum((flat[0][:, None] - flat[1][None]) ** 2, axis=2)
    order: Array = linear_sum_assignment(errors)[1]
    return order


def relative_error(original: Array, found: Array) -> float:
    """‖x̂ − x‖² / ‖x − x̄‖², x̄ the mean of x: 1 is what the best constant guess has.

    >>> relative_error(np.array([0.0, 1.0]), np.array([0.5, 0.5]))
    1.0
    """
    spread = float(np.sum((original - original.mean()) ** 2))
    wrong = float(np.sum((found - original) ** 2))
    return wrong / spread if spread > 0 else (0.0 if wrong == 0 else np.inf)


def psnr(original: Array, found: Array) -> float:
    """10 · log₁₀(1 / mean squared error), in decibels.

    >>> psnr(np.zeros((2, 2)), np.full((2, 2), 0.1))
    20.0
    """
    error = float(np.mean((found - original) ** 2))
    return np.inf if error == 0 else float(-10 * np.log10(error))


def ssim(original: Array, found: Array) -> float:
    """Structural similarity: Wang et al. 2004, eq 13, over square windows; the mean over places and colours.

    (2 µ_x µ_y + c₁)(2 σ_xy + c₂) / ((µ_x² + µ_y² + c₁)(σ_x² + σ_y² + c₂)), c₁ = 0.01² and c₂ = 0.03².

    >>> picture = np.linspace(0, 1, 64).reshape(8, 8)
    >>> ssim(picture, picture), ssim(picture, 1 - picture) < 0
    (1.0, True)
    """
    size = min(WINDOW, *original.shape[:2])
    x, y = (np.reshape(each, (*each.shape[:2], -1)) for each in (original, found))
    half = size // 2
    rows, columns = (slice(half, length - (size - 1 - half)) for length in x.shape[:2])  # windows that lie inside

    def mean(values: Array) -> Array:
        return uniform_filter(values, size=(size, size, 1))[rows, columns]

    ux, uy = mean(x), mean(y)
    vx, vy, vxy = mean(x * x) - ux**2, mean(y * y) - uy**2, mean(x * y) - ux * uy
    c1, c2 = 0.01**2, 0.03**2
    return float(np.mean((2 * ux * uy + c1) * (2 * vxy + c2) / ((ux**2 + uy**2 + c1) * (vx + vy + c2))))

"""The power rule of least mean squared error, from the statistics of the messages: paper alignment's reference 11.

To be made least, per coordinate and with Σ_k message_k estimated by s·y, s = 1/√η:

    v² Σ(a_k − 1)² + m² (Σ(a_k − 1))² + N0 s²     over 0 ≤ a_k ≤ |ψ_k| s, s ≥ 0.

It is a convex quadratic in (a, s). Where a_k is below its bound, v²(a_k − 1) + m² D = 0 with D = Σ(a_j − 1), so these
share one value t = 1 − (m²/v²) D. D > 0 would put all a_k below one: so t ≥ 1, and a_k = min(|ψ_k| s, t). Let κ = t/s:
a client sends at full power up to |ψ_k| = κ, and comes down to κ above. The derivative in s, and t with its D, become

    N0 = v² Σ_k |ψ_k| (κ − |ψ_k|)₊          s = (v² + m² K) / (v² κ + m² Σ_k min(|ψ_k|, κ)).

The first has κ alone in it and its right side grows with κ. With C the clients at full power it says
κ = (N0/v² + Σ_C ψ²) / Σ_C |ψ|, and the j-th in order of size is in C when v² Σ_{i<j} |ψ_i| (|ψ_j| − |ψ_i|) ≤ N0.
One sort, and sums.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp

from hush.channel.power import PowerRule, over
from hush.core.contract import Statistics


def _level(size: jax.Array, variance: jax.Array, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
    """κ, infinite where v² = 0, and v²κ, finite also then; zeros among the sizes change nothing."""
    ordered = jnp.sort(size)
    below = jnp.cumsum(ordered)[:-1]
    # Σ_{i<j} ψ_i (ψ_j − ψ_i) by its increments: a difference of sums would lose its digits where the ψ are close.
    full = variance * jnp.pad(jnp.cumsum(below * jnp.diff(ordered)), (1, 0)) <= noise
    total = jnp.sum(jnp.where(full, ordered, 0))
    # ψ²/Σψ as ψ · (ψ/Σψ): the square of a tiny gain beside a large one would be lost.
    scaled = over(noise, total) + variance * jnp.sum(jnp.where(full, ordered * over(ordered, total), 0))
    return jnp.where(variance > 0, over(scaled, variance), jnp.inf), scaled


class LeastSquares(PowerRule):
    """The levels of the least mean squared error.

    √α_k = min(1, κ/|ψ_k|), 1/c = W s/K: the exact minimiser of the mean squared error (derived in the module).
    It aims at W times the plain mean, which is the weighted sum where the weights are equal. A client that is asked and
    cannot be heard counts among the K. Without variance (v = 0) all send at full power; without noise (N0 = 0) this is
    alignment; messages of no size (m = v = 0) are best estimated by nothing, 1/c = 0.
    """

    aware: ClassVar[bool] = True

    def levels(
        self, size: jax.Array, wanted: jax.Array, noise_variance: float | jax.Array, statistics: Statistics
    ) -> tuple[jax.Array, jax.Array]:
        # In units of the largest gain and of the messages' mean square nothing leaves the range of single precision.
        unit, square = jnp.max(size), jnp.asarray(statistics.mean_square + statistics.variance, size.dtype)
        noise = over(over(over(noise_variance, square), unit), unit)
        mean_square, variance = over(statistics.mean_square, square), over(statistics.variance, square)
        relative = over(size, unit)
        level, scaled = _level(relative, variance, noise)
        clients = jnp.sum(wanted > 0)
        heard = scaled + mean_square * jnp.sum(jnp.minimum(relative, level))
        scale = over(over(variance + mean_square * clients, heard), unit)
        return over(level, relative), over(scale * jnp.sum(wanted), clients)

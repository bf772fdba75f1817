"""Over the air: analogue messages that meet in a fading multiple-access channel, paper alignment, section II."""

from typing import Any

import jax
import jax.numpy as jnp

from hush.channel.fading import Constant, Fading
from hush.channel.power import FullPower, PowerRule, effective, of_clients
from hush.core.check import positive
from hush.core.contract import Channel, Draw, Mixing, Statistics
from hush.core.keys import Key


class OverTheAir(Channel):
    """Adds analogue messages up in the air, with fading and noise.

    y = Σ_k h_k x_k + n with x_k = √(α_k P_k) message_k / L and n ~ N(0, N0 I); the server takes y/c.
    `bound` is L, which the uplink's last stage must keep (`Clip(L)`): then no client exceeds its power P_k, given in
    decibels, one for all or one for each client of the population. All clients of a round share d channel uses.
    """

    rule: PowerRule = FullPower()
    fading: Fading = Constant()
    decibel: float | tuple[float, ...] = 0.0
    noise_variance: float = 1.0  # N0
    bound: float = 1.0  # L
    analogue = True
    float_noise = True  # the receiver's, which is the air's own: nobody draws it but a simulation

    def __check_init__(self) -> None:
        for name, piece, kind in (("rule", self.rule, PowerRule), ("fading", self.fading, Fading)):
            if not isinstance(piece, kind):
                raise ValueError(f"{name} takes a {kind.__name__}, found {type(piece).__name__}: {piece!r}")
        positive("bound", self.bound)
        positive("noise_variance", self.noise_variance)

    @property
    def aware(self) -> bool:  # type: ignore[override]
        """Whether the power rule must know the messages' statistics."""
        return self.rule.aware

    @property
    def message_bound(self) -> Any:
        return self.bound

    def __call__(self, key: Key, draw: Draw, number: int | jax.Array, statistics: Statistics) -> Mixing:
        amplitude = 10 ** (of_clients(self.decibel, draw.ids) / 20) / self.bound
        psi = effective(self.fading(key, draw.ids, number), amplitude)
        scaling = self.rule(psi.known, draw.weights, draw.active, self.noise_variance, statistics)
        return scaling.mixing(psi.true, amplitude, jnp.asarray(self.noise_variance))

"""How messages meet: received = Σ_k a_k · message_k + noise."""

from hush.channel.noisy import Noisy
from hush.core.contract import Channel
from hush.core.plain import Digital

CHANNELS: dict[str, type[Channel]] = {"digital": Digital, "noisy": Noisy}

__all__ = ["CHANNELS", "Digital", "Noisy"]

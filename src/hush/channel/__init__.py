"""How messages meet: received = Σ_k a_k · message_k + noise."""

from hush.core.contract import Channel
from hush.core.plain import Digital

CHANNELS: dict[str, type[Channel]] = {"digital": Digital}

__all__ = ["CHANNELS", "Digital"]

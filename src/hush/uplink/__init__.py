"""What is done to a message before it is sent: (key, vector, state) -> vector, state, info. Stages chain."""

from hush.core.contract import Stage
from hush.uplink.clip import Clip

STAGES: dict[str, type[Stage]] = {"clip": Clip}

__all__ = ["STAGES", "Clip"]

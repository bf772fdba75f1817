"""How the model moves: (state, received, share) -> state."""

from hush.core.contract import ServerRule
from hush.core.plain import Add
from hush.server.rules import AddWithControl, Gather, Optimiser, Replace

SERVER_RULES: dict[str, type[ServerRule]] = {
    "add": Add,
    "replace": Replace,
    "add_with_control": AddWithControl,
    "gather": Gather,
    "optimiser": Optimiser,
}

__all__ = ["SERVER_RULES", "Add", "AddWithControl", "Gather", "Optimiser", "Replace"]

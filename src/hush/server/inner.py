"""What may stand within another server rule."""

from hush.core.contract import ServerRule


def check_inner(outer: str, inner: ServerRule) -> None:
    """Refuse what is no server rule, or one that works from every message: within another it gets one vector."""
    if not isinstance(inner, ServerRule):
        raise ValueError(f"inner of {outer} takes a ServerRule, found {type(inner).__name__}: {inner!r}")
    if inner.takes_each:
        raise ValueError(
            f"{outer} hands its inner rule one vector, and {type(inner).__name__} works from every message; put "
            f"{type(inner).__name__} outside"
        )

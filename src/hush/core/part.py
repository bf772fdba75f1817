"""What pieces and problems have in common: a frozen set of settings, which says what it is when it lacks something."""

from typing import Any, Self

import equinox as eqx


class Part(eqx.Module):
    """A piece, a problem or a client's view of it; whoever writes one fills in the methods that are asked for."""

    fills = "a part"  # what it is for, in words

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Refuse a class that leaves out what it must have: Python would say which, but not of what."""
        if missing := sorted(getattr(cls, "__abstractmethods__", ())):
            raise TypeError(f"{cls.fills} ({cls.__name__}) must have {', '.join(missing)}; see docs/slots.md")
        return super().__new__(cls)

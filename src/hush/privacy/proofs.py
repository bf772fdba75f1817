"""Tables of proofs: one for each kind of piece, looked up by exact type. What stands in none has no number.

A piece that inherits from a known one may do anything, so that no proof is inherited.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from hush.privacy.releases import NoGuarantee

Found = TypeVar("Found")
Proof = TypeVar("Proof", bound=Callable[..., Any])


class Proofs(Generic[Found]):
    """What is proved of the pieces of one kind, and which of them are known to have no proof, with the reason.

    >>> by_number: Proofs[str] = Proofs("number")
    >>> @by_number.register(int)
    ... def _(number):
    ...     return f"{number} is whole"
    >>> by_number.refuse("may be rounded", float)
    >>> by_number(3)
    '3 is whole'
    >>> by_number(True)
    Traceback (most recent call last):
    hush.privacy.releases.NoGuarantee: no proof is known for the number bool
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.proved: dict[type, Callable[..., Found]] = {}
        self.refused: dict[type, str] = {}

    def register(self, *types: type) -> Callable[[Proof], Proof]:
        """A decorator of the function that holds the proof for pieces of these types, and of no others."""

        def add(proof: Proof) -> Proof:
            for each in types:
                self._new(each)
                self.proved[each] = proof
            return proof

        return add

    def refuse(self, reason: str, *types: type) -> None:
        """Say why pieces of these types have no proof."""
        for each in types:
            self._new(each)
            self.refused[each] = reason

    def _new(self, kind: type) -> None:
        if kind in self.proved or kind in self.refused:
            raise ValueError(f"what is proved of the {self.kind} {kind.__name__} is said already")

    def check(self, piece: Any) -> None:
        """Refuse a piece without a proof."""
        kind = type(piece)
        if kind in self.refused:
            raise NoGuarantee(f"the {self.kind} {kind.__name__} {self.refused[kind]}")
        if kind not in self.proved:
            raise NoGuarantee(f"no proof is known for the {self.kind} {kind.__name__}")

    def __call__(self, piece: Any, *asked: Any) -> Found:
        """What the proof for this very type of piece says."""
        self.check(piece)
        return self.proved[type(piece)](piece, *asked)

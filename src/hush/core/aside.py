"""What is said of a thing and changes nothing that is computed."""


class Aside:
    """What is said of a problem or an algorithm and changes nothing that is computed.

    All of one kind are equal: what a thing is called must not make a compiled program unfit for it.
    """

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return 0


class Called(Aside):
    """A name, and the pieces of what was made by it: with other pieces the name is no longer true."""

    def __init__(self, name: str = "", pieces: tuple[str, ...] = ()) -> None:
        self.name, self.pieces = name, pieces

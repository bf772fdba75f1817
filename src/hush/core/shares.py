"""What a secure sum and its accountant count in one way: shares of clients, and odds; without waiting for JAX."""

SPARSE_FROM = 100  # fewer members all hold shares of all: that bears absences down to the threshold itself
SECURITY = 40  # bits: where they do not, a server that lies gets through a round with a probability of 2**-40 at most


def count_of(share: float, clients: int) -> int:
    """How many of so many clients a share is, at the most.

    >>> count_of(0.1, 19), count_of(0.29, 100)
    (1, 29)
    """
    return int(share * clients + 1e-9)  # 0.29 × 100 is a little less than 29


def one_list(threshold: int, members: int, colluding: int) -> bool:
    """Whether no two lists of survivors can be signed by a threshold each: two honest signatures would meet in one.

    >>> one_list(17, 30, 3), one_list(16, 30, 3)
    (True, False)
    """
    return 2 * threshold > members + colluding


def exposed(clients: int) -> float:
    """How likely circles that are drawn betray somebody in a round of so many clients, at most (`odds.exposure`).

    >>> exposed(99), exposed(100) == 2**-40
    (0.0, True)
    """
    return 2.0**-SECURITY if clients >= SPARSE_FROM else 0.0

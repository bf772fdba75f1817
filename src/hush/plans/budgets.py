"""Budgets: what a run may cost, and how many rounds of something that leaves."""

from dataclasses import dataclass
from math import floor, inf, sqrt

from hush.core.check import integer, known, positive
from hush.privacy import TRUST, UNITS

DELTA = 1e-5
LONG = 10_000  # rounds: nobody plans for more
# A random number of clients may come to more than its mean: a budget of all bits keeps so many deviations back, which
# are exceeded less than once in 10⁹ runs.
DEVIATIONS = 6.0


# Any of these ends a run.
ENDS = ("client_bits", "bits", "seconds", "energy", "client_steps", "rounds")


class Infeasible(ValueError):
    """No round of it can be paid for: which budget is too small, and by a number what would be the least."""

    def __init__(self, message: str, least: float = inf) -> None:
        super().__init__(message)
        self.least = least


@dataclass(frozen=True)
class Budgets:
    """What a run may cost; None is no limit.

    client_bits         uplink bits of any one client, over the whole run
    bits                uplink bits of all clients together
    epsilon, delta      of what is protected, `unit`, against whom: `trust`, a name from hush.privacy.TRUST
    seconds, capacity   time on the uplink, which all clients share, at so many bits a second (over the air: numbers)
    energy              what all clients together may put on the air
    client_steps        local steps that any one client may make
    rounds              however many the others would pay for
    """

    client_bits: float | None = None
    bits: float | None = None
    epsilon: float | None = None
    delta: float = DELTA
    unit: str = "client"
    trust: str | None = None
    seconds: float | None = None
    capacity: float | None = None
    energy: float | None = None
    client_steps: int | None = None
    rounds: int | None = None

    def __post_init__(self) -> None:
        for name in ("client_bits", "bits", "epsilon", "seconds", "capacity", "energy"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))
        for name in ("client_steps", "rounds"):
            if getattr(self, name) is not None:
                integer(name, getattr(self, name))
        positive("delta", self.delta)
        if self.delta >= 1:
            raise ValueError(f"delta must be a number above 0 and below 1, found {self.delta}")
        known("unit", self.unit, UNITS)
        if self.trust is not None:
            known("trust model", self.trust, TRUST)
        if (self.seconds is None) != (self.capacity is None):
            raise ValueError(
                f"seconds on the channel go with its capacity, found seconds={self.seconds}, capacity={self.capacity}"
            )
        if all(getattr(self, name) is None for name in ENDS):
            raise ValueError(
                "a plan needs a budget that ends a run: bits of a client or of all, seconds with a capacity, "
                "energy on the air, a client's steps, or rounds"
            )

    @property
    def uplink(self) -> float:
        """Bits of all clients together that may be sent: as such, or as seconds at the channel's capacity."""
        in_time = inf if self.seconds is None or self.capacity is None else self.seconds * self.capacity
        return min(inf if self.bits is None else self.bits, in_time)

    def participations(self, bits: float, steps: int) -> float:
        """How often one client may take part, at so many bits and local steps each time."""
        paid = inf if self.client_bits is None else floor(self.client_bits / bits) if bits else inf
        if paid < 1:
            raise Infeasible(
                f"{self.client_bits:,.0f} bits of a client do not pay for one message of {bits:,.0f}: "
                f"the least would be {bits:,.0f} bits per client",
                bits,
            )
        made = inf if self.client_steps is None else self.client_steps // steps
        if made < 1:
            raise Infeasible(f"{self.client_steps} steps of a client are less than one round of {steps}")
        return min(paid, made)

    def rounds_of(self, clients: float, population: int, bits: float, steps: int, at_random: bool = False) -> int:
        """How many rounds, of so many clients each, every budget of bits, time and work pays for.

        `at_random` clients come each by a coin of its own: their number varies, and so does what a round costs.
        """
        often = self.participations(bits, steps)
        rounds = [LONG if self.rounds is None else self.rounds, often * population / clients]
        if bits and self.uplink < inf:
            rounds.append(_within(self.uplink / bits, clients, population if at_random else None))
            if rounds[-1] < 1:
                raise Infeasible(
                    f"{self.uplink:,.0f} bits in all do not pay for one round of {clients:g} messages of {bits:,.0f}: "
                    f"the least would be {clients * bits:,.0f} bits",
                    clients * bits,
                )
        return max(1, floor(min(rounds)))


def _within(messages: float, clients: float, population: int | None) -> float:
    """Rounds of so many clients whose messages are within a number: in the mean, and with some deviations to spare."""
    if population is None:
        return messages / clients
    spread = DEVIATIONS * sqrt(1 - clients / population)
    # T·K + spread·√(T·K) ≤ messages, in √(T·K)
    root = (sqrt(spread**2 + 4 * messages) - spread) / 2
    return root**2 / clients

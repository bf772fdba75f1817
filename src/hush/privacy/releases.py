"""What is released: a sum or an update with Gaussian noise, how much noise, and how the one it protects was sampled.

`noise_multiplier` is z = σ/Δ, where Δ is how far one unit (an example or a client) can move what is released, in L2
norm and *under the relation in use*: an update clipped at c moves a sum by c when a client is added or removed, by 2c
when one is replaced. So without sampling the worst pair to tell apart is N(0, z²) and N(1, z²) whatever the relation.

The law of the noise is the Gaussian, or one on the integers, in any number of coordinates, where what is released is a
vector of integers too. Of the discrete Gaussian only Rényi divergences are known to be at most the Gaussian's at the
same σ/Δ (Canonne, Kamath, Steinke 2020; where it is sampled, at whole orders: `renyi`). Its δ is another in every
dimension, and no formula covers all of them. A Skellam release says its variance and how many numbers there are
(`Summed`), on which its divergences depend a little.

What has no proof has no number: `NoGuarantee`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hush.core.check import at_least, integer, known, positive

if TYPE_CHECKING:
    import dp_accounting

RELATIONS = ("add-or-remove", "replace")
LAWS = ("gaussian", "discrete gaussian", "skellam")


class NoGuarantee(ValueError):
    """There is no proof for what was asked, so there is no number."""


def exactly(kind: str, piece: Any, *known_kinds: type) -> None:
    """Refuse a piece that no proof here is about; one that inherits from a known one may do anything."""
    if type(piece) not in known_kinds:
        raise NoGuarantee(f"no proof is known for the {kind} {type(piece).__name__}")


def counted(dimension: int | None) -> int:
    """The number of parameters, which a proof about a grid must know."""
    if dimension is None:
        raise NoGuarantee("noise on a grid depends on how many parameters there are: give the problem, or dimension=")
    return dimension


def fraction(name: str, value: Any) -> None:
    """A number above zero and below one."""
    positive(name, value)
    if not value < 1:
        raise ValueError(f"{name} must be a number above 0 and below 1, found {value!r}")


@dataclass(frozen=True)
class Unsampled:
    """Every unit is in every release."""

    @property
    def rate(self) -> float:
        """The probability of a unit to be in a release."""
        return 1.0


@dataclass(frozen=True)
class Poisson:
    """Every unit is in with this probability, whoever else is; how many take part is random."""

    rate: float

    def __post_init__(self) -> None:
        positive("rate", self.rate)
        object.__setattr__(self, "rate", float(self.rate))
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate must be a number above 0 and at most 1, found {self.rate!r}")


@dataclass(frozen=True)
class Subset:
    """A fixed number of units out of all of them, without replacement, drawn anew for each release.

    >>> Subset(120, 600).rate
    0.2
    """

    size: int
    of: int

    def __post_init__(self) -> None:
        integer("of", self.of)
        integer("size", self.size, 1, self.of)

    @property
    def rate(self) -> float:
        """The probability of a unit to be in a release."""
        return self.size / self.of


Sampling = Unsampled | Poisson | Subset


@dataclass(frozen=True)
class Summed:
    """Skellam noise on so many whole numbers: the variance on each, of all clients together.

    >>> Release(2.0, "replace", law="skellam", summed=Summed(variance=400.0, numbers=650)).discrete
    True
    """

    variance: float
    numbers: int

    def __post_init__(self) -> None:
        positive("variance", self.variance)
        integer("numbers", self.numbers)


@dataclass(frozen=True)
class Release:
    """One release: noise over sensitivity, what neighbours are, how a unit is sampled, and the law of the noise.

    A multiplier of zero is allowed, and costs an infinite ε.
    """

    noise_multiplier: float
    relation: str
    sampling: Sampling = Unsampled()
    law: str = "gaussian"
    summed: Summed | None = None  # of Skellam noise, and of no other

    def __post_init__(self) -> None:
        at_least("noise_multiplier", self.noise_multiplier, 0, largest=float("inf"))
        # A number of numpy's or JAX's becomes a plain one: releases are looked up by what they hold.
        object.__setattr__(self, "noise_multiplier", float(self.noise_multiplier))
        known("relation", self.relation, RELATIONS)
        if not isinstance(self.sampling, Sampling):
            raise ValueError(f"sampling must be Unsampled, Poisson or Subset, found {self.sampling!r}")
        known("law", self.law, LAWS)
        if (self.law == "skellam") != isinstance(self.summed, Summed):
            raise ValueError(f"Skellam noise, and no other, says what is Summed; found {self.law!r}, {self.summed!r}")
        if not self.sampled:
            return
        if self.law == "skellam":
            raise NoGuarantee("Skellam noise is accounted for without sampling: whoever sums up sees who takes part")
        if isinstance(self.sampling, Poisson) and self.relation != "add-or-remove":
            raise NoGuarantee(
                f"Poisson sampling is accounted for add-or-remove, found {self.relation!r}: a replaced unit is two "
                "changes, each sampled by itself, which a multiplier of σ over the sensitivity does not describe"
            )
        if isinstance(self.sampling, Subset) and self.relation != "replace":
            raise NoGuarantee(
                f"a subset of fixed size is accounted for replace, found {self.relation!r}: with a unit more or less "
                "the rate itself would change, and every other unit's place in the subset with it"
            )

    @property
    def sampled(self) -> bool:
        """Whether a unit may be left out; all of all, and a rate of one, leave out nobody."""
        return self.sampling.rate < 1

    @property
    def discrete(self) -> bool:
        """Whether the noise is on the integers."""
        return self.law != "gaussian"

    def event(self, count: int = 1) -> "dp_accounting.DpEvent":
        """So many of these releases, in dp_accounting's words."""
        import dp_accounting

        integer("count", count, 0)
        if count == 0:
            return dp_accounting.NoOpDpEvent()
        if self.noise_multiplier == 0:
            return dp_accounting.NonPrivateDpEvent()
        if self.law == "skellam":
            raise NoGuarantee("dp_accounting has no event for Skellam noise; hush.privacy.spent knows it")
        one: dp_accounting.DpEvent = (
            dp_accounting.ZCDpEvent(rho=1 / (2 * self.noise_multiplier**2))
            if self.discrete
            else dp_accounting.GaussianDpEvent(self.noise_multiplier)
        )
        if self.sampled and isinstance(self.sampling, Poisson):
            one = dp_accounting.PoissonSampledDpEvent(self.sampling.rate, one)
        elif self.sampled and isinstance(self.sampling, Subset):
            one = dp_accounting.SampledWithoutReplacementDpEvent(self.sampling.of, self.sampling.size, one)
        return one if count == 1 else dp_accounting.SelfComposedDpEvent(one, count)

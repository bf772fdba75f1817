"""The price of tuning on private data: ε of the best of several runs, where how many there are is random and secret.

Papernot and Steinke, Hyperparameter Tuning with Rényi Differential Privacy, ICLR 2022. A number of runs K is drawn,
each takes one of the candidate settings at random, and only the best run is published. "Best" is judged by what the
run itself gives out: its score is measured on data that is not private, or is a noisy release that was counted with the
run. All else stays secret: the other runs, their settings, and K with all that tells of it, such as the time it took.
Candidates, the law by which they are drawn, and the law of K are fixed before anybody looks at the data.

A run draws its candidate j with a chance w_j and gives it out beside its result: e^((λ − 1)D) = Σ w_j e^((λ − 1)D_j),
so that the pointwise maximum of the candidates' Rényi curves is a curve of the run. Ties between equally good runs may
be broken in any way that does not look at the data.

Only truncated negative binomial laws of K are known here, the logarithmic and the geometric among them (Theorem 2).
Poisson laws (Theorem 6) may draw no run at all, and there is then nothing to publish: they are refused.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, expm1, inf, log

import numpy as np

from hush.core.check import known, positive
from hush.privacy import renyi
from hush.privacy.accounting import divergences, epsilon_of
from hush.privacy.calibration import least_noise
from hush.privacy.guarantee import Description
from hush.privacy.releases import NoGuarantee, fraction

# Laws of the number of runs, with η of Definition 1: how steep they are. A larger η is closer to its mean and dearer.
TRIALS = {"logarithmic": 0.0, "geometric": 1.0}
MOST_TRIALS = 1e6
MOST_GROWTH = 1e3  # of the noise
TRUSTED = "the server, and whoever else sees messages, is trusted with all runs: only what it publishes is protected"


@dataclass(frozen=True)
class Trials:
    """How many runs there are, K ≥ 1: a law of TRIALS, and the mean of it.

    Logarithmic: P(K = k) = (1 − γ)^k / (k log 1/γ); geometric: P(K = k) = γ(1 − γ)^(k − 1).

    >>> trials = Trials("geometric", mean=10)
    >>> trials.draw(np.random.default_rng(0)) >= 1
    True
    """

    law: str = "geometric"
    mean: float = 10.0

    def __post_init__(self) -> None:
        if self.law == "poisson":
            raise NoGuarantee(
                "a Poisson number of runs may be none, and nothing is then published; "
                f"a law of at least one run is one of {', '.join(TRIALS)}"
            )
        known("law of trials", self.law, TRIALS)
        positive("mean", self.mean)
        object.__setattr__(self, "mean", float(self.mean))
        if not 1 < self.mean <= MOST_TRIALS:
            raise ValueError(f"mean must be a number above 1 and at most {MOST_TRIALS:g}, found {self.mean!r}")

    @property
    def steepness(self) -> float:
        """η of Definition 1."""
        return TRIALS[self.law]

    @cached_property
    def surprise(self) -> float:
        """log 1/γ, for which the law has its mean: 1/γ for the geometric, (1/γ − 1) / log(1/γ) for the logarithmic."""
        least = log(self.mean)
        if self.law == "geometric":
            return least
        from scipy.optimize import brentq

        # (e^x − 1)/x is below the mean at its logarithm, and above it at twice that and two more.
        return float(brentq(lambda x: expm1(x) / x - self.mean, least, 2 * least + 2, xtol=1e-14, rtol=1e-14))

    def draw(self, generator: np.random.Generator) -> int:
        """K. Whoever knows the generator's seed knows K, which is to stay a secret."""
        halting = exp(-self.surprise)
        return int(generator.geometric(halting) if self.law == "geometric" else generator.logseries(1 - halting))


def best_of(curve: renyi.Vector, trials: Trials) -> renyi.Vector:
    """Rényi divergences of the best of K runs, from those of one at `renyi.ORDERS`, either way round: Theorem 2.

    ε(λ) + (1 + η)[(1 − 1/λ̂) ε(λ̂) + log(1/γ)/λ̂] + log E[K] / (λ − 1) for any λ > 1 and λ̂ ≥ 1, the best λ̂ being taken.
    Both orders are among those at which the curve was proved. A divergence grows with its order, so that what is found
    at a higher order is a bound at a lower one.
    """
    orders = renyi.ORDERS
    other = (1 + trials.steepness) * np.min((1 - 1 / orders) * curve + trials.surprise / orders)
    found = curve + other + log(trials.mean) / (orders - 1)
    return np.minimum.accumulate(found[::-1])[::-1]


def selected(descriptions: Sequence[Description], delta: float, trials: Trials, again: int = 0) -> float:
    """ε at δ of the best of K runs, each a candidate drawn from these, for the worst client of the worst candidate.

    With `again`, so many further runs of the one that was best are counted too: they are chosen by what came before,
    and Rényi divergences of what is released one after the other add up.

    Every client takes part whenever it may. Refused where others than the public see the runs, each of which then
    counts in full: `behind_server` says that they are trusted.

    Rounds that may not be drawn as they are accounted for, with a probability of f a run, come off δ with E[K] f.
    Whether they are does not depend on the data. Given that no run has such a round, K is k with a probability
    proportional to P(K = k)(1 − f)^k: that law is of the same kind, with a larger γ and a smaller mean, so that the
    theorem says no more than it does without. Candidates with different f are drawn with other chances, fixed as well.

    >>> from hush.privacy import EqualClients, describe
    >>> import hush
    >>> runs = [describe(hush.dp_fedavg(80, 1920, clip=1.0, noise_multiplier=2.0), EqualClients(1920), rounds=100)]
    >>> print(f"{runs[0].most(1e-5, 'rdp'):.2f} {selected(runs, 1e-5, Trials('logarithmic', 10)):.2f}")
    1.00 1.76
    """
    fraction("delta", delta)
    _check_alike(descriptions)
    spendings = [each.released(each.most_times, size) for each in descriptions for size in each.different]
    left = delta - (trials.mean + again) * max(failure for _, failure in spendings)
    if left <= 0:
        return inf
    worst = np.max([divergences(releases) for releases, _ in spendings], axis=0)
    after = again * worst if again else 0.0
    return epsilon_of(best_of(worst, trials) + after, left)


def noise_growth(
    described: Callable[[float], Sequence[Description]],
    epsilon: float,
    delta: float,
    trials: Trials,
    most: float = MOST_GROWTH,
    again: int = 0,
) -> float:
    """By what factor all candidates' noise must grow so that the best of K runs is within (ε, δ), to a relative 1e-4.

    `described(factor)` are the candidates with so much more noise. What is returned, from 1 to `most`, was itself
    described and found within the target.
    """
    positive("epsilon", epsilon)
    fraction("delta", delta)

    def costs(factor: float, accountant: str) -> float:
        return selected(described(factor), delta, trials, again)

    asked = f"δ = {delta:g} for the best of {trials.mean:g} {trials.law} trials"
    return least_noise(costs, epsilon, asked, "rdp", low=1.0, high=most)


def behind_server(description: Description) -> Description:
    """The same guarantee towards those alone who see what the server publishes: they see no more than the server does.

    Of several runs a server sees every message, and towards it all of them add up (`Description.spent` with `lanes`).
    """
    phases = tuple(
        replace(phase, trust="server", assumptions=(*phase.assumptions, TRUSTED)) for phase in description.phases
    )
    return replace(description, phases=phases)


def _check_alike(descriptions: Sequence[Description]) -> None:
    if not descriptions:
        raise ValueError("descriptions must be one or more, found none")
    for name in ("unit", "relation", "trust"):
        found = sorted({str(getattr(each.first, name)) for each in descriptions})
        if len(found) > 1:
            raise NoGuarantee(f"candidates differ in their {name} ({', '.join(found)}): no ε covers all of them")
    if (trust := descriptions[0].first.trust) != "server":
        raise NoGuarantee(
            f"with trust={trust!r} others than the public see every run, not the best one alone, and all runs add up; "
            "for the ε towards the public, the server being trusted, give behind_server(description)"
        )

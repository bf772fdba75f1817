"""FA-LD, federated averaging Langevin dynamics: paper fa-ld, Algorithm 1. With one step a round it is SGLD."""

from hush.algorithms.assembly import as_rate, by_name
from hush.cohort import Everyone, SchemeI, SchemeII
from hush.core.algorithm import Algorithm
from hush.core.check import flag, known, number
from hush.core.contract import Cohort
from hush.core.schedules import Rate
from hush.local import ClippedPerExample, Langevin, LocalSGD, MeanGradient, Oracle, batches

SCHEMES = ("all", "I", "II")


@by_name
def fa_ld(
    steps: int = 10,
    lr: Rate = 1e-4,
    temperature: float = 1.0,
    correlation: float = 0.0,
    *,
    scheme: str = "all",
    per_round: int | None = None,
    batch: int | None = None,
    prior: float = 0.0,
    unbiased: bool = False,
    clip: float | None = None,
    sampling: str = "fresh",
) -> Algorithm:
    """Samples from a posterior by Langevin steps at the clients.

    Samples from exp(−f/τ), f the sum of all examples' losses and ½·`prior`·‖x‖²; chains are `run`'s repetitions.
    lr            η of one step, about 1/(n·L) or less: the gradient is that of the sum, not of a mean. A schedule is
                  followed step by step
    correlation   ρ, how much of the noise all clients share: 0 hides most, 1 is exact with few clients
    scheme        who takes part: all, or `per_round` clients by scheme I (by weight, with replacement) or by scheme II
                  (uniformly, without)
    batch         of each step, a fresh one; None is all of a client's data
    unbiased      scale the own noise for those who take part: schemes I and II then sample at τ, and hide less
    clip          clip each example's gradient, without which there is no privacy; it biases what is sampled

    Clients send updates, whose weighted sum is added; where weights sum to one this is the mean of their models.

    >>> import hush
    >>> hush.fa_ld(steps=5, lr=1e-3, prior=1.0).local.direction
    (Langevin(temperature=1.0, correlation=0.0, prior=1.0),)
    """
    known("scheme", scheme, SCHEMES)
    if (scheme == "all") != (per_round is None):
        raise ValueError(f"schemes I and II take per_round, and all clients do not: found {scheme=}, {per_round=}")
    cohort: Cohort = Everyone() if per_round is None else SchemeI(per_round) if scheme == "I" else SchemeII(per_round)
    oracle: Oracle = MeanGradient() if clip is None else ClippedPerExample(number("clip", clip))
    flag("unbiased", unbiased)
    noise = Langevin(
        number("temperature", temperature),
        number("correlation", correlation),
        number("prior", prior),
        cohort if unbiased else None,
    )
    local = LocalSGD(
        as_rate(lr),
        steps=steps,
        batches=batches(batch, sampling),
        direction=(noise,),
        oracle=oracle,
        pace="step" if callable(lr) else "round",
    )
    return Algorithm(cohort, local)

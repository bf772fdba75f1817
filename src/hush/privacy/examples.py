"""Example level: one example of a client's is replaced. The client's own noise covers it, whoever sees the message.

Whatever a client does to the noisy result afterwards, quantise it for instance, costs nothing. Clients hold different
examples, so that each client's ε is its own.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hush.local import (
    Beside,
    ClippedToBroadcast,
    Dynamic,
    Gradient,
    LocalOptimiser,
    LocalSGD,
    Normalised,
    PersonalPart,
    Perturbed,
    Scaffold,
    Weighted,
    output_sensitivity,
)
from hush.privacy.cohorts import SIZES_KNOWN
from hush.privacy.guarantee import NOISE_OF, NOT_SEEN, Guarantee, in_words
from hush.privacy.proofs import Proofs
from hush.privacy.releases import NoGuarantee, Release, exactly
from hush.privacy.stages import CHOSEN
from hush.privacy.training import (
    REPLACE,
    OwnNoise,
    by_batches,
    by_direction,
    by_oracle,
    by_rows,
    by_strength,
    noise_of,
    not_lost,
    rates,
)
from hush.privacy.who import Clients, different

DISJOINT = "no example is held by two clients, but where the problem itself says so"
ASSUMPTIONS = (SIZES_KNOWN, DISJOINT, CHOSEN, NOT_SEEN)
PERSONAL = "a client's personal model stays with it: nobody else sees it, or what it answers"
ROUNDED = "what a device's floating-point arithmetic makes of a sum of clipped gradients is within a millionth of it"

# The guarantee for one example of a client's, by (clients, rounds, dimension).
by_rule: Proofs[Guarantee] = Proofs("local rule")


@by_rule.register(ClippedToBroadcast)
def _(local: ClippedToBroadcast, clients: Clients, rounds: int, dimension: int | None) -> Guarantee:
    return by_rule(local.inner, clients, rounds, dimension)  # clipping what is private reveals no more


@by_rule.register(Scaffold)
def _(local: Scaffold, clients: Clients, rounds: int, dimension: int | None) -> Guarantee:
    return by_rule(local.inner, clients, rounds, dimension)  # the control variate follows from the update


@by_rule.register(Normalised)
def _(local: Normalised, clients: Clients, rounds: int, dimension: int | None) -> Guarantee:
    return by_rule(local.inner, clients, rounds, dimension)  # how many steps follows from how many examples are held


@by_rule.register(Weighted)
def _(local: Weighted, clients: Clients, rounds: int, dimension: int | None) -> Guarantee:
    return by_rule(local.inner, clients, rounds, dimension)  # what a client weighs follows from how many it holds


@by_rule.register(Dynamic)
def _(local: Dynamic, clients: Clients, rounds: int, dimension: int | None) -> Guarantee:
    return by_rule(local.inner, clients, rounds, dimension)  # what is remembered follows from what was sent


@by_rule.register(PersonalPart)
def _(local: PersonalPart, clients: Clients, rounds: int, dimension: int | None) -> Guarantee:
    """Noise is on all numbers of a step's gradient: what is kept is as private as what is sent."""
    return by_rule(local.inner, clients, rounds, dimension)


@by_rule.register(Beside)
def _(local: Beside, clients: Clients, rounds: int, dimension: int | None) -> Guarantee:
    """What is sent does not depend on the model beside it, which is trained without noise and stays where it is."""
    found = by_rule(local.inner, clients, rounds, dimension)
    return replace(found, assumptions=(*found.assumptions, PERSONAL))


@by_rule.register(Gradient)
def _(local: Gradient, clients: Clients, rounds: int, dimension: int | None) -> Guarantee:
    return _by_step(local, lambda size: 1, [], clients, dimension)


@by_rule.register(LocalSGD)
def _(local: LocalSGD, clients: Clients, rounds: int, dimension: int | None) -> Guarantee:
    turns = (by_direction(turn, local, clients, rounds) for turn in local.direction)
    own_noise = [turn for turn in turns if turn is not None]
    if (
        local.optimiser is not None
    ):  # what it makes of noisy gradients, and of moments that follow from them, is private
        exactly("optimiser", local.optimiser, LocalOptimiser)
    if len(own_noise) > 1:
        raise NoGuarantee("more than one Langevin direction: their joint noise is not worked out")
    return _by_step(local, lambda size: int(local.count(size)), own_noise, clients, dimension)


def _by_step(
    local: Gradient | LocalSGD,
    steps: Callable[[int], int],
    own_noise: list[OwnNoise],
    clients: Clients,
    dimension: int | None,
) -> Guarantee:
    """Noise on every step's gradient: all that follows from the gradients is then private, the update included.

    The oracle's noise and the direction's are independent, so that their variances add up.
    """
    bound, of_oracle, law = by_oracle(local.oracle, dimension)
    if own_noise and law != "gaussian":
        raise NoGuarantee("noise on a grid and Langevin noise in floats: their joint guarantee is not worked out")
    by_batches.check(local.batches)
    z = {size: float(np.hypot(of_oracle, sum(own(size) for own in own_noise))) for size in different(clients)}
    if not min(z.values()) > 0:
        raise NoGuarantee(
            "each example's gradient is clipped, but no noise is added to the steps or to the update by the client"
        )
    shown = " to ".join(f"{value:.4g}" for value in sorted({min(z.values()), max(z.values())}))
    return Guarantee(
        unit="example",
        trust="local",
        mechanism=f"each example's gradient clipped to {bound:g}, {in_words(law)} noise of z = {shown} "
        "sensitivities on every local step",
        releases={size: by_batches(local.batches, noise, size, steps(size), law) for size, noise in z.items()},
        assumptions=_assumptions(law),
        per_client=True,
    )


def _assumptions(law: str) -> tuple[str, ...]:
    return (*ASSUMPTIONS, NOISE_OF[law], *(() if law == "gaussian" else (ROUNDED,)))


@by_rule.register(Perturbed)
def _(local: Perturbed, clients: Clients, rounds: int, dimension: int | None) -> Guarantee:
    """Noise on the update of all steps: paper fedpaq-dp, Algorithm 2, with the sensitivity that is proved for it."""
    inner, (z, law) = local.inner, noise_of(local, dimension)
    exactly("local rule", inner, LocalSGD)
    if inner.optimiser is not None:
        raise NoGuarantee("how far an optimiser carries two trainings apart is not worked out; use noise at every step")
    bound, at_steps, _ = by_oracle(inner.oracle, dimension)
    if at_steps > 0:
        raise NoGuarantee("noise both at every step and on the update: their joint guarantee is not worked out")
    _contracts(inner, rounds)
    sizes = different(clients)
    sampling = {size: by_rows(inner.batches, size, int(inner.count(size))) for size in sizes}
    smallest = rates(inner, rounds)[0]
    weights = ((inner.count(size), inner.batches.largest_weight(size)) for size in sizes)
    not_lost("noise on the update", z * min(float(output_sensitivity(smallest, bound, *each)) for each in weights))
    return Guarantee(
        unit="example",
        trust="local",
        mechanism=f"each example's gradient clipped to {bound:g}, {in_words(law)} noise of z = {z:.4g} sensitivities "
        "on the update of a round",
        releases={size: ((Release(z, REPLACE, way, law), 1),) for size, way in sampling.items()},
        assumptions=_assumptions(law),
        per_client=True,
        by_output=True,
    )


def _contracts(inner: LocalSGD, rounds: int) -> None:
    """Refuse directions that could carry two trainings further apart than their gradients do.

    Decay and proximal terms together shrink their distance by |1 − η Σµ|, which is no growth as long as η Σµ ≤ 2.
    """
    strength, largest = sum(by_strength(turn) for turn in inner.direction), rates(inner, rounds)[1]
    if largest * strength > 2:
        names = " and ".join(type(turn).__name__ for turn in inner.direction)
        raise NoGuarantee(f"{names} with step size {largest:g} × {strength:g} > 2 drives trainings apart")

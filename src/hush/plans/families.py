"""Families: the kinds of algorithm that a plan chooses from, and what each of them leaves to choose.

A family is asked with a `pick(name, options)`, which the search answers, and drafts an algorithm of what was picked.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from hush import algorithms
from hush.core.algorithm import Algorithm
from hush.core.check import nearest
from hush.plans import air, private
from hush.plans.budgets import ENDS
from hush.plans.candidate import Coordinate, Draft, Point
from hush.plans.choices import (
    CODINGS,
    DECAY,
    LR,
    MU,
    SERVER_LR,
    Pick,
    cohort_of,
    quantiser,
    shrinking,
    sizes,
    steps_and_batch,
    variance,
    work,
)
from hush.plans.scene import Scene

Family = Callable[[Scene, Pick], Draft]


def _plain(name: str, made: Callable[..., Algorithm], codings: tuple[str, ...], *own: Coordinate) -> Family:
    """A family without privacy: FedAvg and its relatives, quantised or not."""

    def family(scene: Scene, pick: Pick) -> Draft:
        local, clients = pick("local", work(scene)), pick("clients", sizes(scene))
        coding = pick("coding", codings)
        steps, batch = steps_and_batch(local)
        cohort, uplink = cohort_of(scene, clients), quantiser(coding)

        def build(point: Point, rounds: int, noise: float) -> Algorithm:
            more = {each.name: point[each.name] for each in own}
            lr = shrinking(point, rounds * steps)
            plain = made(steps=steps, batch=batch, lr=lr, server_lr=point["server_lr"], **more)
            return replace(plain, cohort=cohort, uplink=uplink)

        return Draft(
            family=name,
            choices={"local": local, "clients": clients, "coding": coding},
            build=build,
            coordinates=(LR, *own, DECAY, SERVER_LR),
            clients=clients,
            steps=steps,
            batch=batch,
            variance=variance(coding),
            family_of=family,
        )

    return family


QUANTISED = CODINGS[:-1]

PLAIN: dict[str, Family] = {
    "fedavg": _plain("fedavg", algorithms.fedavg, ("none",)),
    "fedpaq": _plain("fedpaq", algorithms.fedavg, QUANTISED),
    "fedprox": _plain("fedprox", algorithms.fedprox, CODINGS, MU),
    "scaffold": _plain("scaffold", algorithms.scaffold, CODINGS),
}


def families_for(scene: Scene, names: Sequence[str] | None = None) -> dict[str, Family]:
    """Those that fit what is asked for: with an ε, those that keep it; of these, the ones that are named."""
    budgets, found = scene.budgets, dict[str, Family]()
    ended = any(getattr(budgets, name) is not None for name in ENDS if name != "energy")
    if ended and budgets.trust not in ("air", "secret-air"):
        found |= private.families_for(scene) if scene.private else PLAIN
    if scene.channel is not None:
        found[air.FAMILY] = air.over_the_air
    for name in names or ():
        if name not in found:
            raise ValueError(f"no algorithm {name!r} for what is asked for; {nearest(name, found)}")
    if not found:
        raise ValueError(f"trust={scene.budgets.trust!r} needs a channel over the air, found none")
    return {name: family for name, family in found.items() if not names or name in names}

"""Families that keep a budget of privacy: how much noise follows from how many rounds."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from hush import algorithms
from hush.algorithms.secure_dp_fedavg import channel_of
from hush.core.algorithm import Algorithm
from hush.core.problem import Population
from hush.plans.budgets import Infeasible
from hush.plans.candidate import Draft, Point
from hush.plans.choices import (
    CLIP,
    CLIPPED_LR,
    CODINGS,
    DECAY,
    ROUNDS,
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
from hush.privacy import EqualClients, NoGuarantee, calibrate, describe
from hush.privacy.accounting import MOST_NOISE, NO_NOISE
from hush.privacy.calibration import OutOfReach
from hush.privacy.shown import rounded_up
from hush.privacy.who import Clients
from hush.uplink.fitting import room_for_noise

Family = Callable[[Scene, Pick], Draft]

# What is sent to a trusted server must be as long whatever it says: who hears its length would learn of it.
AS_LONG = tuple(coding for coding in CODINGS if not coding.endswith("elias"))
BANDS = (2, 4, 8, 16)
WIDTHS = ("8 bits", "10 bits", "12 bits", "14 bits", "16 bits")  # of a number in a secure sum
IN_A_SUM = "secure_dp_fedavg"
GRID_BITS = 20
# How each kind of DP-FedAvg is drawn and where its noise is; by the trust it needs.
KINDS: dict[str, dict[str, Any]] = {
    "dp_fedavg": {"draw": "poisson"},
    "dp_fedavg adaptive": {"draw": "poisson", "adaptive": True},
    "dp_fedavg correlated": {"draw": "cyclic"},
    "dp_fedavg by clients": {"draw": "cyclic", "noise": "client", "grid_bits": GRID_BITS},
}
BY_TRUST = {
    None: ("dp_fedavg", "dp_fedavg adaptive", "dp_fedavg correlated"),
    "server": ("dp_fedavg", "dp_fedavg adaptive", "dp_fedavg correlated"),
    "sum": (IN_A_SUM,),
    "local": ("dp_fedavg by clients",),
}


def client_level(name: str) -> Family:
    """A kind of DP-FedAvg: all the data of one client is protected."""
    kind = KINDS[name]

    def family(scene: Scene, pick: Pick) -> Draft:
        local, clients, rounds = pick("local", work(scene)), pick("clients", sizes(scene)), pick("rounds", ROUNDS)
        steps, batch = steps_and_batch(local)
        # What follows the noise of clients must leave their sum alone; an adaptive clip must be the last word.
        coding = "none" if "adaptive" in kind or "noise" in kind else pick("coding", AS_LONG)
        bands = pick("bands", BANDS) if name == "dp_fedavg correlated" else None

        def build(point: Point, rounds: int, noise: float) -> Algorithm:
            own = {"bands": min(bands, rounds), "rounds": rounds} if bands is not None else {}
            made = algorithms.dp_fedavg(
                clients,
                scene.clients,
                clip=point["clip"],
                noise_multiplier=noise,
                steps=steps,
                batch=batch,
                lr=shrinking(point, rounds * steps),
                server_lr=point["server_lr"],
                **kind,
                **own,
            )
            return replace(made, uplink=(*quantiser(coding), *made.uplink))  # what is clipped last is bounded

        trust = scene.budgets.trust
        everybody = EqualClients(scene.clients)
        choices = {"local": local, "clients": clients, "coding": coding, "rounds": rounds}
        choices |= {} if bands is None else {"bands": bands}
        draft = _drafted(name, choices, build, family, at_random=kind["draw"] == "poisson")
        return replace(draft, noise=lambda rounds, turns: noise_for(scene, draft, everybody, rounds, trust))

    return family


def in_a_sum(scene: Scene, pick: Pick) -> Draft:
    """DP-FedAvg in a secure sum: all the data of one client is protected, from the server too."""
    local, rounds = pick("local", work(scene)), pick("rounds", ROUNDS)
    clients = pick("clients", [size for size in sizes(scene) if size > 1] or [scene.clients])
    coding = pick("coding", WIDTHS)
    steps, batch = steps_and_batch(local)
    sum_of = {"clients": clients, "dimension": scene.dimension, "bits": int(coding.split()[0])}
    honest = channel_of(clients).honest(clients)

    def build(point: Point, rounds: int, noise: float) -> Algorithm:
        try:
            return algorithms.secure_dp_fedavg(
                population=scene.clients,
                clip=point["clip"],
                noise_multiplier=noise,
                draw="cyclic",
                steps=steps,
                batch=batch,
                lr=shrinking(point, rounds * steps),
                server_lr=point["server_lr"],
                **sum_of,
            )
        except ValueError as error:
            raise Infeasible(str(error)) from error

    choices = {"local": local, "clients": clients, "coding": coding, "rounds": rounds}
    draft = _drafted(IN_A_SUM, choices, build, in_a_sum, variance=variance("none"))
    everybody = EqualClients(scene.clients)

    def noise(rounds: int, turns: int) -> float:
        try:
            low, high = room_for_noise(**sum_of, honest=honest)
        except ValueError as error:
            raise Infeasible(str(error)) from error
        return noise_for(scene, draft, everybody, rounds, scene.budgets.trust, low, high)

    return replace(draft, noise=noise)


def example_level(scene: Scene, pick: Pick) -> Draft:
    """Private FedPAQ with noise at every step: one example of a client is protected, from the server too."""
    local, clients, rounds = pick("local", work(scene)), pick("clients", sizes(scene)), pick("rounds", ROUNDS)
    coding = pick("coding", CODINGS)
    steps, batch = steps_and_batch(local)
    cohort = cohort_of(scene, clients, "equal")

    def build(point: Point, rounds: int, noise: float) -> Algorithm:
        made = algorithms.private_fedpaq(
            clients,
            steps=steps,
            batch=batch,
            lr=shrinking(point, rounds * steps),
            clip=point["clip"],
            noise_multiplier=noise,
            levels=None,
            server_lr=point["server_lr"],
        )
        return replace(made, cohort=cohort, uplink=quantiser(coding))

    fewest = Population(np.array([scene.target.smallest]))  # who holds least is drawn most often, and pays most
    choices = {"local": local, "clients": clients, "coding": coding, "rounds": rounds}
    draft = _drafted("private_fedpaq", choices, build, example_level)
    return replace(draft, noise=lambda rounds, turns: noise_for(scene, draft, fewest, turns, scene.budgets.trust))


def _drafted(
    name: str, choices: dict[str, Any], build: Callable[[Point, int, float], Algorithm], family: Family, **more: Any
) -> Draft:
    """What all of them have in common: a clipping bound and step sizes that are swept."""
    steps, batch = steps_and_batch(choices["local"])
    found: dict[str, Any] = {
        "coordinates": (CLIP, CLIPPED_LR, SERVER_LR, DECAY),
        "clients": choices["clients"],
        "steps": steps,
        "batch": batch,
        "rounds": choices["rounds"],
        "variance": more.pop("variance", None) or variance(choices["coding"]),
    }
    return Draft(family=name, choices=choices, build=build, family_of=family, **found, **more)


def noise_for(
    scene: Scene,
    draft: Draft,
    clients: Clients,
    rounds: int,
    trust: str | None,
    low: float = NO_NOISE,
    high: float = MOST_NOISE,
) -> float:
    """The least noise for so many rounds of the budget of privacy; the same at every point of the sweep."""
    budgets = scene.budgets
    known = scene.known_noise.get(key := (_mechanism(draft), rounds))
    if known is None:
        try:
            known = calibrate(
                lambda noise: draft.build(draft.start, rounds, noise),
                clients,
                rounds,
                budgets.epsilon or 0.0,
                budgets.delta,
                unit=budgets.unit,
                trust=trust,
                dimension=scene.dimension,
                low=low,
                high=high,
            )
        except OutOfReach as error:
            least = _least(scene, draft, clients, trust, high)
            raise Infeasible(f"{error}; the least for one round would be ε = {rounded_up(least)}") from error
        except NoGuarantee as error:
            raise Infeasible(f"ε = {budgets.epsilon:g} at δ = {budgets.delta:g}: {error}") from error
        scene.known_noise[key] = known
    return known


def _least(scene: Scene, draft: Draft, clients: Clients, trust: str | None, most: float) -> float:
    """ε of one round with as much noise as there may be."""
    loudest = draft.build(draft.start, 1, most)
    unit, dimension = scene.budgets.unit, scene.dimension
    return describe(loudest, clients, 1, unit=unit, trust=trust, dimension=dimension).most(scene.budgets.delta)


def _mechanism(draft: Draft) -> tuple[Any, ...]:
    """All of a draft that its noise depends on: not, at client level, how clients train."""
    chosen = draft.choices
    inner = (chosen["local"],) if draft.family == "private_fedpaq" else ()
    # A code changes no noise, but whether there is a guarantee at all.
    return (draft.family, draft.clients, chosen.get("bands"), chosen["coding"], *inner)


def families_for(scene: Scene) -> dict[str, Family]:
    """Those whose guarantee is of the unit and the trust that are asked for."""
    budgets = scene.budgets
    if budgets.unit == "example":
        if budgets.trust not in (None, "local"):
            raise ValueError(
                f"one example is protected by its client's own noise: trust must be local, found {budgets.trust!r}"
            )
        return {"private_fedpaq": example_level}
    if budgets.trust not in BY_TRUST:
        known = ", ".join(str(name) for name in BY_TRUST if name is not None)
        raise ValueError(f"a plan knows no algorithm for trust={budgets.trust!r}; known: {known}")
    return {name: in_a_sum if name == IN_A_SUM else client_level(name) for name in BY_TRUST[budgets.trust]}

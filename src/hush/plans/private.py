"""Families that keep a budget of privacy: how much noise follows from how many rounds."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from hush import algorithms
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
from hush.privacy.accounting import MOST_NOISE
from hush.privacy.calibration import OutOfReach
from hush.privacy.shown import rounded_up
from hush.privacy.who import Clients

Family = Callable[[Scene, Pick], Draft]

# What is sent to a trusted server must be as long whatever it says: who hears its length would learn of it.
AS_LONG = tuple(coding for coding in CODINGS if not coding.endswith("elias"))
BANDS = (2, 4, 8, 16)
GRID_BITS = 20
# How each kind of DP-FedAvg is drawn and where its noise is; by the trust it needs.
KINDS: dict[str, dict[str, Any]] = {
    "dp_fedavg": {"draw": "poisson"},
    "dp_fedavg adaptive": {"draw": "poisson", "adaptive": True},
    "dp_fedavg correlated": {"draw": "cyclic"},
    "dp_fedavg in a sum": {"draw": "cyclic", "noise": "client"},
    "dp_fedavg by clients": {"draw": "cyclic", "noise": "client", "grid_bits": GRID_BITS},
}
BY_TRUST = {
    None: ("dp_fedavg", "dp_fedavg adaptive", "dp_fedavg correlated"),
    "server": ("dp_fedavg", "dp_fedavg adaptive", "dp_fedavg correlated"),
    "sum": ("dp_fedavg in a sum",),
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
        draft = Draft(
            family=name,
            choices={"local": local, "clients": clients, "coding": coding, "rounds": rounds}
            | ({} if bands is None else {"bands": bands}),
            build=build,
            coordinates=(CLIP, CLIPPED_LR, SERVER_LR, DECAY),
            clients=clients,
            steps=steps,
            batch=batch,
            variance=variance(coding),
            family_of=family,
            at_random=kind["draw"] == "poisson",
            rounds=rounds,
        )
        return replace(draft, noise=lambda rounds, turns: noise_for(scene, draft, everybody, rounds, trust))

    return family


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
    draft = Draft(
        family="private_fedpaq",
        choices={"local": local, "clients": clients, "coding": coding, "rounds": rounds},
        build=build,
        coordinates=(CLIP, CLIPPED_LR, SERVER_LR, DECAY),
        clients=clients,
        steps=steps,
        batch=batch,
        variance=variance(coding),
        family_of=example_level,
        rounds=rounds,
    )
    return replace(draft, noise=lambda rounds, turns: noise_for(scene, draft, fewest, turns, scene.budgets.trust))


def noise_for(scene: Scene, draft: Draft, clients: Clients, rounds: int, trust: str | None) -> float:
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
            )
        except OutOfReach as error:
            least = _least(scene, draft, clients, trust)
            raise Infeasible(f"{error}; the least for one round would be ε = {rounded_up(least)}") from error
        except NoGuarantee as error:
            raise Infeasible(f"ε = {budgets.epsilon:g} at δ = {budgets.delta:g}: {error}") from error
        scene.known_noise[key] = known
    return known


def _least(scene: Scene, draft: Draft, clients: Clients, trust: str | None) -> float:
    """ε of one round with as much noise as there may be."""
    loudest = draft.build(draft.start, 1, MOST_NOISE)
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
    return {name: client_level(name) for name in BY_TRUST[budgets.trust]}

"""Random algorithms of all pieces: `case(number)` is always the same one."""

from dataclasses import dataclass
from typing import Any

from fuzzed_pieces import (
    FORMS,
    Dice,
    Says,
    cohort,
    compressor,
    over_the_air,
    private_training,
    uplink,
)

from hush import Algorithm
from hush.channel import Digital, Noisy
from hush.cohort import Cyclic, Everyone
from hush.core.algorithm import InTurn
from hush.local import ClippedToBroadcast, ControlVariate, LocalSGD, Scaffold
from hush.server import AdaptingClip, Add, AddWithControl, CorrelatedNoise, Gather, Optimiser, Replace
from hush.uplink import Gaussian


@dataclass(frozen=True)
class Case:
    """One algorithm, and what is asked about it."""

    number: int
    algorithm: Algorithm | InTurn
    form: int  # of FORMS
    rounds: int
    unit: str | None
    trust: str | None


def server(dice: Dice, sends: tuple[str, ...], noise: float, rounds: int) -> Any:
    plain = dice.one(Add(dice.rate()), Replace(), Gather(), Optimiser("adam", {"learning_rate": 0.1}))
    if "control" in sends:
        return AddWithControl()
    if "below" in sends:
        return AdaptingClip(plain, dice.size(), dice.rng.uniform(0.1, 1), dice.size(), dice.size())
    if noise > 0:
        length = dice.one(rounds, rounds, 6)
        return CorrelatedNoise(noise, length, dice.one(1, min(2, length), length), plain)
    return plain


# Where noise is, and who is then trusted.
PLACES = {
    "client": ("local", "assumed-sum", "assumed-sum", "secret-sum"),
    "sum": ("server", "assumed-sum", "assumed-sum", "secret-sum"),
    "air": ("air", "secret-air"),
    "correlated": ("server",),
}


def client_phase(dice: Dice, form: int, rounds: int, where: str) -> Algorithm:
    """A phase whose messages are clipped, with noise somewhere."""
    clients, bound = len(FORMS[form][1]), dice.size()
    control = LocalSGD(0.1, steps=1, direction=(ControlVariate(),))
    local = dice.one(Says(), Says(), Says(("update", "one", "two")), Scaffold(control), ClippedToBroadcast(Says()))
    local = Says() if where == "correlated" and dice.chance(0.8) else local
    follows = type(local) is ClippedToBroadcast
    stages = uplink(dice, bound, where == "client")
    if follows:
        local, bound = ClippedToBroadcast(Says(), dice.size(1e-3, 1e3)), 1.0
        stages = tuple(stage for stage in stages if type(stage) is Gaussian)
    noise = float(bound) / clients * dice.multiplier()
    channel = Noisy(noise, dice.one(Digital(), Digital(), Noisy(noise))) if where == "sum" else Digital()
    if where == "air":
        channel = over_the_air(dice, clients, float(bound) * dice.one(1.0, 1.0, dice.log(1, 1e3)))
    members = dice.one(Cyclic(dice.whole(1, clients)), Everyone("equal")) if where == "correlated" else None
    central = noise if where == "correlated" else 0.0
    made = server(dice, local.sends, central, rounds)
    return Algorithm(members or cohort(dice, clients), local, stages, channel, made)


def example_phase(dice: Dice, form: int, rounds: int) -> Algorithm:
    local = private_training(dice)
    stages = tuple(compressor(dice) for _ in range(dice.one(0, 0, 1)))
    made = server(dice, local.sends, 0.0, rounds)
    return Algorithm(cohort(dice, len(FORMS[form][1])), local, stages, Digital(), made)


def case(number: int) -> Case:
    """The algorithm of this number; one that cannot be built is drawn again."""
    dice = Dice(number)
    while True:
        place, form, rounds = dice.one("example", "example", *PLACES), dice.whole(0, len(FORMS) - 1), dice.one(1, 2, 6)
        unit = "example" if place == "example" else "client"
        fitting = PLACES.get(place, (None, "local"))
        trust = dice.one(None, *fitting, dice.one("local", "sum", "assumed-sum", "server", "air"))
        count = dice.one(1, 1, 1, 1, 2)
        try:
            phases = tuple(
                example_phase(dice, form, rounds) if unit == "example" else client_phase(dice, form, rounds, place)
                for _ in range(count)
            )
            made = phases[0] if count == 1 else InTurn(phases)
        except ValueError:
            continue
        return Case(number, made, form, rounds, dice.one(unit, unit, None), trust)

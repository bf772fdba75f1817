"""Mechanisms that are wrong in ways that have been seen elsewhere, each with the claim of its sound twin.

Pieces here break their contracts on purpose: an audit must find out.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import random

import hush
from hush.audits import Claim, claim_of
from hush.channel import Digital, Noisy, SecureSum
from hush.cohort import Everyone, Poisson, Uniform
from hush.core.clipping import clip
from hush.core.contract import Cohort, Draw, LocalRule, ServerRule, Stage
from hush.core.keys import at
from hush.core.norms import norm
from hush.local import ClippedPerExample, Fresh, LocalSGD
from hush.local.batches import Batches
from hush.privacy import EqualClients, describe
from hush.server import AddWithControl
from hush.uplink import Clip, ErrorFeedback, Gaussian, Skellam, TopK

CLIENTS, PER_ROUND, DELTA = 10, 2, 1e-5


@dataclass(frozen=True)
class Sabotage:
    """What is run, and the algorithm whose claim it is held to."""

    name: str
    run: Callable[[], Any]
    claimed: Callable[[], Any]
    rounds: int = 4
    clients: EqualClients = field(default_factory=lambda: EqualClients(CLIENTS, 8))
    trust: str | None = None
    unit: str | None = "client"

    def claim(self) -> Claim:
        """The claim of the sound twin."""
        described = describe(self.claimed(), self.clients, self.rounds, unit=self.unit, trust=self.trust, dimension=16)
        return claim_of(described, DELTA)


def private(z: float = 2.0, **settings: Any) -> Any:
    """DP-FedAvg, noise on the sum of everyone's updates but for other settings."""
    return hush.dp_fedavg(PER_ROUND, CLIENTS, clip=1.0, noise_multiplier=z, **({"lr": 0.1, "steps": 1} | settings))


def of_everyone(z: float = 2.0) -> Any:
    """The same with everyone in every round, replaced: z is noise over half of what a neighbour moves."""
    return replace(private(), cohort=Everyone("equal"), channel=Noisy(2 * z / CLIENTS))


def in_server(rule: Callable[[float], ServerRule], z: float = 2.0) -> Any:
    """The same with its noise in a server rule, of the right deviation."""
    return replace(of_everyone(), channel=Digital(), server=rule(2 * z / CLIENTS))


def local(*stages: Stage) -> Any:
    """Clients that hide their own messages."""
    return replace(private(), cohort=Everyone("equal"), channel=Digital(), uplink=stages)


def summed(threshold: int, **settings: Any) -> Any:
    """DP-FedAvg in whole numbers of which a sum of so many clients at least is seen; everyone's, as it happens."""
    plain = {"clip": 1.0, "dimension": 16, "noise_multiplier": 4.0, "lr": 0.1, "steps": 1, "draw": "cyclic"}
    plain |= {"colluding": 0}
    return hush.secure_dp_fedavg(CLIENTS, CLIENTS, threshold=threshold, **(plain | settings))


def shared_by_more() -> Any:
    """A secure sum in which each client adds its share of the noise among a hundred: ten are there."""
    stage = summed(CLIENTS).uplink[0]
    return replace(summed(CLIENTS), uplink=(replace(stage, noise=Skellam(stage.noise.std / 10**0.5)),))


def of_few() -> Any:
    """Noise that hides each of ten, in a secure sum that is opened with five, of whom two may tell theirs."""
    return replace(summed(CLIENTS), channel=SecureSum(5, 0.2))


def too_long() -> Any:
    """Whole numbers of messages that are clipped to four times what is said."""
    stage = summed(CLIENTS).uplink[0]
    return replace(summed(CLIENTS), uplink=(replace(stage, bound=4 * stage.bound, width=31),))


LOCAL_STD = 4.0


class RepeatedNoise(ServerRule):
    """The noise of the first round, in every round."""

    std: float
    provides = ("model",)
    receives = ("update",)

    def init(self, model):
        return {"model": model, "noise": jnp.zeros_like(model)}

    def __call__(self, key, state, received, coverage):
        fresh = self.std * random.normal(key, state["noise"].shape)
        noise = jnp.where(state["round"] == 0, fresh, state["noise"])
        return {"model": state["model"] + received["update"] + noise, "noise": noise}


class OnTheModel(ServerRule):
    """Noise of the server's own on the model."""

    std: float
    provides = ("model",)
    receives = ("update",)

    def init(self, model):
        return {"model": model}

    @abstractmethod
    def noise(self, key, shape):
        """Of deviation one."""

    def __call__(self, key, state, received, coverage):
        noise = self.std * self.noise(key, state["model"].shape)
        return {"model": state["model"] + received["update"] + noise}


class FewStates(OnTheModel):
    """Noise from a generator of 16 bits."""

    def noise(self, key, shape):
        return random.normal(random.key(random.bits(key, (), jnp.uint32) % 2**16), shape)


class HalfOfThem(OnTheModel):
    """Noise on every second number."""

    def noise(self, key, shape):
        return random.normal(key, shape) * (jnp.arange(*shape) % 2)


class Always(Cohort):
    """Everyone in every round, with the weights of a Poisson cohort that it claims to be."""

    rate: float

    def places(self, clients):
        return clients

    def __call__(self, key, population, number=0):
        everyone = jnp.arange(population.clients)
        weights = jnp.full(population.clients, 1.0) / (self.rate * population.clients)
        return Draw(everyone, weights, everyone >= 0, jnp.float32(self.rate))


class CountsTwice(Cohort):
    """A Poisson cohort in which the first client weighs twice what others do."""

    inner: Poisson
    padded = True
    independent = True

    def places(self, clients):
        return self.inner.places(clients)

    def __call__(self, key, population, number=0):
        drawn = self.inner(key, population, number)
        return drawn._replace(weights=jnp.where(drawn.ids == 0, 2, 1) * drawn.weights)


class ClipsOne(LocalRule):
    """A rule of two messages, which clips the update and forgets the other."""

    inner: LocalRule
    bound: float
    sends = ("update", "control")

    @property
    def needs(self):
        return self.inner.needs

    def init(self, model):
        return self.inner.init(model)

    def __call__(self, key, broadcast, memory, data):
        message, memory, info = self.inner(key, broadcast, memory, data)
        update = message["update"]
        return message | {"update": clip(update, norm(update), self.bound)}, memory, info

    def commit(self, broadcast, memory, sent):
        return self.inner.commit(broadcast, memory, sent)


class PlainClip(Stage):
    """A clipping that squares numbers as they are."""

    bound: float

    def __call__(self, key, vector, state):
        length = jnp.sqrt(jnp.sum(vector**2))
        return jnp.where(length > self.bound, vector * (self.bound / length), vector), state, {}


class RoundsUp(Stage):
    """A quantiser of one level, by the largest number: what is not zero becomes as large."""

    def __call__(self, key, vector, state):
        return jnp.sign(vector) * jnp.max(jnp.abs(vector)), state, {}


class DividesByTheLeast(Stage):
    """A quantiser whose clipping is on what it makes, before a scale that the data decide is multiplied back."""

    bound: float

    def __call__(self, key, vector, state):
        scale = jnp.max(jnp.abs(vector))
        whole = vector / jnp.where(scale > 0, scale, 1)
        return scale * clip(whole, norm(whole), self.bound), state, {}


class NoiseByLength(Stage):
    """Noise in proportion to the message that it is to hide."""

    std: float

    def __call__(self, key, vector, state):
        return vector + self.std * norm(vector) * random.normal(key, vector.shape), state, {}


class SharedNoise(LocalRule):
    """Clipped updates in noise that all clients draw from the key they have in common."""

    inner: LocalRule
    std: float
    sends = ("update",)

    @property
    def needs(self):
        return self.inner.needs

    def __call__(self, key, broadcast, memory, data):
        message, memory, info = self.inner(key, broadcast, memory, data)
        update = clip(message["update"], norm(message["update"]), 1.0)
        noise = self.std * random.normal(at(broadcast["common"], "noise"), update.shape)
        return {"update": update + noise}, memory, info


class HoldsTheFirst(Batches):
    """A batch drawn anew for every step, as `Fresh` says it is, that always holds the first example."""

    size: int = eqx.field(static=True)

    def steps_per_epoch(self, size):
        return -(-size // self.size)

    def largest_weight(self, size):
        return 1 / self.size

    def __call__(self, key, steps, data):
        rows, weights = Fresh(self.size)(key, steps, data)
        return rows.at[:, 0].set(0), weights


def by_batches(batches: Batches) -> Any:
    """One noisy step of a batch."""
    oracle = ClippedPerExample(1.0, 1.0)
    return hush.Algorithm(Uniform(2), LocalSGD(0.1, steps=2, batches=batches, oracle=oracle))


def with_control() -> Any:
    """Two messages, both clipped, in enough noise."""
    made = hush.scaffold(steps=1, lr=0.1)
    return replace(
        made, cohort=Everyone("equal"), uplink=(Clip(1.0),), channel=Noisy(6.0 / CLIENTS), server=AddWithControl()
    )


def two_phases() -> Any:
    """Two releases a round."""
    return hush.InTurn((of_everyone(), of_everyone()))


def scaled(bound: float, stage: Callable[[float], Stage]) -> Any:
    """Everyone's updates clipped to a bound, in noise in proportion to it."""
    return replace(of_everyone(), uplink=(stage(bound),), channel=Noisy(4.0 * bound / CLIENTS))


SABOTAGES = [
    Sabotage("noise halved", lambda: private(1.0), lambda: private(2.0)),
    Sabotage("sensitivity of one who comes, where one is replaced", lambda: of_everyone(1.0), of_everyone, rounds=1),
    Sabotage(
        "clip after the noise",
        lambda: local(Gaussian(LOCAL_STD), Clip(1.0)),
        lambda: local(Clip(1.0), Gaussian(LOCAL_STD)),
        trust="local",
    ),
    Sabotage(
        "one message of two not clipped",
        lambda: replace(with_control(), local=ClipsOne(with_control().local, 1.0), uplink=()),
        with_control,
    ),
    Sabotage(
        "sampling claimed and not done",
        lambda: replace(private(), cohort=Always(PER_ROUND / CLIENTS)),
        private,
        rounds=8,
    ),
    Sabotage("the same noise in every round", lambda: in_server(RepeatedNoise), of_everyone),
    Sabotage("a generator of 16 bits", lambda: in_server(FewStates), of_everyone, rounds=8),
    Sabotage("noise on some numbers only", lambda: in_server(HalfOfThem), of_everyone),
    Sabotage("squares that underflow", lambda: scaled(1e-24, PlainClip), lambda: scaled(1.0, Clip)),
    Sabotage("a phase forgotten", two_phases, of_everyone, rounds=4),
    Sabotage(
        "a quantiser that makes clipped messages longer",
        lambda: replace(of_everyone(), uplink=(Clip(1.0), RoundsUp())),
        of_everyone,
    ),
    Sabotage(
        "a clip before the scale that the data decide",
        lambda: replace(of_everyone(), uplink=(DividesByTheLeast(1.0),)),
        of_everyone,
    ),
    Sabotage(
        "noise that all clients share",
        lambda: replace(local(), local=SharedNoise(private().local, LOCAL_STD)),
        lambda: local(Clip(1.0), Gaussian(LOCAL_STD)),
        trust="local",
    ),
    Sabotage(
        "noise as long as what it hides",
        lambda: local(Clip(1.0), NoiseByLength(LOCAL_STD)),
        lambda: local(Clip(1.0), Gaussian(LOCAL_STD)),
        trust="local",
    ),
    Sabotage(
        "a client that counts twice",
        lambda: replace(private(1.5), cohort=CountsTwice(private().cohort)),
        lambda: private(1.5),
        rounds=8,
    ),
    Sabotage(
        "what a compressor lost, added after the clip",
        lambda: replace(of_everyone(8.0), uplink=(Clip(1.0), ErrorFeedback(TopK(1)))),
        lambda: of_everyone(8.0),
        rounds=32,
    ),
    Sabotage("a secure sum of fewer than are counted", shared_by_more, lambda: summed(CLIENTS)),
    Sabotage("a secure sum of survivors who are counted as everybody", of_few, lambda: summed(CLIENTS)),
    Sabotage("whole numbers that are too large", too_long, lambda: summed(CLIENTS)),
    Sabotage(
        "batches that always hold the example",
        lambda: by_batches(HoldsTheFirst(2)),
        lambda: by_batches(Fresh(2)),
        clients=EqualClients(4, 40),
        unit="example",
    ),
]

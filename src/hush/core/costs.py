"""What a round costs, before it is run: bits up and down, uses of the channel, energy; by phase and in all.

A number that depends on what will be sent, or on who will come, is given by bounds, and says so.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Any

import jax
import numpy as np

from hush.core.algorithm import Algorithm, InTurn, init_server
from hush.core.check import integer
from hush.core.coding import BITS_PER_NUMBER
from hush.core.contract import Channel, Stage
from hush.core.counts import Count
from hush.core.flat import flat_shape
from hush.core.keys import root
from hush.core.memory import size_of
from hush.core.problem import Population, Problem


@dataclass(frozen=True)
class Amount:
    """A number that is known before the round, or bounds on it.

    >>> Amount(3, 3).exact, Amount(0, 3).exact, Amount(3, 3) + Amount(0, 2)
    (True, False, Amount(least=3, most=5))
    """

    least: float
    most: float  # infinite where nothing is known

    @property
    def exact(self) -> bool:
        """Whether it is one number."""
        return self.least == self.most

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.least + other.least, self.most + other.most)

    def times(self, fewest: int, most: int) -> "Amount":
        """So many of it, from the fewest to the most."""
        return Amount(fewest * self.least, most * self.most if most else 0)


NOTHING = Amount(0, 0)


@dataclass(frozen=True)
class PhaseCosts:
    """One phase of a round: who comes, what each of them costs, and what they cost together."""

    expected: float  # how many clients take part, in the mean
    fewest: int
    places: int  # the most that can
    client_uplink_bits: Amount
    client_downlink_bits: int
    client_energy: Amount
    channel_uses: int  # which all clients of a phase share

    @property
    def uplink_bits(self) -> Amount:
        """Of all clients that take part."""
        return self.client_uplink_bits.times(self.fewest, self.places)

    @property
    def downlink_bits(self) -> Amount:
        """To all clients that take part."""
        each = self.client_downlink_bits
        return Amount(each, each).times(self.fewest, self.places)

    @property
    def energy(self) -> Amount:
        """Of all clients that take part."""
        return self.client_energy.times(self.fewest, self.places)


@dataclass(frozen=True)
class Costs:
    """A round: its phases, and all of them together."""

    phases: tuple[PhaseCosts, ...]

    @property
    def client_uplink_bits(self) -> Amount:
        """Of a client that takes part in every phase."""
        return _sum(phase.client_uplink_bits for phase in self.phases)

    @property
    def client_downlink_bits(self) -> int:
        """To a client that takes part in every phase."""
        return sum(phase.client_downlink_bits for phase in self.phases)

    @property
    def uplink_bits(self) -> Amount:
        """All that is sent."""
        return _sum(phase.uplink_bits for phase in self.phases)

    @property
    def expected_uplink_bits(self) -> float | None:
        """All that is sent in the mean over who takes part; None where that depends on the numbers sent."""
        if not self.client_uplink_bits.exact:
            return None
        return sum(phase.expected * phase.client_uplink_bits.most for phase in self.phases)

    @property
    def downlink_bits(self) -> Amount:
        """All that is told."""
        return _sum(phase.downlink_bits for phase in self.phases)

    @property
    def expected_downlink_bits(self) -> float:
        """All that is told in the mean over who takes part."""
        return sum(phase.expected * phase.client_downlink_bits for phase in self.phases)

    @property
    def channel_uses(self) -> int:
        """Of analogue messages."""
        return sum(phase.channel_uses for phase in self.phases)

    @property
    def energy(self) -> Amount:
        """What is put on the air; nothing where messages are bits."""
        return _sum(phase.energy for phase in self.phases)

    @property
    def exact(self) -> bool:
        """Whether every round costs the same, and it is known what."""
        return self.uplink_bits.exact and self.downlink_bits.exact and self.energy.exact


def _sum(amounts: Iterable[Amount]) -> Amount:
    return sum(amounts, NOTHING)


def costs(algorithm: Algorithm | InTurn, problem: Problem | Population, dimension: int | None = None) -> Costs:
    """What a round costs on a problem, or on a population with a model of so many numbers.

    >>> import hush
    >>> found = costs(hush.fedavg(clients=10, steps=5), hush.core.problem.Population([100] * 50), dimension=650)
    >>> found.uplink_bits, found.client_downlink_bits
    (Amount(least=208000, most=208000), 20800)
    """
    if isinstance(problem, Population):
        integer("dimension", dimension)
        model: Any = jax.ShapeDtypeStruct((dimension,), "float32")
        clients = problem.clients
    elif dimension is not None:
        raise ValueError("dimension goes with a population: a problem knows its own")
    else:
        model, clients = flat_shape(problem), problem.population.clients
    server = jax.eval_shape(lambda vector: init_server(algorithm, vector), model)
    return Costs(tuple(_phase(phase, model, server, clients) for phase in algorithm.phases))


def _phase(phase: Algorithm, model: Any, server: dict[str, Any], clients: int) -> PhaseCosts:
    lengths = [vector.size for vector in jax.eval_shape(phase.local.template, model).values()]
    told = [server[name] for name in phase.local.needs]
    places, padded, analogue = phase.cohort.places(clients), phase.cohort.padded, phase.channel.analogue
    rate = getattr(phase.cohort, "rate", None)  # of a cohort that each client joins by its own coin
    usual = phase.cohort.usual(clients) if rate is None else float(rate) * clients
    return PhaseCosts(
        expected=usual if padded else places,
        fewest=0 if padded else places,
        places=places,
        client_uplink_bits=NOTHING if analogue else _sum(_message(phase.uplink, length) for length in lengths),
        client_downlink_bits=8 * size_of(told),
        client_energy=_energy(phase.channel) if analogue else NOTHING,
        channel_uses=sum(lengths) if analogue else 0,
    )


def _energy(channel: Channel) -> Amount:
    """The loudest client's power P, since a message within the channel's bound L is sent as √P/L of itself at most."""
    decibel = getattr(channel, "decibel", None)
    return Amount(0, inf if decibel is None else float(np.max(10 ** (np.asarray(decibel, float) / 10))))


def _message(stages: tuple[Stage, ...], dimension: int) -> Amount:
    """The bits of one message: what the last stage says that says anything, else those of plain numbers."""
    cost = Amount(BITS_PER_NUMBER * dimension, BITS_PER_NUMBER * dimension)
    for stage in stages:
        cost = _said(stage, dimension) or cost
    return cost


def _said(stage: Stage, dimension: int) -> Amount | None:
    """What a stage makes a message cost, if anything. Its `most_bits(dimension)` may bound a length of chance."""
    found: list[Any] = []
    if hasattr(stage, "fixed_bits"):
        found.append(stage.fixed_bits(dimension))
    else:

        def trace(vector: Any) -> None:  # nothing is computed: only what needs no values comes out a number
            info = stage(root(0), vector, stage.init(vector))[2]
            found.extend([info["bits"]] if "bits" in info else [])

        jax.eval_shape(trace, jax.ShapeDtypeStruct((dimension,), "float32"))
    if not found:
        return None
    bits = int(found[0]) if isinstance(found[0], Count) and found[0].known else found[0]
    if isinstance(bits, int | np.integer):
        return Amount(int(bits), int(bits))
    return Amount(0, stage.most_bits(dimension) if hasattr(stage, "most_bits") else inf)


def bits_of_round(algorithm: Algorithm | InTurn, problem: Problem) -> int:
    """The uplink bits that a round costs at the least: what no budget below can pay for."""
    return int(costs(algorithm, problem).uplink_bits.least)

"""What a run spends of privacy: ε of every lane and every client, and what a budget of it allows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hush.core.algorithm import Algorithm, InTurn
from hush.core.contract import Problem
from hush.core.lanes import Lane, at_point
from hush.privacy import Description, NoGuarantee, describe
from hush.privacy.printed import equation_13_noise, equation_16_noise

Array = np.ndarray[Any, Any]
LONG = 10_000  # rounds, where only a budget ends a run: no schedule is looked at any further


class Spending:
    """The guarantee of each lane, or the reason why there is none."""

    def __init__(
        self,
        algorithm: Algorithm | InTurn,
        problem: Problem,
        lanes: Sequence[Lane],
        rounds: int | None,
        delta: float,
        unit: str | None = None,
        trust: str | None = None,
    ) -> None:
        self.delta, self.reason = delta, ""
        self.lanes: list[Description] = []
        known: dict[tuple[float, ...], Description] = {}
        try:
            for lane in lanes:
                point = tuple(lane.settings.values())
                if point not in known:
                    here = at_point(algorithm, lane.settings)
                    known[point] = describe(here, problem, rounds or LONG, unit=unit, trust=trust)
                self.lanes.append(known[point])
        except NoGuarantee as error:
            if unit is not None or trust is not None:
                raise  # it was asked for
            self.lanes, self.reason = [], str(error)

    def __bool__(self) -> bool:
        return bool(self.lanes)

    def epsilons(self, rounds: int, taken: Array) -> Array:
        """ε [lanes, N] after so many rounds, `taken` [phases, lanes, N] those that each client took part in."""
        each = [lane.epsilons(rounds, taken[:, index], self.delta) for index, lane in enumerate(self.lanes)]
        return np.array(each)

    @property
    def per_client(self) -> bool:
        """Whether each client has an ε of its own."""
        return self.lanes[0].first.per_client

    def rounds_within(self, epsilon: float) -> int:
        """How many rounds every lane can pay for, where all clients pay alike."""
        return min(_most(lane, max(lane.sizes), epsilon, self.delta) for lane in self.lanes)

    def allowance(self, epsilon: float) -> Array:
        """How many rounds each client can pay for, [lanes, N], where each pays for its own."""
        known: dict[tuple[int, int], int] = {}

        def most(lane: Description, size: int) -> int:
            place = (id(lane), size)
            if place not in known:
                known[place] = _most(lane, size, epsilon, self.delta)
            return known[place]

        return np.array([[most(lane, size) for size in lane.sizes] for lane in self.lanes])

    def in_words(self, rounds: int, taken: Array) -> dict[str, Any]:
        """The figure of the lane that spent most and all that must stand beside it, for a status file or a report."""
        if not self:
            return {"guarantee": "none", "reason": self.reason}
        everybody = self.epsilons(rounds, taken)
        lane = int(np.argmax(everybody.max(1)))
        first, each = self.lanes[lane], everybody[lane]
        worst = int(np.argmax(each))
        counts = tuple(map(int, taken[:, lane, worst])) if self.per_client else (rounds,) * len(first.phases)
        found = first.spent(counts, first.sizes[worst], self.delta)
        figures: dict[str, Any] = {
            "epsilon": float(each[worst]),
            "median": float(np.median(each)),
            "delta": self.delta,
            "rdp": found.rdp,
            "pld": found.pld,
            "rounds": max(counts),
        }
        if first.first.by_output:
            ((release, _),) = first.first.of(first.sizes[worst])
            rate = release.sampling.rate  # both formulas have ε and the noise in inverse proportion
            for_one = equation_13_noise(1.0, self.delta) if rate == 1 else equation_16_noise(1.0, self.delta, rate)
            figures["printed per round"] = for_one / release.noise_multiplier
        return {"guarantee": first.table(self.delta), "noise": NOISE} | figures


NOISE = (
    "of this simulation comes from its seed, so that the run can be repeated, and protects nobody; a device draws its "
    "own from the operating system (hush.keys.system)"
)


def _most(description: Description, size: int, epsilon: float, delta: float) -> int:
    """The most rounds, of every phase, whose ε is within the target: doubling, then bisection."""

    def within(rounds: int) -> bool:
        try:
            return description.spent((rounds,) * len(description.phases), size, delta).epsilon <= epsilon
        except NoGuarantee:  # noise that is correlated over a number of rounds covers no more of them
            return False

    low, high = 0, 1
    while high <= LONG and within(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if within(middle) else (low, middle)
    return low

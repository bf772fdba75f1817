"""What a run spends of privacy: ε of every lane and every client, and what a budget of it allows."""

import warnings
from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np

from hush.core.algorithm import Algorithm, InTurn
from hush.core.paths import at_point
from hush.core.problem import Problem
from hush.execution.lanes import Lane
from hush.privacy import Description, NoGuarantee, describe
from hush.privacy.clients import UNSEEN
from hush.privacy.printed import equation_13_noise, equation_16_noise

Array = np.ndarray[Any, Any]
# Rounds, where only a budget ends a run: no schedule is looked at any further, and no run goes on for longer.
LONG = 10_000


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
        noise: str | None = None,
    ) -> None:
        self.delta, self.reason, self._noise = delta, "", NOISE if noise is None else noise
        self.lost = ""  # why there is none where there would be one: how the run ends, or ended before
        self.swept = len({tuple(lane.settings.values()) for lane in lanes}) > 1
        self.lanes: list[Description] = []

        def described(rounds: int) -> list[Description]:
            known: dict[tuple[float, ...], Description] = {}
            for lane in lanes:
                point = tuple(lane.settings.values())
                if point not in known:
                    here = at_point(algorithm, lane.settings)
                    known[point] = describe(here, problem, rounds, unit=unit, trust=trust)
            return [known[tuple(lane.settings.values())] for lane in lanes]

        self._described, self.clients = described, problem.population.clients
        self._independent = all(phase.cohort.independent for phase in algorithm.phases)
        try:
            self.lanes = described(rounds or LONG)
        except NoGuarantee as error:
            if unit is not None or trust is not None:
                raise  # it was asked for
            self.reason = str(error)
        if self.lanes and (warning := self.lanes[0].too_large(delta)):
            warnings.warn(warning.removeprefix("warning: "), UserWarning, stacklevel=4)

    def __bool__(self) -> bool:
        return bool(self.lanes)

    def epsilons(self, rounds: int, taken: Array) -> Array:
        """ε [lanes, N] after so many rounds, `taken` [phases, lanes, N] those that each client took part in."""
        try:
            while rounds > self.lanes[0].rounds:  # only a budget of bits ends it: look at its later step sizes too
                self.lanes = self._described(2 * self.lanes[0].rounds)
        except NoGuarantee:
            return np.full((len(self.lanes), self.clients), inf)
        each = [lane.epsilons(rounds, taken[:, index], self.delta) for index, lane in enumerate(self.lanes)]
        return np.array(each)

    @property
    def per_client(self) -> bool:
        """Whether each client has an ε of its own."""
        return self.lanes[0].per_client

    @property
    def trust(self) -> str:
        """Who is trusted: a name from hush.privacy.TRUST."""
        return self.lanes[0].first.trust

    @property
    def may_retire(self) -> bool:
        """Whether one client may stop alone: where nobody's ε rests on who else takes part, or what all weigh stays.

        The second is proved at the head of hush.privacy.clients, for clients that are drawn each by itself.
        """
        alone = self.trust in UNSEEN and self.lanes[0].first.relation == "add-or-remove" and self._independent
        return self.trust == "local" or alone

    @property
    def tells_who(self) -> bool:
        """Whether the guarantee holds where all see who takes part: sampling is credited nothing, nor is absence."""
        first = self.lanes[0]
        releases = [release for phase in first.phases for each in phase.releases.values() for release, _ in each]
        secret = first.first.relation == "add-or-remove" or any(release.sampled for release in releases)
        return self.trust not in UNSEEN or not secret

    def withdraw(self, reason: str) -> None:
        """No guarantee after all: how the run ends would void it."""
        self.lanes, self.reason, self.lost = [], reason, reason

    def rounds_within(self, epsilon: float) -> int:
        """How many rounds every lane can pay for, where all clients pay alike."""
        return min(lane.rounds_within(epsilon, lane.different[0], self.delta) for lane in self.lanes)

    def allowance(self, epsilon: float) -> Array:
        """How many rounds each client can pay for, [lanes, N], where each pays for its own."""
        found: dict[int, Array] = {}  # lanes of one description are alike
        for lane in self.lanes:
            if id(lane) not in found:
                # An example that several clients hold is paid for by all of them.
                paid = [lane.rounds_within(epsilon, size, self.delta) // lane.holders for size in lane.different]
                found[id(lane)] = np.array(paid)[lane.kinds]
        return np.array([found[id(lane)] for lane in self.lanes])

    def in_words(self, rounds: int, taken: Array) -> dict[str, Any]:
        """The figure of the lane that spent most and all that must stand beside it, for a status file or a report."""
        if not self:
            return {"guarantee": "none", "reason": self.reason}
        everybody = self.epsilons(rounds, taken)
        lane = int(np.argmax(everybody.max(1)))
        first, each = self.lanes[lane], everybody[lane]
        worst = int(np.argmax(each))
        counts = first.counts(rounds, taken[:, lane])[worst]
        found = first.spent(counts, int(first.sizes[worst]), self.delta)
        figures: dict[str, Any] = {
            "epsilon": float(each[worst]),
            "median": float(np.median(each)),
            "delta": self.delta,
            "rdp": found.rdp,
            "pld": found.pld,
            "rounds": int(max(counts)),
            "lanes": len(self.lanes),
            "together": self.together(rounds, taken),
            "composed": SWEPT if self.swept else REPEATED,
        }
        if first.first.by_output:
            ((release, _),) = first.first.of(int(first.sizes[worst]))
            rate = release.sampling.rate  # both formulas have ε and the noise in inverse proportion
            for_one = equation_13_noise(1.0, self.delta) if rate == 1 else equation_16_noise(1.0, self.delta, rate)
            figures["printed per round"] = for_one / release.noise_multiplier
        return {"guarantee": first.table(self.delta), "noise": self._noise} | figures

    def together(self, rounds: int, taken: Array) -> float:
        """The worst client's ε of all lanes together: each is one more release of the same data."""
        first, lanes = self.lanes[0], len(self.lanes)
        if self.swept:
            return inf
        totals = np.sum([first.counts(rounds, taken[:, lane]) for lane in range(lanes)], axis=0)  # [N, phases]
        most = np.zeros((len(first.different), totals.shape[1]), totals.dtype)
        np.maximum.at(most, first.kinds, totals)  # the worst of each size
        each = zip(first.different, most, strict=True)
        return max(first.spent(times, size, self.delta, lanes).epsilon for size, times in each)


SWEPT = "the points of a sweep share their noise: who sees two of them can take it off, so that they protect nobody"
REPEATED = "each repetition is one more release of the same data, with noise of its own"
NOISE = (
    "of this simulation comes from its seed, so that the run can be repeated, and protects nobody; a device draws its "
    "own, on a grid, from the operating system (hush.network)"
)

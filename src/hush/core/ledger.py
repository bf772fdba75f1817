"""The ledger: what was said, by and to whom, exactly; and means of what is worth looking at."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from hush.core.contract import Info
from hush.core.counts import Count

KEPT = ("client_uplink_bits", "client_downlink_bits", "client_rounds", "client_energy", "channel_uses", "iterations")


class Log(NamedTuple):
    """What one round of one phase leaves behind, for the ledger and for looking at."""

    ids: jax.Array  # [K]
    active: jax.Array  # [K]
    bits: Count  # [K], what each client sent
    energy: jax.Array  # [K], what it took to send it over the air
    info: Info  # means over the active clients
    seen: Info  # [K], the same for each client, where clients are watched


def _summed(who: np.ndarray[Any, Any], values: np.ndarray[Any, Any], shape: tuple[int, ...]) -> Any:
    """Whole numbers summed by place, in whole numbers: double precision is exact up to 2^53 only."""
    sums = np.zeros(shape, np.int64)
    np.add.at(sums.reshape(-1), who, values)
    return sums


def _of_the_active(active: np.ndarray[Any, Any]) -> Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """What picks from values [lanes, rounds, K] those of who took part; where all did, there is nothing to copy."""
    return np.ravel if active.all() else lambda values: values[active]


def _added(totals: np.ndarray[Any, Any], each: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Totals [lanes] and the numbers of every round [lanes, rounds], added one after the other in double precision.

    Always in this order, so that no total depends on how many rounds one call of the program ran.
    """
    return np.cumsum(np.column_stack([totals, each.astype(float)]), axis=1)[:, -1]


class Ledger:
    """What was said, exactly, in whole bits, by and to each client; and means of what is worth looking at."""

    def __init__(self, phases: int, lanes: int, clients: int, sees_steps: bool = True) -> None:
        self._sees_steps = sees_steps  # between machines nobody does
        self.client_rounds = np.zeros((phases, lanes, clients), np.int64)  # how often each took part
        self.client_uplink_bits = np.zeros((lanes, clients), np.int64)
        self.client_downlink_bits = np.zeros((lanes, clients), np.int64)
        self.client_energy = np.zeros((lanes, clients))  # what each has put on the air
        self.channel_uses = np.zeros(lanes, np.int64)  # of analogue messages, which all clients of a round share
        self.iterations = np.zeros(lanes)
        self._on_air = False  # whether messages are analogue
        self._sums: dict[str, np.ndarray[Any, Any]] = {}
        self._rounds = 0

    def add(self, logs: tuple[Log, ...], rounds: int, downlink: Sequence[int], uses: int = 0) -> None:
        """Count the first `rounds` rounds of these logs, one a phase.

        `downlink` is the bits each client is told, `uses` how often a round uses the channel for analogue messages.
        """
        self._on_air |= uses > 0
        self.channel_uses += uses * rounds
        shape = self.client_uplink_bits.shape
        for phase, (log, bits) in enumerate(zip(logs, downlink, strict=True)):
            active = np.asarray(log.active)[:, :rounds]
            chosen = _of_the_active(active)
            who = chosen(np.arange(shape[0])[:, None, None] * shape[1] + np.asarray(log.ids)[:, :rounds])
            taken = np.bincount(who, minlength=shape[0] * shape[1]).reshape(shape)
            self.client_rounds[phase] += taken
            self.client_downlink_bits += bits * taken
            self.client_uplink_bits += _summed(who, chosen(log.bits.numbers()[:, :rounds]), shape)
            if (energy := chosen(np.asarray(log.energy)[:, :rounds])).any():
                np.add.at(self.client_energy.reshape(-1), who, energy)
            info = {name: np.asarray(value)[:, :rounds] for name, value in log.info.items()}
            self.iterations = _added(self.iterations, info.pop("steps"))
            info["participants"] = active.sum(2)
            for name, value in info.items():
                self._sums[name] = _added(self._sums.get(name, np.zeros(shape[0])), value)
        self._rounds += rounds

    def enter(
        self, phase: int, told: Sequence[int], bits: Mapping[int, int], downlink: int, info: Mapping[str, float]
    ) -> None:
        """Count one phase of a round between machines: each who was told took part, whatever became of its answer."""
        self.client_rounds[phase, 0, list(told)] += 1
        self.client_downlink_bits[0, list(told)] += downlink
        for client, sent in bits.items():
            self.client_uplink_bits[0, client] += sent
        for name, value in (dict(info) | {"participants": len(bits)}).items():
            self._sums[name] = self._sums.get(name, np.zeros(1)) + value
        self._rounds += phase == len(self.client_rounds) - 1

    @property
    def uplink_bits(self) -> np.ndarray[Any, Any]:
        """What all clients of a lane have sent."""
        return self.client_uplink_bits.sum(1)

    @property
    def downlink_bits(self) -> np.ndarray[Any, Any]:
        """What they have been told."""
        return self.client_downlink_bits.sum(1)

    def read(self) -> dict[str, np.ndarray[Any, Any]]:
        """The totals so far, and the means since the last reading, none where there was no round; starts these anew."""
        means = {name: total / (self._rounds or np.nan) for name, total in self._sums.items()}
        self._sums, self._rounds = {}, 0
        totals = {"uplink_bits": self.uplink_bits, "downlink_bits": self.downlink_bits}
        if self._sees_steps:
            totals["iterations"] = self.iterations.copy()
        if self._on_air or self.channel_uses.any():
            totals |= {"channel_uses": self.channel_uses.copy(), "energy": self.client_energy.sum(1)}
        return totals | means

    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """All of it, as arrays."""
        named = {f"mean/{name}": value for name, value in self._sums.items()}
        totals = {name: getattr(self, name).copy() for name in KEPT}
        return totals | named | {"rounds": np.array(self._rounds)}

    def restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """The reverse of `state`."""
        for name in KEPT:
            setattr(self, name, state[name].copy())
        self._rounds = int(state["rounds"])
        self._sums = {name[5:]: value.copy() for name, value in state.items() if name.startswith("mean/")}

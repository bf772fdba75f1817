"""A simulation as the host sees it: lanes that are advanced a few rounds at a time, evaluated, saved and restored."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hush.core import engine, mesh
from hush.core.algorithm import BITS_PER_NUMBER, Algorithm, InTurn, check
from hush.core.check import whole
from hush.core.contract import Problem
from hush.core.lanes import keys, lay_out, with_lanes
from hush.core.layout import choose

# Logs of so many rounds are held on the device before they are fetched.
ROUNDS_AT_ONCE = 64
KEPT = ("client_uplink_bits", "client_downlink_bits", "iterations")


class Ledger:
    """What was said, exactly, in whole bits, by and to each client; and means of what is worth looking at."""

    def __init__(self, lanes: int, clients: int) -> None:
        self.client_uplink_bits = np.zeros((lanes, clients), np.int64)
        self.client_downlink_bits = np.zeros((lanes, clients), np.int64)
        self.iterations = np.zeros(lanes)
        self._sums: dict[str, np.ndarray[Any, Any]] = {}
        self._rounds = 0

    def add(self, logs: tuple[engine.Log, ...], rounds: int, downlink: Sequence[int]) -> None:
        """Count the first `rounds` rounds of these logs, one a phase; `downlink` is the bits each client is told."""
        for log, told in zip(logs, downlink, strict=True):
            active = np.asarray(log.active)[:, :rounds]
            who = (np.nonzero(active)[0], np.asarray(log.ids)[:, :rounds][active])
            np.add.at(self.client_uplink_bits, who, np.asarray(log.bits)[:, :rounds][active].astype(np.int64))
            np.add.at(self.client_downlink_bits, who, told)
            info = {name: np.asarray(value)[:, :rounds].sum(1) for name, value in log.info.items()}
            self.iterations += info.pop("steps")
            info["participants"] = active.sum((1, 2)).astype(float)
            for name, value in info.items():
                self._sums[name] = self._sums.get(name, 0) + value
        self._rounds += rounds

    @property
    def uplink_bits(self) -> np.ndarray[Any, Any]:
        """What all clients of a lane have sent."""
        return self.client_uplink_bits.sum(1)

    @property
    def downlink_bits(self) -> np.ndarray[Any, Any]:
        """What they have been told."""
        return self.client_downlink_bits.sum(1)

    def read(self) -> dict[str, np.ndarray[Any, Any]]:
        """The totals so far, and the means since the last reading; starts the means anew."""
        means = {name: total / max(self._rounds, 1) for name, total in self._sums.items()}
        self._sums, self._rounds = {}, 0
        return {
            "uplink_bits": self.uplink_bits,
            "downlink_bits": self.downlink_bits,
            "iterations": self.iterations.copy(),
        } | means

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


class Simulation:
    """All lanes of one run, from before the first round on."""

    def __init__(
        self,
        algorithm: Algorithm | InTurn,
        problem: Problem,
        *,
        seed: int = 0,
        repetitions: int | Sequence[int] = 1,
        sweep: Mapping[str, Sequence[float]] | None = None,
        clients_at_once: int | None = None,
        devices: int | None = None,
    ) -> None:
        whole("seed", seed, 0)
        check(algorithm)
        population = problem.population
        slots = [phase.cohort.slots(population.clients) for phase in algorithm.phases]
        for phase in algorithm.phases:
            phase.local.check(population)
        self.lanes = lay_out(repetitions, sweep)
        self.round = 0
        self.problem = problem
        laid_out = choose(algorithm, problem, max(slots), len(self.lanes), clients_at_once, devices, ROUNDS_AT_ONCE)
        spread = mesh.place(with_lanes(algorithm, self.lanes), laid_out.mesh, mesh.LANES)
        placed = mesh.place(problem, laid_out.mesh)
        lane_keys = mesh.place(keys(seed, self.lanes), laid_out.mesh, mesh.LANES)
        self._fixed = engine.Fixed(spread, placed, lane_keys, laid_out)
        self._carry: engine.Carry = mesh.place(engine.begin(self._fixed), laid_out.mesh, mesh.LANES)
        self.ledger = Ledger(len(self.lanes), population.clients)
        dimension = self._carry.server["model"].shape[1]
        self._downlink = [BITS_PER_NUMBER * dimension * len(phase.local.needs) for phase in algorithm.phases]

    @property
    def layout(self) -> engine.Layout:
        """How the work is laid out."""
        return self._fixed.layout

    @property
    def dimension(self) -> int:
        """d, the number of parameters."""
        return int(self._carry.server["model"].shape[1])

    def advance(self, rounds: int, bit_budget: float | None = None) -> int:
        """Run so many rounds, at most `layout.rounds_at_once`; none at all compiles the program.

        With a budget, only as many as every lane can pay for: the number of rounds done is returned. What a round
        costs may be known only once it is done, and is then taken back.
        """
        if not 0 <= rounds <= self.layout.rounds_at_once:
            raise ValueError(f"rounds must be from 0 to {self.layout.rounds_at_once}, found {rounds}")
        before = self._carry if bit_budget is None else jax.tree.map(jnp.copy, self._carry)
        bounds = jnp.int32(self.round), jnp.int32(self.round + rounds)
        self._carry, logs = engine.advance((self._fixed, bounds), self._carry)
        logs = jax.device_get(logs)
        if bit_budget is not None and (paid := self._affordable(logs, rounds, bit_budget)) < rounds:
            self._carry = before
            return self.advance(paid)
        self.ledger.add(logs, rounds, self._downlink)
        self.round += rounds
        return rounds

    def _affordable(self, logs: tuple[engine.Log, ...], rounds: int, bit_budget: float) -> int:
        """How many of these rounds every lane can pay for."""
        each = np.sum([np.asarray(log.bits)[:, :rounds].astype(np.int64).sum(2) for log in logs], axis=0)
        spent = self.ledger.uplink_bits[:, None] + np.cumsum(each, axis=1)
        return int((spent <= bit_budget).all(0).sum())

    def evaluate(self) -> dict[str, np.ndarray[Any, Any]]:
        """Every measure of every lane's model."""
        found = engine.measure(self._fixed.problem, self._carry.server["model"], self.layout)
        return {name: np.asarray(value) for name, value in found.items()}

    @property
    def models(self) -> np.ndarray[Any, Any]:
        """The models [lanes, d]."""
        return np.asarray(self._carry.server["model"])

    @property
    def server(self) -> Any:
        """The server's state, every leaf [lanes, …]."""
        return self._carry.server

    @property
    def clients(self) -> Any:
        """The clients' states, one for each phase, every leaf [lanes, N, …]."""
        return self._carry.clients

    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """All that a checkpoint must hold, as named arrays."""
        leaves = jax.tree_util.tree_flatten_with_path(self._carry)[0]
        carried = {f"carry{jax.tree_util.keystr(path)}": np.asarray(leaf) for path, leaf in leaves}
        ledger = {f"ledger/{name}": value for name, value in self.ledger.state().items()}
        return carried | ledger | {"round": np.array(self.round)}

    def restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Go on from a state of the same algorithm, problem and lanes."""
        leaves, structure = jax.tree_util.tree_flatten_with_path(self._carry)
        found = []
        for path, leaf in leaves:
            name = f"carry{jax.tree_util.keystr(path)}"
            if name not in state or state[name].shape != leaf.shape:
                shape = state[name].shape if name in state else "nothing"
                raise ValueError(
                    f"the checkpoint is of another run: {name} should have shape {leaf.shape}, found {shape}"
                )
            found.append(jnp.asarray(state[name], leaf.dtype))
        self._carry = mesh.place(jax.tree.unflatten(structure, found), self.layout.mesh, mesh.LANES)
        self.ledger.restore({name[7:]: value for name, value in state.items() if name.startswith("ledger/")})
        self.round = int(state["round"])

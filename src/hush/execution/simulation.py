"""A simulation as the host sees it: lanes that are advanced a few rounds at a time, evaluated, saved and restored."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hush.core.algorithm import Algorithm, InTurn, check
from hush.core.check import seed as check_seed
from hush.core.costs import costs
from hush.core.flat import flat_shape, unravelled
from hush.core.keys import drawn_by_one_kernel
from hush.core.ledger import Ledger, Log
from hush.core.problem import Problem
from hush.core.rehearsal import places_of, rehearse
from hush.execution import engine, hosts, mesh
from hush.execution.admission import (
    check_budget,
    check_memory,
    check_pair,
    check_streamed,
    rounds_at_once,
    to_be_streamed,
)
from hush.execution.affording import affordable
from hush.execution.lanes import Lane, Sweep, check_points, keys, lay_out, with_lanes
from hush.execution.layout import choose
from hush.execution.phase import Layout
from hush.execution.resident import Resident, Supply, of_shape
from hush.execution.streamed import Streamed, one_client_of

CHECKPOINTED = "carry"  # how the names of a state's arrays begin in a checkpoint
Seen = dict[str, np.ndarray[Any, Any]]  # lane, round, client and what was seen of it: columns of one length


def _each_client(log: Log, first: int, rounds: int) -> Seen:
    """What was seen of each client in the first `rounds` rounds of a log; the rounds are numbered from 1."""
    active = np.asarray(log.active)[:, :rounds]
    lane, number, _ = np.nonzero(active)
    columns = {name: np.asarray(values)[:, :rounds][active] for name, values in log.seen.items()}
    who = np.asarray(log.ids)[:, :rounds][active]
    return {"lane": lane, "round": first + number + 1, "client": who} | columns


def _joined(parts: Sequence[Seen]) -> Seen:
    """One after the other, lane by lane and round by round, however many rounds each part is of."""
    if not parts:
        return {}
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.lexsort((columns["round"], columns["lane"]))
    return {name: values[order] for name, values in columns.items()}


class Simulation:
    """All lanes of one run, from before the first round on."""

    # What a run that is killed may lose, unless one block of rounds takes longer.
    checkpoint_seconds = 10.0

    def __init__(
        self,
        algorithm: Algorithm | InTurn,
        problem: Problem,
        *,
        seed: int = 0,
        repetitions: int | Sequence[int] = 1,
        sweep: Sweep | None = None,
        lanes: Sequence[Lane] | None = None,
        clients_at_once: int | None = None,
        devices: int | None = None,
        watch: bool = False,
        allowance: np.ndarray[Any, Any] | None = None,
        bit_budget: float | None = None,
        streamed: bool | None = None,
        states_file: Path | None = None,
    ) -> None:
        """`streamed` is whether only the clients of the next rounds lie on the devices; else those of a store do so.

        What their clients remember then lies in `states_file`, or in a file that goes with the process.
        """
        check_pair(algorithm, problem)
        check_seed("seed", seed)
        check(algorithm)
        population = problem.population
        places = places_of(algorithm, population)
        for phase, each in zip(algorithm.phases, places, strict=True):
            phase.local.check(population)
            phase.server.check(each)
            phase.channel.check(phase.cohort, population)
        self.lanes = lay_out(repetitions, sweep) if lanes is None else list(lanes)
        check_points(algorithm, [lane.settings for lane in self.lanes])
        self.streamed = to_be_streamed(problem) if streamed is None else streamed
        check_streamed(self.streamed, problem)
        self._like = one_client_of(problem) if self.streamed else problem
        self.added = rehearse(algorithm, self._like)
        check_budget(algorithm, problem, bit_budget)
        at_once = rounds_at_once(len(self.lanes), max(places), len(places))
        over, limited = mesh.make(len(self.lanes), devices, problem.devices_per_model), allowance is not None
        if not self.streamed:
            check_memory(algorithm, problem, len(self.lanes), max(places), over, at_once, watch, limited)
        self.round = 0
        self.stopped_by = ""  # what the last round that was not paid for ran out of
        self.problem = problem
        laid_out = choose(algorithm, self._like, max(places), len(self.lanes), clients_at_once, devices, at_once)
        with_settings, lane_keys = with_lanes(algorithm, self.lanes), keys(seed, self.lanes)
        spread, spread_keys = (mesh.place(part, laid_out.mesh, mesh.LANES) for part in (with_settings, lane_keys))
        self.placed = mesh.place_problem(problem.without_clients() if self.streamed else problem, laid_out.mesh)
        limits = () if allowance is None else mesh.place(jnp.asarray(allowance, jnp.int32), laid_out.mesh, mesh.LANES)
        self._inputs = engine.RunInputs(spread, self.placed, spread_keys, laid_out, watch, limits)
        with drawn_by_one_kernel():
            begun = engine.begin(self._inputs, 1 if self.streamed else None)
        initial = hosts.fetch(jax.tree.map(lambda leaf: leaf[:, 0], begun.clients))
        self._supply: Supply
        if self.streamed:
            begun = begun._replace(taken=())
            self._supply = Streamed(with_settings, problem, lane_keys, laid_out, initial, states_file, allowance)
            check_memory(
                algorithm, self._like, len(self.lanes), max(places), over, at_once, watch, limited, self._supply.memory
            )
        else:
            self._supply = Resident(self.placed, initial, population.clients, states_file)
        self._state: engine.RunState = mesh.place_state(begun, laid_out.mesh, begun.server["model"].shape[1])
        self.ledger = Ledger(len(algorithm.phases), len(self.lanes), population.clients)
        self._seen: list[Seen] = []
        self._costs = costs(algorithm, problem)
        update = jax.eval_shape(algorithm.phases[-1].local.template, flat_shape(problem))["update"]
        if watch and update.size != self.dimension:
            raise ValueError(
                "watching compares updates with how the model moves, and these clients send only a part of it: "
                "watch must be False"
            )

    @property
    def layout(self) -> Layout:
        """How the work is laid out."""
        return self._inputs.layout

    @property
    def arrangement(self) -> dict[str, Any]:
        """The same, for a status file or a report."""
        laid_out = self.layout
        return {
            "devices": laid_out.mesh.size,
            "clients_at_once": laid_out.clients_at_once,
            "lanes_at_once": laid_out.lanes_at_once,
            "streamed": self.streamed,
        }

    @property
    def dimension(self) -> int:
        """d, the number of parameters."""
        return int(self._state.server["model"].shape[1])

    def end_at(self, last: int | None) -> None:
        """After how many rounds the run ends, where that is known: nobody is brought for later ones."""
        self._supply.last = last

    def advance(
        self,
        rounds: int,
        bit_budget: float | None = None,
        allowance: np.ndarray[Any, Any] | None = None,
        client_bit_budget: float | None = None,
    ) -> int:
        """Run so many rounds, at most `layout.rounds_at_once`; none at all compiles the program.

        With a budget of bits, of all clients together or of each, or an allowance of rounds for each client [lanes, N],
        only as many as every lane and client can pay for: the number of rounds done is returned, and `stopped_by` says
        which of them it was. What a round costs may be known only once it is done, and is then taken back.
        """
        if not 0 <= rounds <= self.layout.rounds_at_once:
            raise ValueError(f"rounds must be from 0 to {self.layout.rounds_at_once}, found {rounds}")
        if self._supply.covers(self.round) == 0:
            parts, window, states = self._supply.move(self.round, self._state.clients)
            self._inputs = self._inputs._replace(problem=parts, window=window)
            self._state = self._state._replace(clients=states)
        if (here := self._supply.covers(self.round)) < rounds:
            made = self.advance(here, bit_budget, allowance, client_bit_budget)
            if made < here:
                return made
            return made + self.advance(rounds - made, bit_budget, allowance, client_bit_budget)
        self._supply.expect(self.round + rounds)
        free = bit_budget is None and allowance is None and client_bit_budget is None
        before = self._state if free else jax.tree.map(jnp.copy, self._state)
        bounds = jnp.int32(self.round), jnp.int32(self.round + rounds)
        self._state, logs = engine.advance((self._inputs, bounds), self._state)
        logs = hosts.fetch(logs)
        paid = affordable(self.ledger, logs, rounds, bit_budget, client_bit_budget, allowance)
        if min(paid.values()) < rounds:
            self._state, self.stopped_by = before, min(paid, key=lambda name: paid[name])
            return self.advance(min(paid.values()))
        downlink = [phase.client_downlink_bits for phase in self._costs.phases]
        self.ledger.add(logs, rounds, downlink, self._costs.channel_uses)
        if self._inputs.watch and rounds:  # the last phase is the one that moves the model
            self._seen.append(_each_client(logs[-1], self.round, rounds))
        self.round += rounds
        return rounds

    def evaluate(self) -> dict[str, np.ndarray[Any, Any]]:
        """Every measure of every lane's model."""
        models = self._state.server["model"]
        found = dict(hosts.fetch(engine.measure(self.placed, models, self.layout)))
        return found | self._supply.measured(models)

    def evaluate_clients(self) -> dict[str, np.ndarray[Any, Any]]:
        """Every measure on each client's own examples [lanes, N], of the global model and of the client's personal one.

        Only a simulation sees these: publishing them would void any privacy guarantee.
        """
        return self._supply.measured_clients(self._inputs, self._state)

    @property
    def has_examples(self) -> bool:
        """Whether clients have examples of their own that a model can be evaluated on."""
        rows, vector = jnp.zeros(1, jnp.int32), jnp.zeros(self.dimension)
        try:
            jax.eval_shape(lambda: self._like.client(0).evaluate(unravelled(self._like, vector), rows))
        except NotImplementedError:
            return False
        return True

    @property
    def has_personal_models(self) -> bool:
        """Whether clients use models of their own."""
        return engine.has_personal_models(self._inputs, self._state)

    @property
    def models(self) -> np.ndarray[Any, Any]:
        """The models [lanes, d]."""
        return np.asarray(hosts.fetch(self._state.server["model"]))

    @property
    def seen(self) -> Seen:
        """What was seen of each client in each round, where clients are watched."""
        self._seen = [_joined(self._seen)] if self._seen else []
        return self._seen[0] if self._seen else {}

    @property
    def server(self) -> Any:
        """The server's state, every leaf [lanes, …]."""
        return self._state.server

    @property
    def clients(self) -> Any:
        """The states of the clients that lie on the devices, one for each phase, every leaf [lanes, N, …]."""
        return self._state.clients

    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """All that a checkpoint must hold, as named arrays."""
        leaves = jax.tree_util.tree_leaves_with_path(hosts.fetch(self._apart_from_clients()))
        carried = {f"{CHECKPOINTED}{jax.tree_util.keystr(path)}": np.asarray(leaf) for path, leaf in leaves}
        carried |= self._supply.checkpoint(self._state.clients)
        ledger = {f"ledger/{name}": value for name, value in self.ledger.state().items()}
        seen = {f"seen/{name}": values for name, values in self.seen.items()}
        return carried | ledger | seen | {"round": np.array(self.round)}

    def _apart_from_clients(self) -> engine.RunState:
        """The state without what clients remember, and in how many rounds they took part, which the ledger has."""
        return self._state._replace(clients=(), taken=())

    def saved(self) -> None:
        """The last state is on the disk: what only an earlier one needs may go."""
        self._supply.saved()

    def restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Go on from a state of the same algorithm, problem and lanes, wherever its clients lay."""

        def one(path: Any, leaf: Any) -> Any:
            name = f"{CHECKPOINTED}{jax.tree_util.keystr(path)}"
            return of_shape(state, name, leaf.shape).astype(leaf.dtype)

        found = jax.tree_util.tree_map_with_path(one, self._apart_from_clients())
        ledger = {name[7:]: value for name, value in state.items() if name.startswith("ledger/")}
        clients = self._supply.restore(state, ledger["client_rounds"])
        if self._state.taken:
            found = found._replace(taken=tuple(taken.astype(np.int32) for taken in ledger["client_rounds"]))
        self._state = mesh.place_state(found._replace(clients=clients), self.layout.mesh, self.dimension)
        self.ledger.restore(ledger)
        self.round = int(state["round"])
        seen = {name[5:]: value for name, value in state.items() if name.startswith("seen/")}
        self._seen = [seen] if seen else []

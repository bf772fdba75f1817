"""A federation as the host's loop sees it: like a simulation, with rounds that devices answer.

`Loop` advances it, evaluates it, writes its records and checkpoints, and ends it, as it does a simulation. Before a
round is told to anybody the round before lies on the disk: a server that is killed begins again with the same model,
the same cohort and the same noise.
"""

import math
import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from hush.core.algorithm import Algorithm, InTurn
from hush.core.costs import costs
from hush.core.keys import Key, at, root, secret
from hush.core.ledger import Ledger
from hush.core.problem import Problem
from hush.execution import engine, mesh
from hush.execution.lanes import lay_out
from hush.execution.phase import Layout
from hush.network.coordinator import Coordinator, Opened
from hush.network.desk import Gathered
from hush.network.messages import RUN_BYTES
from hush.network.secure_sum import Verifier
from hush.network.summing import check_rules
from hush.settings.network import NetworkSettings

Array = np.ndarray[Any, Any]
CARRIED = "carry/"


class Exchange(Protocol):
    """What brings a phase's offers to devices and their answers back."""

    def gather(
        self, opened: Opened, told: set[int], deadline: float, wanted: int, stopped: Callable[[], bool]
    ) -> Gathered | None:
        """Everything that came of one phase; None if it was stopped before its end."""

    def wait_for(self, devices: int, stopped: Callable[[], bool]) -> bool:
        """Wait until so many devices are there; False if stopped."""


def _nobody(number: int, phase: int) -> set[int]:
    return set()


def run_key(rehearsal: int | None) -> Key:
    """Where the server's draws come from: a simulation's, or 128 bits of the operating system's."""
    return secret() if rehearsal is None else at(root(rehearsal), "repetition", 0)


class Federation:
    """One run over devices, from before its first round on."""

    checkpoint_seconds = 0.0  # after every round: what devices were told must last

    def __init__(
        self,
        coordinator: Coordinator,
        rules: NetworkSettings,
        allowance: Array | None = None,
        bit_budget: float | None = None,
        client_bit_budget: float | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        for terms in coordinator.sums:
            check_rules(terms, rules)
        self.coordinator, self.problem, self.rules = coordinator, coordinator.problem, rules
        algorithm, clients = coordinator.algorithm, self.problem.population.clients
        self.exchange: Exchange | None = None
        self.lanes, self.stopped_by = lay_out(1, None), ""
        self.layout = Layout(mesh.make(1, 1), 1, 1, 1)
        self.ledger = Ledger(len(algorithm.phases), 1, clients, sees_steps=False)
        self.persist: Callable[[], None] = lambda: None  # writes a checkpoint
        self.abandoned = 0  # rounds with too few answers
        self._next = 0  # the phase that comes next
        self._allowance, self._stopped = allowance, stopped
        # Who was told of a phase before the server was last stopped.
        self.told_before: Callable[[int, int], set[int]] = _nobody
        self._costs = costs(algorithm, self.problem)
        # How often each was told and nothing was heard of it, by phase: what it sent may be lost on its way.
        self._unheard = np.zeros((len(algorithm.phases), clients), np.int64)
        # Who may have answered the round in which the server was stopped, by phase: counted, and taken back as it goes
        # on, since the same answers come again then.
        self._stopped_in = np.zeros((len(algorithm.phases), clients), np.int64)
        for name, budget in (("bit_budget", bit_budget), ("client_bit_budget", client_bit_budget)):
            if budget is not None and not math.isfinite(self._costs.uplink_bits.most):
                raise ValueError(
                    f"a {name} needs messages whose length has a bound: what was sent cannot be taken back"
                )

    @property
    def round(self) -> int:
        """How many rounds are done."""
        return self.coordinator.round

    @property
    def dimension(self) -> int:
        """d, the number of parameters."""
        return int(self.coordinator.server["model"].shape[0])

    def advance(
        self,
        rounds: int,
        bit_budget: float | None = None,
        allowance: Array | None = None,
        client_bit_budget: float | None = None,
    ) -> int:
        """Make at most one round; none where it would go over a budget, or where the server is told to stop.

        What was sent cannot be taken back: a round begins only if it is paid for whatever its messages cost.
        """
        if rounds == 0:
            return 0
        self.stopped_by = self._unpaid(bit_budget, allowance, client_bit_budget)
        if self.stopped_by:
            return 0
        assert self.exchange is not None
        if not self.exchange.wait_for(self.rules.begin_with, self._stopped):
            return 0
        phases = len(self.coordinator.algorithm.phases)
        while self._next < phases:
            if not self._phase(self._next):
                return 0
            self._next += 1
            if self._next < phases:
                self.persist()  # what this phase gave, noise and all, is told in the next
        self._next = 0
        self.coordinator.next_round()
        return 1

    def _unpaid(self, bit_budget: float | None, allowance: Array | None, client_bit_budget: float | None) -> str:
        """Which budget does not pay for what is left of this round, whatever its messages cost; or none."""
        phases = self._costs.phases
        if bit_budget is not None:
            most = sum(phase.uplink_bits.most for phase in phases[self._next :])
            if self.ledger.uplink_bits[0] + most > bit_budget:
                return "bit_budget"
        if allowance is None and client_bit_budget is None:
            return ""
        who = {phase: list(self._open(phase).clients) for phase in range(self._next, len(phases))}
        if client_bit_budget is not None:
            bits = self.ledger.client_uplink_bits[0].astype(float)
            for phase, each in enumerate(phase.client_uplink_bits.most for phase in phases):
                bits += each * self._unheard[phase]
                bits[who.get(phase, [])] += each
            if (bits > client_bit_budget).any():
                return "client_bit_budget"
        taken = self.ledger.client_rounds[:, 0]
        if allowance is not None and any((taken[each, ids] >= allowance[0, ids]).any() for each, ids in who.items()):
            return "allowance"
        return ""

    def _open(self, phase: int) -> Opened:
        """A phase of this round with its cohort, which is the same each time it is drawn."""
        left = None if self._allowance is None else self._allowance[0] - self.ledger.client_rounds[phase, 0]
        return self.coordinator.open(phase, left)

    def _phase(self, phase: int) -> bool:
        """One phase, from its draw to the server's step; whether it took place."""
        opened = self._open(phase)
        before = self.told_before(opened.number, phase)
        self.told_before = _nobody  # from here on this process knows itself
        if self.coordinator.sums_securely(self.coordinator.algorithm.phases[phase]):
            return self._summed(opened, before)
        found = self._gathered(opened, before, self.rules.wanted(len(opened.clients)))
        if found is None:
            self._stopped_in[phase, list(opened.clients)] = 1
            self.ledger.client_rounds[phase, 0] += self._stopped_in[phase]
            return False
        info: dict[str, float] = {}
        if len(found.answers) >= self._fewest(len(opened.clients)):
            info["update_norm"] = self.coordinator.close(opened, found.answers)
        else:
            self.abandoned += 1
        bits = {client: heard.bits for client, heard in found.answers.items()}
        self.ledger.enter(phase, sorted(found.told), bits, self._costs.phases[phase].client_downlink_bits, info)
        self._unheard[phase, sorted(found.told - found.answers.keys() - found.declined.keys())] += 1
        return True

    def _summed(self, opened: Opened, before: set[int]) -> bool:
        """One phase whose messages are summed by masks; whether it took place.

        A sum that was begun before the server was last stopped is not begun again: no device answers a round twice.
        """
        told, bits, phase = set(before), dict[int, int](), opened.phase
        done = None
        if not before and len(opened.clients) >= self.coordinator.algorithm.phases[phase].channel.fewest:
            done = self.coordinator.begin_sum(opened)
            wanted = self.rules.wanted(len(opened.clients))  # of those who began, in every step
            while done.open:
                found = self._gathered(opened._replace(clients=done.asked, sum=done), told, wanted)
                if found is None:  # what was sent was sent: the round counts, and nobody answers it again
                    told, done = told | set(opened.clients), None
                    break
                told |= found.told
                bits |= {client: heard.bits for client, heard in found.answers.items() if heard.bits}
                done.advance()
                bits |= dict.fromkeys(done.survivors, done.bits)  # one may have come as the step was closed
        if done is not None and done.abandoned is None:
            self.coordinator.close_sum(opened, done)
        else:
            self.abandoned += 1
        self.ledger.enter(phase, sorted(told), bits, self._costs.phases[phase].client_downlink_bits, {})
        self._unheard[phase, sorted(told - bits.keys())] += 1
        return True

    def _gathered(self, opened: Opened, told: set[int], wanted: int) -> Gathered | None:
        """What comes of one phase, or of one step of its sum; None if stopped."""
        assert self.exchange is not None
        return self.exchange.gather(opened, told, self.rules.deadline, min(wanted, len(opened.clients)), self._stopped)

    def _fewest(self, asked: int) -> int:
        """How many answers a round needs. Where a sum is private no number of them is too few: that would be seen."""
        return min(self.rules.fewest(asked), asked) if self.coordinator.share else 0

    def evaluate(self) -> dict[str, Array]:
        """Every measure of the model that the server can make."""
        if not self.problem.tables():
            return {}
        found = engine.measure(self.problem, self.server["model"], self.layout)
        return {name: np.asarray(value) for name, value in found.items()}

    def evaluate_clients(self) -> dict[str, Array]:
        """Nothing: a server does not see its clients' data."""
        return {}

    has_examples = has_personal_models = False
    added: frozenset[str] = frozenset()  # nor what their pieces report

    @property
    def models(self) -> Array:
        """The model [1, d]."""
        return np.asarray(self.coordinator.server["model"])[None]

    @property
    def placed(self) -> Problem:
        """The problem, as a simulation has it on its devices."""
        return self.problem

    @property
    def server(self) -> Any:
        """The server's state, every leaf [1, …]."""
        return jax.tree.map(lambda leaf: leaf[None], self.coordinator.server)

    @property
    def arrangement(self) -> dict[str, Any]:
        """How the work is done, for a status file or a report."""
        rules = self.rules
        return {"devices": "over a network", "deadline": rules.deadline, "abandoned rounds": self.abandoned}

    def saved(self) -> None:
        """Nothing here waits for that."""

    def state(self) -> dict[str, Array]:
        """All that a checkpoint must hold, as named arrays."""
        leaves = jax.tree_util.tree_flatten_with_path(self.coordinator.server)[0]
        carried = {f"{CARRIED}{jax.tree_util.keystr(path)}": np.asarray(leaf) for path, leaf in leaves}
        ledger = {f"ledger/{name}": value for name, value in self.ledger.state().items()}
        network = {
            "network/key": np.asarray(jax.random.key_data(self.coordinator.key)),
            "network/agreement": np.frombuffer(self.coordinator.agreement, np.uint8),
            "network/run": np.frombuffer(self.coordinator.run, np.uint8),
            "network/used": self.coordinator.used.copy(),
            "network/unheard": self._unheard.copy(),
            "network/stopped_in": self._stopped_in.copy(),
            "network/abandoned": np.array(self.abandoned),
            "network/phase": np.array(self._next),
        }
        return carried | ledger | network | {"round": np.array(self.round)}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Go on from a state of the same federation."""
        if "network/key" not in state:
            raise ValueError("the checkpoint is of a simulation; go on with it by hush resume")
        if (agreed := state["network/agreement"].tobytes()) != self.coordinator.agreement:
            now = self.coordinator.agreement.hex()[:16]
            raise ValueError(
                f"its devices have agreed to {agreed.hex()[:16]}, and this is {now}: go on with the same settings, or "
                "begin anew (--force), and devices are asked again"
            )
        leaves, structure = jax.tree_util.tree_flatten_with_path(self.coordinator.server)
        found = [jnp.asarray(state[f"{CARRIED}{jax.tree_util.keystr(path)}"], leaf.dtype) for path, leaf in leaves]
        coordinator = self.coordinator
        coordinator.server = jax.tree.unflatten(structure, found)
        words = jnp.asarray(state["network/key"])
        coordinator.key = jax.random.wrap_key_data(words, impl="rbg" if words.size == 4 else None)
        coordinator.run, coordinator.used = state["network/run"].tobytes(), state["network/used"].copy()
        self._unheard = np.array(state.get("network/unheard", self._unheard))
        self.abandoned, self._next = int(state["network/abandoned"]), int(state["network/phase"])
        self.ledger.restore({name[7:]: value for name, value in state.items() if name.startswith("ledger/")})
        self.ledger.client_rounds[:, 0] -= np.array(state.get("network/stopped_in", self._stopped_in))


def federation(
    algorithm: Algorithm | InTurn,
    problem: Problem,
    rules: NetworkSettings,
    agreement: bytes,
    share: bool,
    rehearsal: int | None,
    verifier: Verifier | None = None,
    **settings: Any,
) -> Federation:
    """A federation before its first round."""
    coordinator = Coordinator(
        algorithm,
        problem,
        run_key(rehearsal),
        run=os.urandom(RUN_BYTES),
        agreement=agreement,
        share=share,
        rehearsal=rehearsal is not None,
        verifier=verifier,
    )
    return Federation(coordinator, rules, **settings)

"""A federation of five whose sums are masked, in this process: a line on which devices can be killed."""

import contextlib
import warnings

import sums

import hush
from hush.network import Authority, DeviceCredential, agree, serve
from hush.network.identities import Identities
from hush.network.joining import prepared
from hush.network.memory import InMemory
from hush.network.messages import kind_of
from hush.network.secure_sum import Verifier
from hush.network.steps import ASKED, read_step
from hush.settings import RunSettings

CLIENTS, ROUNDS = 5, 3
TASK = {"name": "logistic_regression", "clients": CLIENTS, "examples": 30, "dimension": 6}
PROBLEM = hush.tasks.logistic_regression(CLIENTS, 30, dimension=6)
SUMMED = hush.secure_dp_fedavg(
    CLIENTS, CLIENTS, clip=1.0, dimension=6, threshold=3, noise_multiplier=2.0, bits=20, steps=2, lr=0.2, batch=8
)
RUN = RunSettings(rounds=ROUNDS, delta=1e-3, seed=3)
ONE_ROUND = RunSettings(rounds=1, delta=1e-3, seed=3)
CLOSE = sums.few_steps(SUMMED)


def enrolled(folder):
    """What each device was enrolled with, and by what a server knows them."""
    authority = Authority.create(folder, ["127.0.0.1"])
    own = [DeviceCredential.read(authority.enrol(f"device-{client}", client)) for client in range(CLIENTS)]
    return own, Verifier(Identities(folder / "server").authority)


class Line(InMemory):
    """A line on which devices are killed: each hears no more from a step of a round on."""

    def __init__(self, desk, devices, killed):
        super().__init__(desk, devices, self.carried)
        self.killed, self.seen = dict(killed), []

    def _ask(self, client):
        data = self.desk.offered(client)
        if data is None:
            return
        if kind_of(data) == ASKED:
            step = read_step(ASKED, data)
            self.killed = {who: when for who, when in self.killed.items() if when[0] >= step.number}  # it comes back
            self.before(client, step)
            if client in self.killed and (step.number, step.step) >= self.killed[client]:
                return
        super()._ask(client)

    def before(self, client, step):
        """Nothing happens before a client hears of a step."""

    def carried(self, client, data, up):
        self.seen.append((client, data, up))
        return data


def federated(enrolment, place, killed=(), rehearsal=True, algorithm=SUMMED, run=RUN, devices=None, **settings):
    """A federation in this process, with masks; devices are new, or those that are handed in."""
    own, verifier = enrolment
    agreement = agree(algorithm, PROBLEM, run, rehearsal, task=TASK)
    lines, made = [], {} if devices is None else devices

    @contextlib.contextmanager
    def connect(desk):
        for client in range(CLIENTS):
            if client not in made:
                (place / f"device-{client}").mkdir(exist_ok=True)
                named = {"rehearse": rehearsal, "credential": own[client]}
                made[client] = prepared(agreement, client, "task", place / f"device-{client}", **named)
        lines.append(Line(desk, made, killed))
        yield lines[0]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # δ is large for five clients
        places = {"folder": place / "run", "task": TASK, "progress": False} | settings
        found = serve(algorithm, PROBLEM, run, connect, rehearsal=rehearsal, verifier=verifier, **places)
    return found, lines[0], made

"""The two ends of a federation that `network.py` measures, each for a process of its own.

    python benchmarks/network_parts.py serve JSON     says where it listens, and at the end when it did what
    python benchmarks/network_parts.py devices JSON   waits for an address, and takes part with some devices in threads

Both are rehearsals. The server is that of `hush serve`, with its journal and its checkpoints on the disk.
"""

import contextlib
import functools
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hush.core import keys
from hush.core.flat import initial
from hush.network import Agreement, Authority, Coordinator, Desk, Device, DeviceCredential, ServerCredential
from hush.network import agree, serve  # isort: skip
from hush.network.coordinator import Opened
from hush.network.desk import Gathered
from hush.network.federation import run_key
from hush.network.identities import Identities
from hush.network.joining import prepared
from hush.network.link import stay
from hush.network.messages import RUN_BYTES
from hush.network.serving import rehearsing
from hush.network.tls_link import TlsLink
from hush.network.tls_server import Listening, listen
from hush.runs.loop import Loop
from hush.settings import Experiment, build
from hush.store.journal import Journal

PATIENCE = 120.0  # seconds for which a device tries to reach its server
PAGE = os.sysconf("SC_PAGE_SIZE")
# What a server does in a round beside waiting; and, of the journal and the checkpoint, most is waiting for the disk.
AT_THE_SERVER = {
    "draw": (Coordinator, "open"),
    "tell": (Coordinator, "tell"),
    "read answers": (Coordinator, "accept"),
    "close": (Coordinator, "close"),
    "journal": (Journal, "note"),
    "checkpoint": (Loop, "save"),
}
Spans = dict[str, list[tuple[float, float]]]  # by name, when it began and how long it took


def say(**facts: Any) -> None:
    """One line for whoever started this process."""
    print(json.dumps(facts), flush=True)


def timed(places: dict[str, tuple[type, str]]) -> Spans:
    """From now on every call of these methods is timed."""
    spans: Spans = {name: [] for name in places}

    def wrapped(call: Callable[..., Any], found: list[tuple[float, float]]) -> Callable[..., Any]:
        @functools.wraps(call)
        def measured(*arguments: Any, **named: Any) -> Any:
            began, start = time.time(), time.perf_counter()
            try:
                return call(*arguments, **named)
            finally:
                found.append((began, time.perf_counter() - start))

        return measured

    for name, (owner, method) in places.items():
        setattr(owner, method, wrapped(getattr(owner, method), spans[name]))
    return spans


class Watched:
    """A listening server that notes time, processor time and memory at every turn of a round."""

    def __init__(self, listening: Listening) -> None:
        self._listening, self.marks = listening, []

    def wait_for(self, devices: int, stopped: Callable[[], bool]) -> bool:
        self._mark("begins")
        found = self._listening.wait_for(devices, stopped)
        self._mark("all there")
        return found

    def gather(
        self, opened: Opened, told: set[int], deadline: float, wanted: int, stopped: Callable[[], bool]
    ) -> Gathered | None:
        self._mark("opens")
        found = self._listening.gather(opened, told, deadline, wanted, stopped)
        self._mark("gathered")
        return found

    def _mark(self, name: str) -> None:
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
        self.marks.append({"name": name, "time": time.time(), "cpu": time.process_time(), "resident": resident})


def agreed(experiment: Experiment, problem: Any) -> Agreement:
    return agree(experiment.algorithm, problem, experiment.run, True, experiment.task)


def server(tables: dict, enrolment: str, folder: str) -> None:
    """All rounds, and then when they were."""
    spans, watched = timed(AT_THE_SERVER), []
    credential, identities = ServerCredential.read(enrolment), Identities(enrolment)

    @contextlib.contextmanager
    def connect(desk: Desk) -> Iterator[Watched]:
        with listen(desk, address="127.0.0.1:0", credential=credential, identities=identities) as listening:
            watched.append(Watched(listening))
            say(port=listening.port, time=time.time())
            yield watched[0]

    made = build(tables)
    keywords = {"rules": made.network, "folder": folder, "rehearsal": True, "task": made.task, "progress": False}
    result = serve(made.algorithm, made.problem(), made.run, connect, **keywords)
    bits = result.state["ledger/client_uplink_bits"].ravel().tolist()
    say(marks=watched[0].marks, spans=spans, bits=bits, dimension=result.status["dimension"])


def devices(tables: dict, enrolment: str, clients: list[int], states: str | None) -> None:
    """Ready devices, each in a thread; with `states` as `hush join` makes them, else all of one compiled program."""
    spans, made = timed({"answer": (Device, "hear")}), build(tables)
    problem = made.problem()
    agreement, start = (
        agreed(made, problem),
        initial(problem, keys.at(keys.root(made.run.seed), "repetition", 0, "init")),
    )
    rehearse = functools.partial(rehearsing, agreement, made.algorithm, problem, made.run, start=start)

    def device(client: int) -> Device:
        if states is None:
            return rehearse(client=client)
        folder = Path(states, str(client))
        folder.mkdir(parents=True)
        return prepared(agreement, client, "task", folder, rehearse=True)

    ready = {client: device(client) for client in clients}
    own = {
        client: DeviceCredential.read(Authority.open(enrolment).folder / f"devices/device-{client}.pem")
        for client in clients
    }
    if states is None:  # many threads that meet a new program at once would compile it many times
        first = Coordinator(
            made.algorithm,
            problem,
            run_key(made.run.seed),
            run=bytes(RUN_BYTES),
            agreement=agreement.digest,
            rehearsal=True,
        )
        rehearse(client=clients[0]).hear(first.tell(first.open(0), clients[0]))
    say(ready=len(ready))
    address, said, links = sys.stdin.readline().strip(), [], []

    def take_part(client: int) -> None:
        links.append(TlsLink(address, own[client]))
        stay(links[-1], ready[client], patience=PATIENCE, stopped=lambda: False, say=said.append)

    threads = [threading.Thread(target=take_part, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say(spans=spans, said=sorted(set(said)))


if __name__ == "__main__":
    {"serve": server, "devices": devices}[sys.argv[1]](**json.loads(sys.argv[2]))

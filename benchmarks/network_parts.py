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

from hush.core.flat import initial
from hush.core.keys import at
from hush.network import Coordinator, Desk, Device, DeviceCredential, ServerCredential, agree, serve
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
    """Devices that are ready before the server is there, each in a thread."""
    spans, said = timed({"answer": (Device, "hear")}), []
    made = build(tables)
    ready = remembering(made, clients, states) if states else light(made, clients)
    own = {client: DeviceCredential.read(Path(enrolment, "devices", f"device-{client}.pem")) for client in clients}
    say(ready=len(ready))
    address = sys.stdin.readline().strip()

    def take_part(client: int) -> None:
        with contextlib.closing(TlsLink(address, own[client])) as link:
            stay(link, ready[client], patience=PATIENCE, stopped=lambda: False, say=said.append)

    threads = [threading.Thread(target=take_part, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say(spans=spans, said=said)


def remembering(made: Experiment, clients: list[int], states: str) -> dict[int, Device]:
    """Devices as `hush join` makes them: each with its own data alone, and its state on the disk."""
    agreement = agree(made.algorithm, made.problem(), made.run, True, made.task)
    for client in clients:
        Path(states, str(client)).mkdir(parents=True)
    return {each: prepared(agreement, each, "task", Path(states, str(each)), rehearse=True) for each in clients}


def light(made: Experiment, clients: list[int]) -> dict[int, Device]:
    """Devices that share data and a compiled program, and keep nothing on the disk: there can be many."""
    problem, key = made.problem(), run_key(made.run.seed)
    agreement, start = agree(made.algorithm, problem, made.run, True, made.task), initial(problem, at(key, "init"))
    found = [rehearsing(agreement, made.algorithm, problem, made.run, client, start) for client in (0, *clients)]
    # Many threads that meet a new program at once would each compile it: one device answers beforehand.
    named = {"run": bytes(RUN_BYTES), "agreement": agreement.digest, "rehearsal": True}
    server = Coordinator(made.algorithm, problem, key, **named)
    found[0].hear(server.tell(server.open(0), 0))
    return dict(zip(clients, found[1:], strict=True))


if __name__ == "__main__":
    {"serve": server, "devices": devices}[sys.argv[1]](**json.loads(sys.argv[2]))

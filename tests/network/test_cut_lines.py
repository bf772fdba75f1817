"""Devices that stay while lines are cut and servers start anew: every answer counts once, and none is lost."""

import contextlib
import socket
import sys
import threading
from pathlib import Path

import pytest

from hush.network.desk import Desk

sys.path.insert(0, str(Path(__file__).parent))
from network_helpers import HANGS, desk_of, devices, fedavg, staying, until

pytestmark = pytest.mark.usefixtures("no_threads_left")


class Relay:
    """Hands bytes on between a device and its server, until it is cut."""

    def __init__(self, port):
        self._to, self._open, self._threads = ("127.0.0.1", port), [], []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._start(self._accept)

    def cut(self):
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()
        for thread in self._threads:
            thread.join(HANGS)

    def _start(self, target, *arguments):
        self._threads.append(threading.Thread(target=target, args=arguments))
        self._threads[-1].start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                device = self._listening.accept()[0]
                server = socket.create_connection(self._to)
                self._open += [device, server]
                self._start(self._hand_on, device, server)
                self._start(self._hand_on, server, device)

    def _hand_on(self, source, target):
        with source, contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def relayed(tls, desk, client):
    """A device that waits at a desk, its relay, and what became of it."""
    asked, offers = threading.Event(), desk.offers
    desk.offers = lambda clients: (offers(clients), asked.set())[0]
    with tls.listening(desk) as exchange, contextlib.closing(Relay(exchange.port)) as relay:
        links = {client: tls.link(relay.port, client)}
        with staying(links, devices(fedavg(), [client])) as taken:
            assert asked.wait(HANGS)  # between two calls gRPC dials anew without a word
            yield relay, taken


def heard(notes):
    return [facts["client"] for event, facts in notes if event == "heard"]


def test_a_line_that_is_cut_while_a_device_waits(tls):
    notes = []
    desk, coordinator = desk_of(fedavg(), notes)
    with relayed(tls, desk, 0) as (relay, taken):
        relay.cut()
        until(lambda: "the server is back" in taken.said[0])
        with desk.open(coordinator.open(0), set()) as gathered:
            until(lambda: gathered.answers)
        desk.end("enough")
    assert taken.ends[0].reason == "enough"
    assert [words.split(" (")[0] for words in taken.said[0]] == ["the server is away", "the server is back"]
    assert [event for event, _ in notes] == ["came", "came", "told", "heard"]


def test_a_line_that_is_cut_when_the_answer_was_heard_and_before_the_device_knows(tls, monkeypatch):
    notes, relays, hear = [], [], Desk.hear

    def hear_and_cut(desk, client, data):
        hear(desk, client, data)
        if relays:
            relays.pop().cut()

    monkeypatch.setattr(Desk, "hear", hear_and_cut)
    desk, coordinator = desk_of(fedavg(), notes)
    with relayed(tls, desk, 1) as (relay, taken):
        relays.append(relay)
        with desk.open(coordinator.open(0), set()):
            until(lambda: "the server is back" in taken.said[1])
        desk.end("enough")
    assert heard(notes) == [1]
    assert taken.ends[1].reason == "enough"


def test_a_line_that_is_cut_before_the_answer_was_heard(tls, monkeypatch):
    notes, relays, hear = [], [], Desk.hear

    def cut_and_lose(desk, client, data):
        if relays:
            relays.pop().cut()
            raise OSError("nothing of it came")
        hear(desk, client, data)

    monkeypatch.setattr(Desk, "hear", cut_and_lose)
    desk, coordinator = desk_of(fedavg(), notes)
    with relayed(tls, desk, 1) as (relay, _):
        relays.append(relay)
        with desk.open(coordinator.open(0), set()) as gathered:
            until(lambda: gathered.answers)
            assert gathered.told == {1}
        desk.end("enough")
    assert heard(notes) == [1]
    assert len([event for event, _ in notes if event == "told"]) == 1


def test_a_server_that_is_started_anew_on_the_same_port(tls):
    desk, coordinator = desk_of(fedavg())
    with contextlib.ExitStack() as first:
        port = first.enter_context(tls.listening(desk)).port
        with staying({2: tls.link(port, 2)}, devices(fedavg(), [2])) as taken:
            until(lambda: desk.present)
            first.close()
            until(lambda: taken.said[2])
            another, coordinator = desk_of(fedavg())
            with tls.listening(another, f"127.0.0.1:{port}"):
                with another.open(coordinator.open(0), set()) as gathered:
                    until(lambda: gathered.answers)
                another.end("enough")
                until(lambda: taken.ends)
    assert taken.ends[2].reason == "enough"
    assert taken.said[2][-1] == "the server is back"

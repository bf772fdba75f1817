"""Devices that wait for news at a server over TLS, and how they are let go."""

import contextlib
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hush.network.desk import Desk
from hush.network.guard import Refused
from hush.network.link import Lost
from hush.network.messages import read_end, read_told, write_hello

sys.path.insert(0, str(Path(__file__).parent))
from network_helpers import HANGS, desk_of, fedavg, until

pytestmark = pytest.mark.usefixtures("no_threads_left")


class TestWaiting:
    def test_is_for_so_long_and_can_go_on(self, tls):
        desk, coordinator = desk_of(fedavg())
        with tls.listening(desk, poll_seconds=0.05) as exchange, contextlib.ExitStack() as stack:
            link = stack.enter_context(contextlib.closing(tls.link(exchange.port, 0)))
            assert [link.ask(HANGS) for _ in range(3)] == [None] * 3
            with desk.open(coordinator.open(0), set()):
                assert read_told(link.ask(HANGS)).number == 0

    def test_one_call_of_the_server_may_be_waited_for_in_slices(self, tls):
        desk, coordinator = desk_of(fedavg())
        with tls.lines(desk) as line:
            link = line(0)
            assert [link.ask(0.01) for _ in range(5)] == [None] * 5
            until(lambda: desk.present)
            first = link._waiting
            assert link.ask(0.01) is None
            assert link._waiting is first
            with desk.open(coordinator.open(0), set()):
                assert read_told(link.ask(HANGS)).number == 0

    def test_who_calls_anew_takes_the_place_of_the_old_call(self, tls):
        desk, coordinator = desk_of(fedavg())
        with tls.lines(desk, poll_seconds=45) as line, ThreadPoolExecutor(2) as pool:
            older = pool.submit(line(0).ask, HANGS)
            until(lambda: desk.present)
            newer = pool.submit(line(0).ask, HANGS)
            assert older.result(40) is None  # sooner than the server would let it go
            with desk.open(coordinator.open(0), set()):
                assert read_told(newer.result(HANGS)).number == 0

    def test_one_device_cannot_keep_all_threads_busy(self, tls, monkeypatch):
        begun, go_on = threading.Event(), threading.Event()
        monkeypatch.setattr(Desk, "hear", lambda desk, client, data: (begun.set(), go_on.wait(HANGS)))
        desk, _ = desk_of(fedavg())
        with tls.lines(desk) as line, ThreadPoolExecutor(1) as pool:
            first = pool.submit(line(0).answer, b"one")
            assert begun.wait(HANGS)
            with pytest.raises(Refused, match="another answer of client 0 is being read"):
                line(0).answer(b"two")
            go_on.set()
            first.result(HANGS)
            line(0).answer(b"three")

    def test_a_server_that_closes_lets_all_go_who_wait(self, tls):
        desk, _ = desk_of(fedavg())
        with ThreadPoolExecutor(1) as pool:
            with tls.listening(desk) as exchange:
                link = tls.link(exchange.port, 0)
                waiting = pool.submit(link.ask, HANGS)
                until(lambda: desk.present)
            assert waiting.result(HANGS) is None
            with pytest.raises(Lost):
                link.ask(HANGS)

    def test_a_device_that_is_busy_at_the_end_still_learns_of_it(self, tls):
        desk, _ = desk_of(fedavg())
        with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as server:
            exchange = server.enter_context(tls.listening(desk))
            with contextlib.closing(tls.link(exchange.port, 0)) as link:
                link.hello(write_hello())
                desk.end("enough")
                closing = pool.submit(server.close)
                assert read_end(link.ask(HANGS)).reason == "enough"
                closing.result(HANGS)

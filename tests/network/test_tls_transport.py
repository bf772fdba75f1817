"""Devices over TLS: who is let in, who is let go, what is too long, and what a port that is open to all must bear."""

import contextlib
import logging
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from hush.network.guard import Refused
from hush.network.link import Barred, Lost
from hush.network.messages import read_told, write_hello
from hush.network.tls_link import MANY_TIMES, TlsLink

sys.path.insert(0, str(Path(__file__).parent))
from network_helpers import CLIENTS, HANGS, OverTls, desk_of, devices, fedavg, hello, until

pytestmark = pytest.mark.usefixtures("no_threads_left")


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """Another authority, with a server and devices of the same names."""
    return OverTls(tmp_path_factory.mktemp("tls") / "others")


class TestWhoIsLetIn:
    def test_a_device_of_ours_by_its_number_and_name(self, tls):
        notes = []
        desk, _ = desk_of(fedavg(), notes)
        with tls.listening(desk) as exchange:
            assert hello(exchange.port, tls.credential(2))
        assert set(desk.visitors) == {2}
        [(event, facts)] = notes
        assert (event, facts["client"], facts["name"]) == ("came", 2, "device-2")

    @pytest.mark.parametrize("secured", [True, False])
    def test_nobody_without_a_certificate(self, tls, secured):
        desk, _ = desk_of(fedavg())
        with tls.listening(desk) as exchange, contextlib.ExitStack() as stack:
            place, trusting = f"127.0.0.1:{exchange.port}", grpc.ssl_channel_credentials(tls.server.authority)
            channel = grpc.secure_channel(place, trusting) if secured else grpc.insecure_channel(place)
            stack.enter_context(channel)
            with pytest.raises(grpc.RpcError) as refusal:
                channel.unary_unary("/hush/Hello")(write_hello(), timeout=HANGS)
            assert refusal.value.code() is grpc.StatusCode.UNAVAILABLE
        assert not desk.visitors

    def test_nobody_of_another_authority_and_a_hint_is_given_in_the_end(self, tls, others):
        desk, _ = desk_of(fedavg())
        forged, words = others.credential(0)._replace(authority=tls.server.authority), []
        with tls.listening(desk) as exchange:
            link = TlsLink(f"127.0.0.1:{exchange.port}", forged)
            for _ in range(MANY_TIMES):
                with pytest.raises(Lost) as lost:
                    link.hello(write_hello())
                words.append(str(lost.value))
        assert words[:-1] == ["it hangs up"] * (MANY_TIMES - 1)
        assert words[-1] == "it hangs up at once: is this device's certificate of its authority?"
        assert not desk.visitors

    def test_nobody_whose_certificate_has_expired(self, tmp_path, clock):
        clock(-400)
        old = OverTls(tmp_path / "old", [0], days=700)
        expired = old.credential(0)
        clock(0)
        desk, _ = desk_of(fedavg())
        with old.listening(desk) as exchange, pytest.raises(Barred, match="this device's certificate expired on"):
            hello(exchange.port, expired)
        assert not desk.visitors

    def test_no_client_that_there_is_not_and_the_others_go_on(self, tmp_path):
        desk, coordinator = desk_of(fedavg())
        more = OverTls(tmp_path / "more", [0, CLIENTS])
        with more.listening(desk) as exchange:
            outside, inside = (more.link(exchange.port, client) for client in (CLIENTS, 0))
            with contextlib.closing(outside), contextlib.closing(inside):
                for call in (lambda: outside.hello(write_hello()), lambda: outside.ask(HANGS)):
                    with pytest.raises(Refused, match="the credential is that of client 4"):
                        call()
                with desk.open(coordinator.open(0), set()):
                    assert read_told(inside.ask(HANGS)).number == 0

    def test_no_server_of_another_authority(self, tls, others):
        desk, _ = desk_of(fedavg())
        with (
            others.listening(desk) as exchange,
            pytest.raises(Barred, match="is not of the authority that this device trusts"),
        ):
            hello(exchange.port, tls.credential(0))

    def test_no_server_under_another_name(self, tmp_path):
        desk, _ = desk_of(fedavg())
        elsewhere = OverTls(tmp_path / "elsewhere", [0], ["fl.example.org"])
        with elsewhere.listening(desk) as exchange, pytest.raises(Barred, match="not for the name"):
            hello(exchange.port, elsewhere.credential(0))

    def test_no_server_that_speaks_no_tls(self, tls):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]

            def greet():
                with contextlib.closing(listening.accept()[0]) as connection:
                    connection.recv(1000)
                    connection.sendall(b"220 mail.example.org ready\r\n")
                    connection.recv(1000)

            with ThreadPoolExecutor(1) as pool:
                pool.submit(greet)
                with pytest.raises(Barred, match="does not speak TLS"):
                    hello(port, tls.credential(0))


class TestWhoIsRevoked:
    @pytest.fixture
    def own(self, tmp_path):
        return OverTls(tmp_path / "own")

    def test_a_device_that_waits_is_told_nothing_any_more(self, own):
        notes = []
        desk, coordinator = desk_of(fedavg(), notes)
        with own.lines(desk) as line, ThreadPoolExecutor(CLIENTS) as pool:
            waiting = {client: pool.submit(line(client).ask, HANGS) for client in range(CLIENTS)}
            until(lambda: desk.present == CLIENTS)
            own.authority.revoke("device-2")
            with desk.open(coordinator.open(0), set()) as gathered:
                with pytest.raises(Barred, match="the certificate of device-2 was revoked"):
                    waiting.pop(2).result(HANGS)
                assert all(read_told(each.result(HANGS)).number == 0 for each in waiting.values())
                assert gathered.told == {0, 1, 3}
        # One entry in the journal for all that waited.
        assert [sorted(facts["clients"]) for event, facts in notes if event == "told"] == [[0, 1, 3]]

    def test_every_call_over_an_open_line_is_refused(self, own):
        desk, coordinator = desk_of(fedavg())
        [device] = devices(fedavg(), [2]).values()
        with own.lines(desk) as line, desk.open(coordinator.open(0), set()) as gathered:
            lines = [line(2) for _ in range(3)]
            answer = device.hear(lines[0].ask(HANGS))
            for each in lines:
                each.hello(write_hello())
            own.authority.revoke("device-2")
            calls = [(lambda each: each.hello(write_hello())), (lambda each: each.ask(HANGS))]
            for call, each in zip([*calls, lambda each: each.answer(answer)], lines, strict=True):
                with pytest.raises(Barred, match="the certificate of device-2 was revoked"):
                    call(each)
            assert not gathered.answers


class TestTheServersFaults:
    def test_are_logged_and_not_told(self, tls, caplog):
        class Broken:
            def identify(self, pem):
                raise OSError("/secret/place cannot be read")

        desk, _ = desk_of(fedavg())
        with tls.listening(desk, identities=Broken()) as exchange, caplog.at_level(logging.ERROR):
            with pytest.raises(Lost) as lost:
                hello(exchange.port, tls.credential(0))
            assert str(lost.value) == "the server has a fault of its own; its log says which"
        assert "/secret/place cannot be read" in caplog.text

    def test_a_journal_that_cannot_be_written_tells_nobody_and_is_tried_again(self, tls, caplog):
        full = [True]
        desk, coordinator = desk_of(fedavg())

        def note(event, **facts):
            if full and event == "told":
                raise OSError("no space left on device")

        desk._note = note
        with tls.lines(desk) as line, desk.open(coordinator.open(0), set()) as gathered:
            with pytest.raises(Lost, match="a fault of its own"):
                line(0).ask(HANGS)
            assert not gathered.told
            full.clear()
            assert read_told(line(0).ask(HANGS)).number == 0
        assert "no space left on device" in caplog.text

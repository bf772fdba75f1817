"""Devices over TLS: who is let in, who is let go, what is too long, and what a port that is open to all must bear."""

import contextlib
import logging
import socket
import ssl
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from hush.network.desk import Desk
from hush.network.guard import Refused
from hush.network.link import Barred, Lost
from hush.network.messages import read_end, read_told, write_hello
from hush.network.tls_link import MANY_TIMES, TlsLink

sys.path.insert(0, str(Path(__file__).parent))
from network_helpers import CLIENTS, HANGS, OverTls, desk_of, devices, fedavg, until


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    return OverTls(tmp_path_factory.mktemp("tls") / "enrolment")


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """Another authority, with a server and devices of the same names."""
    return OverTls(tmp_path_factory.mktemp("tls") / "others")


@pytest.fixture(autouse=True)
def nothing_left():
    """Threads of ours end with what they were for."""
    yield
    until(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("hush-")])


def hello(port, credential):
    with contextlib.closing(TlsLink(f"127.0.0.1:{port}", credential)) as link:
        return link.hello(write_hello())


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


class TestAnOpenPort:
    def test_in_use_is_refused_and_nothing_is_started(self, tls):
        desk, _ = desk_of(fedavg())
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            with pytest.raises(OSError, match=f"cannot listen at {address}: Address already in use"):
                tls.listening(desk, address).__enter__()
        with tls.listening(desk) as exchange:
            address = f"127.0.0.1:{exchange.port}"
            with pytest.raises(OSError, match=f"cannot listen at {address}: Address already in use"):
                tls.listening(desk, address).__enter__()
            assert hello(exchange.port, tls.credential(0))

    @pytest.mark.parametrize("address", ["8443", "host:", ":8443", "host:70000", "https://host:1", "a b:1", "::1:5"])
    def test_an_address_that_is_none_is_refused(self, tls, address):
        desk, _ = desk_of(fedavg())
        with pytest.raises(ValueError, match="an address is HOST:PORT"):
            tls.listening(desk, address).__enter__()
        with pytest.raises(ValueError, match="an address is HOST:PORT"):
            TlsLink(address, tls.credential(0))

    def test_key_and_certificate_must_fit(self, tls, others):
        desk, _ = desk_of(fedavg())
        mixed = tls.server._replace(key=others.server.key)
        with pytest.raises(ValueError, match="the server's key and certificate do not fit together"):
            tls.listening(desk, credential=mixed).__enter__()

    @pytest.mark.parametrize("seconds", [0, -1, 46, float("nan")])
    def test_a_wait_that_makes_devices_look_gone_is_refused(self, tls, seconds):
        desk, _ = desk_of(fedavg())
        with pytest.raises(ValueError, match="poll_seconds must be"):
            tls.listening(desk, poll_seconds=seconds).__enter__()

    def test_a_message_that_is_too_long_is_refused(self, tls):
        desk, _ = desk_of(fedavg())
        with tls.lines(desk) as line:
            with pytest.raises(Refused, match="larger than max"):
                line(0).answer(b"x" * (desk.longest_answer + 100))
            with pytest.raises(Refused, match="no round is open"):
                line(0).answer(b"x" * desk.longest_answer)

    def test_four_gigabytes_are_refused_when_they_are_announced(self, tls):
        desk, _ = desk_of(fedavg())
        with tls.listening(desk) as exchange:
            with shaken(tls, exchange.port) as line:
                line.sendall(announced("/hush/Answer", 0xFFFFFFFF))
                received = b""
                while b"larger than max" not in received:  # which is 100 bytes later, not four gigabytes
                    received += (more := line.recv(4096))
                    assert more, "the server hung up without a word"
            assert hello(exchange.port, tls.credential(0))

    def test_fifty_who_say_nothing_keep_nobody_from_working(self, tls):
        desk, coordinator = desk_of(fedavg())
        [device] = devices(fedavg(), [0]).values()
        with tls.listening(desk) as exchange, contextlib.ExitStack() as silent:
            for _ in range(50):
                silent.enter_context(socket.create_connection(("127.0.0.1", exchange.port), HANGS))
            with (
                contextlib.closing(tls.link(exchange.port, 0)) as link,
                desk.open(coordinator.open(0), set()) as gathered,
            ):
                link.hello(write_hello(device.agreement))
                link.answer(device.hear(link.ask(HANGS)))
                assert set(gathered.answers) == {0}


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


@contextlib.contextmanager
def shaken(tls, port):
    """A line after the handshake of a device, with nothing said on it."""
    context = ssl.create_default_context(cadata=tls.server.authority.decode())
    context.load_cert_chain(tls.folder / "devices" / "device-0.pem")
    context.set_alpn_protocols(["h2"])
    plain = socket.create_connection(("127.0.0.1", port), HANGS)
    with contextlib.closing(plain), context.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
        yield secure


def announced(path, length):
    """HTTP/2 by hand (RFC 9113, 7541): a call that announces a message of so many bytes and sends a hundred of them."""

    def frame(kind, flags, stream, payload):
        return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload

    def text(value):
        return bytes([len(value)]) + value.encode()

    # POST and https by their places in the static table; then :path, :authority, content-type (31 = 15 + 16) and te.
    headers = b"\x83\x87\x04" + text(path) + b"\x01" + text("127.0.0.1")
    headers += b"\x0f\x10" + text("application/grpc") + b"\x00" + text("te") + text("trailers")
    message = b"\x00" + length.to_bytes(4, "big") + bytes(100)
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
    return preface + frame(1, 4, 1, headers) + frame(0, 0, 1, message)

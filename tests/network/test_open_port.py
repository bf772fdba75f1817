"""A port that is open to all: what it refuses, and what it must bear."""

import contextlib
import socket
import ssl
import sys
from pathlib import Path

import pytest

from hush.network import tls_server
from hush.network.guard import Refused
from hush.network.messages import write_hello
from hush.network.tls_link import TlsLink

sys.path.insert(0, str(Path(__file__).parent))
from network_helpers import HANGS, OverTls, desk_of, devices, fedavg, hello

pytestmark = pytest.mark.usefixtures("no_threads_left")


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """Another authority, with a server and devices of the same names."""
    return OverTls(tmp_path_factory.mktemp("tls") / "others")


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

    def test_what_a_device_is_told_may_be_too_long_for_it(self, tls):
        desk, coordinator = desk_of(fedavg())
        with tls.listening(desk) as exchange, desk.open(coordinator.open(0), set()):
            link = TlsLink(f"127.0.0.1:{exchange.port}", tls.credential(0), longest_told=10)
            with contextlib.closing(link), pytest.raises(Refused, match="larger than max"):
                link.ask(HANGS)

    def test_one_who_says_nothing_is_not_waited_for(self, tls, monkeypatch):
        monkeypatch.setattr(tls_server, "HANDSHAKE_SECONDS", 1)
        desk, _ = desk_of(fedavg())
        with tls.listening(desk) as exchange, contextlib.ExitStack() as stack:
            silent = stack.enter_context(socket.create_connection(("127.0.0.1", exchange.port), HANGS))
            assert silent.recv(1) == b""  # the server has hung up

    def test_a_proxy_of_the_environment_is_not_told_who_speaks_to_whom(self, tls, monkeypatch):
        for name in ("grpc_proxy", "https_proxy", "http_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:1")
        desk, _ = desk_of(fedavg())
        with tls.listening(desk) as exchange:
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

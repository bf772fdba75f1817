"""Devices over gRPC with mutual TLS, at the server: three calls, bytes in and bytes out, no code and no protobuf.

    /hush/Hello    hello in, welcome out
    /hush/Next     nothing in; out what there is to tell, as soon as there is something, or nothing after a while
    /hush/Answer   an answer in

Who calls is known from the certificate that TLS has verified, and from nothing else.
"""

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from typing import Any, NamedTuple

from hush.core.check import positive
from hush.core.floats import WireError
from hush.network.coordinator import Opened
from hush.network.desk import PRESENT_SECONDS, Desk, Gathered
from hush.network.grpc_lines import ALIVE, ANSWER, FRAMING, HELLO, MOST_WORDS, NEXT, SERVICE, Shown, grpc, split_address
from hush.network.guard import Refused
from hush.network.identities import Stranger
from hush.network.waiting import Identifies, WaitingRoom

HANDSHAKE_SECONDS = 10  # one who connects and says nothing is not waited for
STREAMS = 8  # calls at a time over one connection; a device makes one
FAREWELL_SECONDS, GRACE_SECONDS = 2.0, 1.0  # to tell the end, and to send the last bytes

CODES = {
    Stranger: grpc.StatusCode.PERMISSION_DENIED,
    Refused: grpc.StatusCode.FAILED_PRECONDITION,
    WireError: grpc.StatusCode.INVALID_ARGUMENT,
}

logger = logging.getLogger(__name__)


class Listening:
    """The desk, with devices coming to it over the network."""

    def __init__(self, desk: Desk, port: int) -> None:
        self._desk, self.port = desk, port

    def gather(
        self, opened: Opened, told: set[int], deadline: float, wanted: int, stopped: Callable[[], bool]
    ) -> Gathered | None:
        """Everything that came of one phase; None if it was stopped before its end."""
        return self._desk.gather(opened, told, deadline, wanted, stopped)

    def wait_for(self, devices: int, stopped: Callable[[], bool]) -> bool:
        """Wait until so many devices are there; False if stopped."""
        return self._desk.wait_for(devices, stopped)


class _Started(NamedTuple):
    port: int
    leave: Callable[[], object]  # may be called from any thread


@contextlib.contextmanager
def listen(
    desk: Desk, *, address: str, credential: Shown, identities: Identifies, poll_seconds: float = 30.0
) -> Iterator[Listening]:
    """Let devices come to a desk, from a thread of its own; port 0 is any that is free.

    credential     the server's own, and the authority of its devices
    identities     who knows a device by its certificate
    poll_seconds   so long a device waits for news before it asks anew
    """
    split_address(address)
    positive("poll_seconds", poll_seconds)
    if poll_seconds > PRESENT_SECONDS / 2:
        raise ValueError(
            f"poll_seconds must be at most {PRESENT_SECONDS / 2:g}, for one who has not asked in {PRESENT_SECONDS:g} "
            f"seconds counts as gone; found {poll_seconds:g}"
        )
    started: Future[_Started] = Future()
    main = _serve(desk, address, credential, identities, poll_seconds, started)
    thread = threading.Thread(target=asyncio.run, args=(main,), name="hush-listening", daemon=True)
    thread.start()
    try:
        yield Listening(desk, started.result().port)
    finally:
        started.add_done_callback(_leave)  # at once; or, if this was interrupted, when it has started
        thread.join()


def _leave(started: "Future[_Started]") -> None:
    if started.exception() is None:
        started.result().leave()


async def _serve(
    desk: Desk,
    address: str,
    credential: Shown,
    identities: Identifies,
    poll_seconds: float,
    started: "Future[_Started]",
) -> None:
    """The life of a server, from its port to the last word."""
    loop, leaving = asyncio.get_running_loop(), asyncio.Event()
    room = WaitingRoom(desk, identities)
    try:
        server = grpc.aio.server(options=_options(desk.longest_answer))
        server.add_generic_rpc_handlers((_handlers(room, poll_seconds),))
        port = _bound(server, address, credential)
        await server.start()
    except BaseException as error:
        room.close()
        started.set_exception(error)
        return
    unwatch = desk.watch(lambda: loop.call_soon_threadsafe(room.all_due))
    attending = asyncio.create_task(room.attend())
    started.set_result(_Started(port, lambda: loop.call_soon_threadsafe(leaving.set)))
    await leaving.wait()
    await room.farewell(FAREWELL_SECONDS)
    unwatch()
    room.release()
    await server.stop(GRACE_SECONDS)
    attending.cancel()
    room.close()


def _options(longest: int) -> list[tuple[str, int]]:
    """A message that is too long is refused when its length is announced, before any of it is kept."""
    return [
        *ALIVE,
        ("grpc.max_receive_message_length", longest + FRAMING),
        ("grpc.max_concurrent_streams", STREAMS),
        ("grpc.server_handshake_timeout_ms", 1000 * HANDSHAKE_SECONDS),
        ("grpc.so_reuseport", 0),  # two servers must not share a port, each with half of the devices
    ]


def _bound(server: Any, address: str, credential: Shown) -> int:
    """Take the port, or say why it cannot be had."""
    pairs = [(credential.key, credential.certificate)]
    shown = grpc.ssl_server_credentials(pairs, credential.authority, require_client_auth=True)
    try:
        port = server.add_secure_port(address, shown)
    except RuntimeError:
        port = 0
    if port:
        return int(port)
    host, number = split_address(address)
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, number, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except OSError as error:
        raise OSError(f"cannot listen at {address}: {error.strerror or error}") from error
    raise ValueError(f"cannot listen at {address}: the server's key and certificate do not fit together")


def _handlers(room: WaitingRoom, poll_seconds: float) -> Any:
    """The three calls."""

    async def hello(request: bytes, certificate: bytes, context: Any) -> bytes:
        return await room.hello(certificate, request)

    async def news(request: bytes, certificate: bytes, context: Any) -> bytes:
        left = context.time_remaining()  # one that would give up sooner is answered sooner
        return await room.next(certificate, poll_seconds if left is None else min(poll_seconds, left / 2))

    async def answer(request: bytes, certificate: bytes, context: Any) -> bytes:
        await room.answer(certificate, request)
        return b""

    methods = {HELLO: hello, NEXT: news, ANSWER: answer}
    made = {name: grpc.unary_unary_rpc_method_handler(_worded(method)) for name, method in methods.items()}
    return grpc.method_handlers_generic_handler(SERVICE, made)


def _worded(
    method: Callable[[bytes, bytes, Any], Awaitable[bytes]],
) -> Callable[[bytes, Any], Awaitable[bytes]]:
    """A call whose refusals reach the device in words; what else goes wrong is the server's own business."""

    async def call(request: bytes, context: Any) -> bytes:
        try:
            return await method(request, _certificate(context), context)
        except tuple(CODES) as reason:
            code, words = next(code for kind, code in CODES.items() if isinstance(reason, kind)), str(reason)
            logger.info("refused %s: %s", context.peer(), words)
        except Exception:
            code, words = grpc.StatusCode.INTERNAL, "the server has a fault of its own; its log says which"
            logger.exception("a call of %s failed", context.peer())
        await context.abort(code, words[:MOST_WORDS])
        raise AssertionError("abort raises")

    return call


def _certificate(context: Any) -> bytes:
    found = context.auth_context().get("x509_pem_cert", ())
    if len(found) != 1:
        raise Stranger("no certificate was shown")
    return bytes(found[0])

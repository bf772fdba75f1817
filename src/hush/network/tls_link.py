"""A device's line to its server over gRPC with mutual TLS."""

import re
from typing import Any

from cryptography import x509

from hush.core.check import integer, positive
from hush.network.certificates import untimely
from hush.network.grpc_lines import ALIVE, ANSWER, FRAMING, HELLO, NEXT, SERVICE, Shown, grpc, split_address
from hush.network.guard import Refused
from hush.network.link import Barred, Lost
from hush.network.messages import plain_words

SLOWEST = 256  # bytes a second of a line that is still waited for
LONGEST_TOLD = 64 << 20  # bytes
MANY_TIMES = 4  # so often in a row a server that hangs up may just be starting

BARRED = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)
REFUSED = (
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
)
# What gRPC says of a handshake that this device broke off, and what it means.
HANDSHAKES = {
    "certificate has expired": "the server's certificate has expired",
    "CERTIFICATE_VERIFY_FAILED": "the server's certificate is not of the authority that this device trusts",
    "Hostname Verification Check failed": "the server's certificate is not for the name by which it was called",
    "Tls handshake failed": "the server does not speak TLS as this device does",
}
# What it says of a line that was cut after a handshake in which all was well for this side.
HUNG_UP = re.compile(r"failed to connect to all addresses(?!.*Handshake read failed).*(Socket closed|Connection reset)")


class TlsLink:
    """One device's line; for one thread.

    server         its address, HOST:PORT; the host must be named in the server's certificate
    credential     what this device shows, and the authority whose server it trusts
    timeout        seconds in which a server must answer, beside the time that its bytes take
    longest_told   a message with more bytes is refused when its length is announced
    """

    def __init__(self, server: str, credential: Shown, timeout: float = 30.0, longest_told: int = LONGEST_TOLD) -> None:
        if split_address(server)[1] == 0:
            raise ValueError(f"a server has a port from 1 to 65535, found {server!r}")
        positive("timeout", timeout)
        integer("longest_told", longest_told)
        self._server, self._credential, self._timeout, self._longest = server, credential, timeout, longest_told
        self._channel: Any = None
        self._waiting: Any = None  # for news, through any number of calls of `ask`
        self._hung_up = 0

    def hello(self, data: bytes) -> bytes:
        """The server's welcome."""
        return self._result(self._begun(HELLO, data, self._timeout + self._longest / SLOWEST))

    def ask(self, seconds: float) -> bytes | None:
        """What the server has to tell, as soon as there is something; None after so long, or before."""
        if self._waiting is None:
            # A server answers when half of the time is over.
            self._waiting = self._begun(NEXT, b"", 2 * self._timeout + self._longest / SLOWEST)
        try:
            data = self._result(self._waiting, seconds)
        except grpc.FutureTimeoutError:
            return None
        except Exception:
            self._waiting = None
            raise
        self._waiting = None
        return data or None

    def answer(self, data: bytes) -> None:
        """Hand in an answer; when this returns the server has it."""
        self._result(self._begun(ANSWER, data, self._timeout + len(data) / SLOWEST))

    def expect(self, longest: int) -> None:
        """From now on no message from the server has more bytes than this: the line is dialled anew."""
        self.close()
        self._longest = longest

    def close(self) -> None:
        """Hang up."""
        self._waiting = None
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _begun(self, name: str, data: bytes, seconds: float) -> Any:
        if self._channel is None:
            self._channel = self._dialled()
        return self._channel.unary_unary(f"/{SERVICE}/{name}").future(data, timeout=seconds)

    def _dialled(self) -> Any:
        own = self._credential
        shown = grpc.ssl_channel_credentials(own.authority, own.key, own.certificate)
        options = [
            *ALIVE,
            ("grpc.max_receive_message_length", self._longest + FRAMING),
            ("grpc.enable_http_proxy", 0),  # a proxy of the environment would be told who speaks to whom
            ("grpc.use_local_subchannel_pool", 1),  # a line that was lost leaves nothing behind
        ]
        return grpc.secure_channel(self._server, shown, options)

    def _result(self, call: Any, seconds: float | None = None) -> bytes:
        """What a call gave; its errors in our words. A line that was lost is dialled anew by the next call."""
        try:
            found = call.result(timeout=seconds)
        except grpc.FutureCancelledError as error:
            raise Lost("the line was closed") from error
        except grpc.RpcError as error:
            found = self._meaning(error.code(), plain_words(error.details() or ""))
            if not isinstance(found, Refused):
                self.close()
            raise found from None
        self._hung_up = 0
        return bytes(found)

    def _meaning(self, code: Any, words: str) -> Exception:
        if code in REFUSED:
            return Refused(words)
        if code in BARRED:
            return Barred(f"the server does not let this device in: {words}")
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return Barred(f"what listens at {self._server} is no server of hush")
        for said, meaning in HANDSHAKES.items():
            if said in words:
                return Barred(f"{meaning} ({self._server})")
        if code is grpc.StatusCode.UNAVAILABLE and HUNG_UP.search(words):
            return self._hanging_up()
        self._hung_up = 0
        return Lost(_in_short(code, words))

    def _hanging_up(self) -> Exception:
        """A server that does not accept a certificate can only hang up: TLS has no word for it that arrives."""
        own = x509.load_pem_x509_certificate(self._credential.certificate)
        if (wrong := untimely(own)) is not None:
            return Barred(f"this device's certificate {wrong}")
        self._hung_up += 1
        if self._hung_up < MANY_TIMES:
            return Lost("it hangs up")
        return Lost("it hangs up at once: is this device's certificate of its authority?")


def _in_short(code: Any, words: str) -> str:
    """Without addresses and numbers that differ from one attempt to the next."""
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return "no answer in time"
    if code is grpc.StatusCode.INTERNAL:
        return words
    for said in ("Connection refused", "Connection reset", "Socket closed", "Domain name not found"):
        if said in words:
            return said.lower()
    return str(code.name).lower().replace("_", " ")

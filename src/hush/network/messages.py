"""What goes between server and device, as bytes: a short header, then numbers and codes as they are counted.

    hello      a device says what it speaks, and which agreement it has pinned
    welcome    the server says which run this is, and what devices agree to
    told       the number of the round, and the vectors that the local rule needs
    answer     a client's packed codes
    declined   a device says why it does not take part
    end        the run is over

Nothing here is code, and no message says whom it is from: that comes from the credential. Every message is refused
whole unless each of its bytes is accounted for. The checksum is against accidents; forgers are the transport's matter.
"""

import hashlib
import struct
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from hush.core.floats import WireError
from hush.version import __version__

PROTOCOL = 1
RUN_BYTES, DIGEST_BYTES = 8, 32
MOST_TEXT = 1 << 24  # bytes of an agreement: the sizes of a million clients fit
NEVER = -1  # the number of a round that there was not

_MAGIC = b"hush"
_FRAME = struct.Struct("<4sBB")
_TOLD = struct.Struct(f"<{RUN_BYTES}s{DIGEST_BYTES}siiBBB")
_ANSWER = struct.Struct(f"<{RUN_BYTES}siBB")
_LENGTH = struct.Struct("<I")
HELLO, WELCOME, TOLD, ANSWER, DECLINED, END = range(1, 7)

Array = np.ndarray[Any, Any]


class Hello(NamedTuple):
    """What a device says first."""

    version: str  # of hush, for the words of a refusal
    agreement: bytes  # the digest it has pinned, or nothing


class Welcome(NamedTuple):
    """What the server answers."""

    run: bytes
    agreement: str  # a TOML document


class Told(NamedTuple):
    """What the server tells one client in one phase of a round."""

    run: bytes
    agreement: bytes
    number: int
    phase: int
    used: int  # the last round of this phase in which the server used an answer of this client
    common: bytes  # a key that all clients of the round share
    vectors: tuple[Array, ...]

    @property
    def digest(self) -> bytes:
        """Of all that the answer depends on."""
        found = hashlib.sha256(self.run + self.agreement + self.common + struct.pack("<iB", self.number, self.phase))
        for vector in self.vectors:
            found.update(vector.tobytes())
        return found.digest()


class Answer(NamedTuple):
    """What one client sends: its codes, packed, in the order of the messages' names."""

    run: bytes
    number: int
    phase: int
    payloads: tuple[bytes, ...]


class Declined(NamedTuple):
    """Why a device does not take part in a round."""

    run: bytes
    number: int
    phase: int
    reason: str


class End(NamedTuple):
    """That the run is over, and for each phase the last round in which an answer of this client was used."""

    used: tuple[int, ...]
    reason: str


def write_hello(agreement: bytes = b"") -> bytes:
    """A device's first message."""
    return framed(HELLO, _text(__version__) + agreement)


def read_hello(data: bytes) -> Hello:
    """The reverse of `write_hello`."""
    body = body_of(data, HELLO)
    version, rest = _read_words(body, 64)
    if len(rest) not in (0, DIGEST_BYTES):
        raise WireError(f"a hello ends with nothing or with a digest of {DIGEST_BYTES} bytes, found {len(rest)}")
    return Hello(version, rest)


def write_welcome(welcome: Welcome) -> bytes:
    """The server's first message."""
    return framed(WELCOME, welcome.run + _text(welcome.agreement))


def read_welcome(data: bytes) -> Welcome:
    """The reverse of `write_welcome`."""
    body = body_of(data, WELCOME)
    text, rest = _read_text(body[RUN_BYTES:], MOST_TEXT)
    _nothing_left(rest)
    return Welcome(body[:RUN_BYTES], text)


def write_told(told: Told) -> bytes:
    """What one client is told."""
    vectors = [np.ascontiguousarray(vector, "<f4") for vector in told.vectors]
    head = _TOLD.pack(told.run, told.agreement, told.number, told.used, told.phase, len(told.common), len(vectors))
    lengths = b"".join(_LENGTH.pack(vector.size) for vector in vectors)
    return framed(TOLD, head + told.common + lengths + b"".join(vector.tobytes() for vector in vectors))


def read_told(data: bytes) -> Told:
    """The reverse of `write_told`; the vectors are flat."""
    body = body_of(data, TOLD)
    run, agreement, number, used, phase, shared, count = _unpacked(_TOLD, body)
    common, place = body[_TOLD.size : _TOLD.size + shared], _TOLD.size + shared
    if len(common) != shared:
        raise WireError("the message is cut short: there is no common key")
    sizes, place = _lengths(body, place, count)
    _nothing_left(body[place + 4 * sum(sizes) :], len(body) - place - 4 * sum(sizes))
    ends = place + 4 * np.cumsum([0, *sizes])
    vectors = tuple(np.frombuffer(body[a:b], "<f4") for a, b in pairwise(ends))
    return Told(run, agreement, number, phase, used, common, vectors)


def write_answer(answer: Answer) -> bytes:
    """What one client sends."""
    head = _ANSWER.pack(answer.run, answer.number, answer.phase, len(answer.payloads))
    lengths = b"".join(_LENGTH.pack(len(payload)) for payload in answer.payloads)
    return framed(ANSWER, head + lengths + b"".join(answer.payloads))


def write_declined(declined: Declined) -> bytes:
    """Why a device does not take part."""
    head = _ANSWER.pack(declined.run, declined.number, declined.phase, 0)
    return framed(DECLINED, head + _text(declined.reason[:1000]))


def read_answer(data: bytes) -> Answer | Declined:
    """The reverse of `write_answer` and of `write_declined`."""
    body = body_of(data, ANSWER, DECLINED)
    run, number, phase, count = _unpacked(_ANSWER, body)
    if data[5] == DECLINED:
        reason, rest = _read_words(body[_ANSWER.size :], 4000)
        _nothing_left(rest)
        return Declined(run, number, phase, reason)
    sizes, place = _lengths(body, _ANSWER.size, count)
    _nothing_left(body[place + sum(sizes) :], len(body) - place - sum(sizes))
    ends = place + np.cumsum([0, *sizes])
    return Answer(run, number, phase, tuple(body[a:b] for a, b in pairwise(ends)))


def write_end(end: End) -> bytes:
    """That the run is over."""
    used = struct.pack(f"<B{len(end.used)}i", len(end.used), *end.used)
    return framed(END, used + _text(end.reason[:1000]))


def read_end(data: bytes) -> End:
    """The reverse of `write_end`."""
    body = body_of(data, END)
    count = body[0] if body else 0
    if len(body) < 1 + 4 * count:
        raise WireError("the message is cut short")
    reason, rest = _read_words(body[1 + 4 * count :], 4000)
    _nothing_left(rest)
    return End(struct.unpack_from(f"<{count}i", body, 1), reason)


def kind_of(data: bytes) -> int:
    """Which message it is; refuses what is none, or of another protocol."""
    if len(data) < _FRAME.size + _LENGTH.size:
        raise WireError(f"no message of hush: {len(data)} bytes")
    magic, protocol, kind = _FRAME.unpack_from(data)
    if magic != _MAGIC:
        raise WireError("no message of hush")
    if protocol != PROTOCOL:
        older = "update hush here" if protocol > PROTOCOL else "update hush there"
        raise WireError(f"messages of protocol {PROTOCOL} are understood here, found {protocol}: {older}")
    return int(kind)


def overhead(payloads: int) -> int:
    """How many bytes an answer with so many payloads has beside them."""
    return _FRAME.size + _ANSWER.size + _LENGTH.size * (payloads + 1)


def longest_told(sizes: Sequence[int]) -> int:
    """How many bytes a told message with vectors of these sizes has at most."""
    return _FRAME.size + _TOLD.size + 255 + _LENGTH.size * (len(sizes) + 1) + 4 * sum(sizes)


def framed(kind: int, body: bytes) -> bytes:
    """A message of a kind, with its checksum."""
    content = _FRAME.pack(_MAGIC, PROTOCOL, kind) + body
    return content + _LENGTH.pack(zlib.crc32(content))


def body_of(data: bytes, *kinds: int) -> bytes:
    """What a message of one of these kinds holds; refuses any other, and what was damaged."""
    kind = kind_of(data)
    if kind not in kinds:
        raise WireError(f"expected a message of kind {kinds}, found {kind}")
    if _LENGTH.unpack(data[-_LENGTH.size :])[0] != zlib.crc32(data[: -_LENGTH.size]):
        raise WireError("the message is damaged: its checksum is another")
    return data[_FRAME.size : -_LENGTH.size]


def _unpacked(layout: struct.Struct, body: bytes) -> tuple[Any, ...]:
    if len(body) < layout.size:
        raise WireError(f"the message is cut short: {len(body)} bytes where its header has {layout.size}")
    return layout.unpack_from(body)


def _lengths(body: bytes, place: int, count: int) -> tuple[list[int], int]:
    end = place + _LENGTH.size * count
    if len(body) < end:
        raise WireError("the message is cut short: not all its lengths are there")
    return [_LENGTH.unpack_from(body, at)[0] for at in range(place, end, _LENGTH.size)], end


def _nothing_left(rest: bytes, difference: int = 0) -> None:
    if rest or difference:
        raise WireError(f"the message is {len(rest) or difference} bytes longer or shorter than its header says")


def _text(text: str) -> bytes:
    content = text.encode()
    return _LENGTH.pack(len(content)) + content


def plain_words(text: str) -> str:
    r"""What somebody else says, without what could move the cursor of whoever reads it.

    >>> plain_words("spent\x1b[2J all")
    'spent·[2J all'
    """
    return "".join(letter if letter.isprintable() else "·" for letter in text)


def _read_words(body: bytes, most: int) -> tuple[str, bytes]:
    text, rest = _read_text(body, most)
    return plain_words(text), rest


def _read_text(body: bytes, most: int) -> tuple[str, bytes]:
    (length,) = _unpacked(_LENGTH, body)
    if length > min(most, len(body) - _LENGTH.size):
        raise WireError(f"a text of {length} bytes, where at most {most} may and {len(body) - _LENGTH.size} do follow")
    end = _LENGTH.size + length
    try:
        return body[_LENGTH.size : end].decode(), body[end:]
    except UnicodeDecodeError as error:
        raise WireError("a text that is not UTF-8") from error

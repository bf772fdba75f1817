"""What travels: every message comes back as it was, and nothing that was altered on its way does."""

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.floats import WireError
from hush.network import messages
from hush.network.messages import Answer, Declined, End, Told, Welcome

RUN = st.binary(min_size=8, max_size=8)
DIGEST = st.binary(min_size=32, max_size=32)
ROUND = st.integers(-1, 2**31 - 1)
FLOATS = st.lists(st.floats(width=32, allow_nan=False), max_size=20)
VECTORS = st.lists(FLOATS.map(lambda found: np.array(found, np.float32)), max_size=4).map(tuple)
TOLD = st.builds(Told, RUN, DIGEST, ROUND, st.integers(0, 255), ROUND, st.binary(max_size=16), VECTORS)
ANSWER = st.builds(Answer, RUN, ROUND, st.integers(0, 255), st.lists(st.binary(max_size=50), max_size=4).map(tuple))
WORDS = st.text(max_size=100).map(messages.plain_words)
DECLINED = st.builds(Declined, RUN, ROUND, st.integers(0, 255), WORDS)
END = st.builds(End, st.lists(ROUND, max_size=3).map(tuple), WORDS)


def same(one, other):
    """Field by field; arrays bit for bit."""
    return all(
        all(a.tobytes() == b.tobytes() for a, b in zip(mine, theirs, strict=True))
        if mine and isinstance(mine, tuple) and isinstance(mine[0], np.ndarray)
        else mine == theirs
        for mine, theirs in zip(one, other, strict=True)
    )


@given(TOLD)
def test_what_is_told_comes_back(told):
    found = messages.read_told(messages.write_told(told))
    assert same(found, told)
    assert found.digest == told.digest


@given(st.one_of(ANSWER, DECLINED))
def test_answers_come_back(answer):
    write = messages.write_answer if isinstance(answer, Answer) else messages.write_declined
    data = write(answer)
    assert messages.read_answer(data) == answer
    if isinstance(answer, Answer):
        assert len(data) == sum(map(len, answer.payloads)) + messages.overhead(len(answer.payloads))


@given(END, st.builds(Welcome, RUN, st.text(max_size=200)), DIGEST)
def test_first_and_last_words_come_back(end, welcome, digest):
    assert messages.read_end(messages.write_end(end)) == end
    assert messages.read_welcome(messages.write_welcome(welcome)) == welcome
    assert messages.read_hello(messages.write_hello(digest)).agreement == digest
    assert messages.read_hello(messages.write_hello()).agreement == b""


@given(st.one_of(TOLD.map(messages.write_told), ANSWER.map(messages.write_answer)), st.data())
def test_what_was_altered_is_refused(data, draw):
    """A checksum of 32 bits finds every change of up to four neighbouring bytes, and every missing end."""
    read = messages.read_told if data[5] == messages.TOLD else messages.read_answer
    place = draw.draw(st.integers(0, len(data) - 1))
    flipped = data[:place] + bytes([data[place] ^ draw.draw(st.integers(1, 255))]) + data[place + 1 :]
    for altered in (flipped, data[:place]):
        with pytest.raises(WireError):
            read(altered)


@given(st.binary(max_size=200), st.sampled_from([messages.TOLD, messages.ANSWER, messages.DECLINED, messages.END]))
def test_rubbish_with_a_right_checksum_is_refused_or_read_but_never_fails_otherwise(body, kind):
    content = struct.pack("<4sBB", b"hush", messages.PROTOCOL, kind) + body
    data = content + struct.pack("<I", zlib.crc32(content))
    for read in (messages.read_told, messages.read_answer, messages.read_end):
        try:
            read(data)
        except WireError:
            continue


def test_lengths_beyond_the_message_are_refused_before_anything_is_allocated():
    told = messages.write_told(Told(b"r" * 8, b"a" * 32, 0, 0, -1, b"", (np.zeros(2, np.float32),)))
    content = bytearray(told[:-4])
    place = len(content) - 8 - 4  # of the one length
    content[place : place + 4] = struct.pack("<I", 2**31)
    with pytest.raises(WireError, match="longer or shorter"):
        messages.read_told(bytes(content) + struct.pack("<I", zlib.crc32(bytes(content))))


def test_another_protocol_is_named():
    data = bytearray(messages.write_hello())
    data[4] = messages.PROTOCOL + 1
    with pytest.raises(WireError, match=r"protocol 1 are understood here, found 2: update hush here"):
        messages.read_hello(bytes(data))
    data[4] = 0
    with pytest.raises(WireError, match="update hush there"):
        messages.read_hello(bytes(data))


def test_words_of_others_move_no_cursor():
    """Neither a device's reason on the operator's terminal, nor the server's on an owner's."""
    said = "spent\x1b[2J\x07\r all"
    assert messages.read_answer(messages.write_declined(Declined(b"r" * 8, 0, 0, said))).reason == "spent·[2J·· all"
    assert messages.read_end(messages.write_end(End((), said))).reason == "spent·[2J·· all"

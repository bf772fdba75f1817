"""Messages as bytes: written and read again; refused whole where one byte is not accounted for."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from summing import Play, credential, framed, terms

from hush.core.floats import WireError
from hush.network.secure_sum import framing, messages
from hush.network.secure_sum.messages import Dealt, Keys, Signed

TERMS = terms(5, bits=12, length=5)
KEYS = Keys(5, b"a" * 32, b"b" * 32, b"c" * 32, b"certificate", b"s" * 64)
DEALT = Dealt(b"d" * messages.SEALED_BYTES, b"e" * 32, b"f" * 32)
SHARE = bytes(range(32)) + b"\0"
WRITTEN = {
    "keys": (messages.write_keys(TERMS, KEYS), messages.read_keys, KEYS),
    "key_ring": (messages.write_key_ring(TERMS, {5: KEYS}), messages.read_key_ring, {5: KEYS}),
    "shares": (
        messages.write_shares(TERMS, b"k" * 32, {3: DEALT, 7: DEALT}),
        messages.read_shares,
        (b"k" * 32, {3: DEALT, 7: DEALT}),
    ),
    "dealt": (messages.write_dealt(TERMS, {3, 11}, {11: DEALT}), messages.read_dealt, ({3, 11}, {11: DEALT})),
    "masked": (messages.write_masked(TERMS, b"s" * 64, b"12345678"), messages.read_masked, (b"s" * 64, b"12345678")),
    "survivors": (
        messages.write_survivors(TERMS, {3, 5}, {5: b"s" * 64}),
        messages.read_survivors,
        ({3, 5}, {5: b"s" * 64}),
    ),
    "agreed": (messages.write_agreed(TERMS, b"s" * 64), messages.read_agreed, b"s" * 64),
    "signed": (
        messages.write_signed(TERMS, {9: Signed(b"s" * 64, b"x"), 3: Signed(b"t" * 64)}),
        messages.read_signed,
        {3: Signed(b"t" * 64), 9: Signed(b"s" * 64, b"x")},
    ),
    "revealed": (messages.write_revealed(TERMS, {3: SHARE, 5: SHARE}), messages.read_revealed, {3: SHARE, 5: SHARE}),
}
by_name = pytest.mark.parametrize("name", list(WRITTEN))


@by_name
def test_what_is_written_is_read_again(name):
    data, read, expected = WRITTEN[name]
    assert read(TERMS, data) == expected


@by_name
def test_any_damage_is_seen(name):
    data, read, _ = WRITTEN[name]
    for place in range(len(data)):
        with pytest.raises(WireError):
            read(TERMS, data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :])


@by_name
def test_cut_and_longer_messages(name):
    """Even under a right checksum."""
    data, read, _ = WRITTEN[name]
    for size in range(len(data)):
        with pytest.raises(WireError):
            read(TERMS, framed(data[:size]))
    with pytest.raises(WireError, match="1 bytes longer than its content"):
        read(TERMS, framed(data[:-4] + b"\0" + data[-4:]))


@by_name
def test_of_another_sum_or_kind(name):
    data, read, _ = WRITTEN[name]
    with pytest.raises(WireError, match="a message of another sum"):
        read(terms(5, context=b"round 8", bits=12, length=5), data)
    for other in WRITTEN.keys() - {name}:
        with pytest.raises(WireError, match=f"expected a message {name.replace('_', ' ')!r}, found"):
            read(TERMS, WRITTEN[other][0])


@by_name
def test_of_another_version(name):
    data, read, _ = WRITTEN[name]
    for place in (0, 4):
        with pytest.raises(WireError, match="no message of a secure sum of version 1"):
            read(TERMS, framed(data[:place] + bytes([data[place] + 1]) + data[place + 1 :]))


@given(content=st.binary(max_size=300))
def test_anything_else(content):
    for data, read, _ in WRITTEN.values():
        with pytest.raises(WireError):
            read(TERMS, content)
        try:
            read(TERMS, framed(data[:38] + content + b"\0\0\0\0"))
        except WireError:
            continue


def entries(*clients):
    return b"".join(struct.pack("<I", client) + SHARE for client in clients)


@pytest.mark.parametrize(
    ("clients", "said"),
    [
        ((5, 3), "in the order of clients, found 3 after 5"),
        ((3, 3), "in the order of clients, found 3 after 3"),
        ((4,), "client 4 is no member of this sum"),
        ((3, 2**32 - 1), "client 4294967295 is no member"),
    ],
)
def test_entries_are_of_members_in_order(clients, said):
    head = WRITTEN["revealed"][0][:38]
    data = framed(head + struct.pack("<I", len(clients)) + entries(*clients) + b"\0\0\0\0")
    with pytest.raises(WireError, match=said):
        messages.read_revealed(TERMS, data)


def test_more_entries_than_there_are_bytes():
    head = WRITTEN["revealed"][0][:38]
    with pytest.raises(WireError, match="the message is cut short"):
        messages.read_revealed(TERMS, framed(head + struct.pack("<I", 2**32 - 1) + entries(3) + b"\0\0\0\0"))


def test_a_list_has_a_bit_for_each_of_the_cohort_and_no_more():
    data = bytearray(messages.write_survivors(TERMS, {3, 11}, {}))
    assert data[38] == 0b10001000
    data[38] |= 1
    with pytest.raises(WireError, match="more of them than the cohort"):
        messages.read_survivors(TERMS, framed(bytes(data)))


def test_a_share_is_a_number_of_the_field():
    data = messages.write_revealed(TERMS, {3: b"\xff" * 33})
    with pytest.raises(WireError, match="a share is a number below"):
        messages.read_revealed(TERMS, data)


def test_a_certificate_has_not_any_length():
    long = messages.write_keys(TERMS, KEYS._replace(certificate=bytes(2049)))
    with pytest.raises(WireError, match="a certificate has at most 2048 bytes, found 2049"):
        messages.read_keys(TERMS, long)


@pytest.mark.parametrize("chosen", [4, 3])
@pytest.mark.parametrize("length", [1, 5000])
def test_none_is_longer_than_the_longest(length, chosen):
    """Whatever a transport lets through, with certificates as long as they may be."""
    some = terms(5, threshold=4, chosen=chosen, needed=4, length=length)
    play, answers, told = Play(some), [0], [0]
    more = framing.MOST_CERTIFICATE - max(len(credential(client).certificate) for client in some.clients)
    while play.server.step < 5:
        given, heard = play.exchange()
        for client, data in heard.items():
            play.server.accept(client, data)
        answers.append(max(map(len, heard.values())) + more * (play.server.step == 0))
        told.append(max(map(len, given.values())) + more * 4 * (play.server.step == 1))
        play.server.advance()
    assert max(answers) <= messages.longest_answer(some) <= max(answers) + 10
    assert max(told) <= messages.longest_told(some)


def test_sizes():
    """What a member sends beside its vector, with 5 members: exact, as others plan with it."""
    play = Play(TERMS)
    sizes = []
    while play.server.step < 5:
        answers = {client: play.answer(client) for client in play.there()}
        for client, data in answers.items():
            play.server.accept(client, data)
        sizes.append(len(answers[3]))
        play.server.advance()
    certificate = len(play.server._keys[3].certificate)
    frame = 38 + 4
    assert sizes == [
        frame + 4 + 96 + 2 + certificate + 64,
        frame + 32 + 4 + 4 * (4 + 82 + 64),
        frame + 64 + 8,
        frame + 64,
        frame + 4 + 5 * (4 + 33),
    ]

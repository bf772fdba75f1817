"""Each primitive as it is used here: published vectors, and the same by hand."""

import hashlib
import hmac
import random

import pytest
from by_hand import ALICE, ALICE_PUBLIC, BOB, BOB_PUBLIC, DIGEST, SHARED, hkdf, info
from summing import Play, terms

from hush.network.secure_sum import Refused, secrets


def test_hkdf_by_hand_is_that_of_rfc_5869():
    """Appendix A.1 and A.3, of which the second has no salt, as here."""
    first = hkdf(b"\x0b" * 22, bytes(range(0xF0, 0xFA)), bytes(range(13)), 42)
    assert first.hex() == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
    third = hkdf(b"\x0b" * 22, b"", b"", 42)
    assert third.hex() == "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"


def test_a_key_is_derived_for_a_purpose():
    expected = hkdf(b"secret", info(b"own mask", DIGEST, 7))
    assert secrets.own_mask_key(b"secret", DIGEST, 7) == expected
    others = [
        secrets.derived(b"secret", b"own mask", DIGEST, 8),
        secrets.derived(b"secret", b"own mask", DIGEST, 7, 0),
        secrets.derived(b"secret", b"own mas", b"k" + DIGEST, 7),
        secrets.derived(b"secret", b"own mask", DIGEST[::-1], 7),
        secrets.derived(b"secret", b"shares", DIGEST, 7),
    ]
    assert len({expected, *others}) == 6


def test_what_two_share_is_that_of_rfc_7748():
    alice, bob = secrets.private_key(ALICE), secrets.private_key(BOB)
    assert (secrets.public_of(alice), secrets.public_of(bob)) == (ALICE_PUBLIC, BOB_PUBLIC)
    expected = hkdf(SHARED, info(b"pair mask", DIGEST, 2, 9))
    assert secrets.pair_mask_key(alice, BOB_PUBLIC, DIGEST, 9, 2) == expected
    assert secrets.pair_mask_key(bob, ALICE_PUBLIC, DIGEST, 2, 9) == expected


def test_a_private_key_is_kept_as_it_was_drawn():
    """X25519 ignores five of its bits: what is shared out must not be another key for that."""
    assert secrets.private_key(ALICE).private_bytes_raw() == ALICE
    ignored = bytes([ALICE[0] ^ 7]) + ALICE[1:31] + bytes([ALICE[31] ^ 0x80])
    assert secrets.public_of(secrets.private_key(ignored)) == ALICE_PUBLIC


@pytest.mark.parametrize(
    "public",
    [
        bytes(32),
        b"\x01" + bytes(31),
        bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
        (2**255 - 20).to_bytes(32, "little"),
        (2**255 - 19).to_bytes(32, "little"),
    ],
)
def test_a_public_key_of_low_order_is_refused(public):
    """With it, everybody would know what two share."""
    with pytest.raises(Refused, match="gives no secret: clients 1 and 2"):
        secrets.pair_key(secrets.private_key(ALICE), public, b"shares", DIGEST, 1, 2)


def test_a_public_key_that_gives_a_secret():
    secrets.check_public(ALICE_PUBLIC, 3)
    with pytest.raises(Refused, match="gives no secret: clients 3"):
        secrets.check_public(bytes(32), 3)


def test_the_seal_is_that_of_the_gcm_specification():
    """McGrew and Viega 2004, test cases 13 and 14: a key, a nonce and a text of zeros."""
    assert secrets.sealed(bytes(32), b"", b"").hex() == "530f8afbc74536b9a963b4f1c4cb738b"
    assert secrets.sealed(bytes(32), bytes(16), b"").hex() == (
        "cea7403d4d606b6e074ec5d3baf39d18" + "d0d1c8a799996bf0265b98b5d48ab919"
    )


def test_what_is_sealed_is_opened_with_the_same_and_nothing_else():
    sealed = secrets.sealed(ALICE, b"shares", b"bound")
    assert secrets.opened(ALICE, sealed, b"bound") == b"shares"
    assert secrets.opened(BOB, sealed, b"bound") is None
    assert secrets.opened(ALICE, sealed, b"other") is None
    for place in range(len(sealed)):
        forged = sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :]
        assert secrets.opened(ALICE, forged, b"bound") is None
    assert secrets.opened(ALICE, b"", b"bound") is None


def test_a_commitment():
    content = info(b"committed own mask", DIGEST, 7) + ALICE
    assert secrets.commitment(ALICE, b"committed own mask", DIGEST, 7) == hashlib.sha256(content).digest()


def test_secrets_are_compared_in_constant_time(monkeypatch):
    """Every key, own mask and share that is opened goes through hmac.compare_digest."""
    compared = []

    def compare(one, other):
        compared.append((one, other))
        return original(one, other)

    original = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", compare)
    play = Play(terms(5), {3: 2})
    assert play.run()
    masking = play.server._keys[3].masking
    own = {play.server._shares[client][0] for client in play.server.survivors}
    shares = 2 * 5 * 4 - 2 * 4  # both of each of 5 dealers by each of 4 holders, but for those that were to go to 3
    seen = [other for _, other in compared]
    assert masking in seen
    assert own < set(seen)
    # And once more when one of them is revealed, to the server.
    assert len(compared) == 1 + len(own) + shares + 4 * 4


def test_entropy_of_what_two_share():
    """Every bit of 2,000 keys is 1 about half of the time, and no two are alike in any 32 bits: Flower's had 28 bits.

    A right law fails the first (6 standard deviations, 256 bits) less than once in a million times, the second (the
    same word of 32 bits in the same place) once in 270.
    """
    drawn = random.Random(11).randbytes
    publics = [secrets.public_of(secrets.private_key(drawn(32))) for _ in range(50)]
    keys = [
        secrets.pair_mask_key(secrets.private_key(drawn(32)), public, DIGEST, 1, 2)
        for public in publics
        for _ in range(40)
    ]
    ones = [sum(key[bit // 8] >> bit % 8 & 1 for key in keys) for bit in range(256)]
    assert all(abs(count - 1000) < 6 * 500**0.5 for count in ones)
    assert all(len({key[place : place + 4] for key in keys}) == len(keys) for place in range(0, 32, 4))

"""Masks: known answers, uniform numbers, and no way to find them by trying."""

import random

import numpy as np
import pytest
from by_hand import ALICE, BOB_PUBLIC, DIGEST, SHARED, counter_blocks, hkdf, info
from scipy.stats import chisquare
from summing import Play, terms

from hush.network.secure_sum import masks, secrets

KEY = bytes(range(32))


def mask(key, bits, length):
    total = masks.words(bits, length)
    masks.add_mask(total, key)
    return total


def test_the_stream_is_aes_256():
    """A block of zeros: under a key of zeros (the GCM specification's), and the first of NIST's KeySbox."""
    assert masks.key_stream(bytes(32)).update(bytes(16)).hex() == "dc95c078a2408989ad48a21492842087"
    key = bytes.fromhex("c47b0294dbbbee0fec4757f22ffeee3587ca4730c3d33b691df38bab076bc558")
    assert masks.key_stream(key).update(bytes(16)).hex() == "46f2fb342d6f0ab477476fc501242c5f"


@pytest.mark.parametrize(("bits", "word"), [(1, 2), (16, 2), (17, 4), (32, 4)])
def test_a_mask_by_hand(bits, word):
    """From the keys of RFC 7748 on, by HKDF with hmac and AES block after block."""
    length = 70_001 if word == 4 else 140_001  # more than a block of the stream, and not a whole number of anything
    key = secrets.pair_mask_key(secrets.private_key(ALICE), BOB_PUBLIC, DIGEST, 2, 9)
    content = counter_blocks(hkdf(SHARED, info(b"pair mask", DIGEST, 2, 9)), word * length)
    found = mask(key, bits, length)
    expected = [int.from_bytes(content[i : i + word], "little") for i in range(0, len(content), word)]
    assert found.tolist() == expected
    assert masks.reduced(found, bits).tolist() == [value % 2**bits for value in expected]


@pytest.mark.parametrize("bits", [9, 30])
def test_masks_of_two_cancel(bits):
    total = masks.words(bits, 100)
    total += 5
    masks.add_pair_mask(total, KEY, 3, 8)
    assert (total != 5).any()
    masks.add_pair_mask(total, KEY, 8, 3)
    assert (total == 5).all()
    masks.add_pair_mask(total, KEY, 3, 8)
    masks.take_mask(total, KEY)
    assert (total == 5).all()


@pytest.mark.parametrize("bits", [1, 5, 16, 20, 32])
def test_packed(bits):
    total = mask(KEY, bits, 1001)
    data = masks.packed(total, bits)
    assert len(data) == -(-1001 * bits // 8)
    twice = masks.words(bits, 1001)
    masks.add_packed(twice, data, bits)
    masks.add_packed(twice, data, bits)
    assert masks.reduced(twice, bits).tolist() == [2 * value % 2**bits for value in total.tolist()]


@pytest.mark.parametrize("bits", [4, 20, 32])
def test_masks_are_uniform(bits):
    """The highest and the lowest four bits, each by chi-square; a right law fails one of six once in 10**5 times."""
    values = masks.reduced(mask(KEY, bits, 200_000), bits)
    for part in (values >> (bits - 4), values & 15):
        assert chisquare(np.bincount(part, minlength=16)).pvalue > 1e-6


def test_masked_vectors_are_uniform_and_say_nothing():
    """Of vectors of nothing but zeros, by chi-square, alone and against another's: once in 10**5 a right law fails."""
    play = Play(terms(3, length=60_000, bits=8), random=random.Random(5).randbytes)
    play.vectors = {client: np.zeros(60_000, np.uint32) for client in play.vectors}
    seen = {}
    accept = play.server._hear_masked
    play.server._hear_masked = lambda client, data: (seen.update({client: data}), accept(client, data))[1]
    assert play.run()
    assert not play.server.total().any()
    first, second, _ = (np.frombuffer(data[-4 - 60_000 : -4], np.uint8) for data in seen.values())
    for values in (first, second, first + second, first - second):
        assert chisquare(np.bincount(values, minlength=256)).pvalue > 2.5e-6


class TestSearch:
    """The attack on masks of Flower 1.42, whose keys are folded to 32 bits for NumPy's Mersenne Twister.

    A curious server that knows the range of what is hidden tries seed after seed. Here all but 12 bits are given to it.
    """

    GIVEN, TRIED, MODULUS, RANGE, LENGTH = 0xFFFFF000, 2**12, 2**32, 2**22, 50

    def fold(self, key):
        found = 0
        for start in range(0, len(key), 4):
            found ^= int.from_bytes(key[start : start + 4], "little")
        return found

    def folded_mask(self, seed):
        return np.random.RandomState(seed).randint(0, self.MODULUS - 1, self.LENGTH, np.int64)

    def found(self, key, masked):
        """The hidden vector, if some seed gives one in range."""
        for low in range(self.TRIED):
            vector = (masked - self.folded_mask(self.fold(key) & self.GIVEN | low)) % self.MODULUS
            if (vector < self.RANGE).all():
                return vector
        return None

    def test_it_finds_what_a_folded_key_hides(self):
        hidden = np.random.default_rng(1).integers(0, self.RANGE, self.LENGTH)
        masked = (hidden + self.folded_mask(self.fold(KEY))) % self.MODULUS
        assert np.array_equal(self.found(KEY, masked), hidden)

    def test_it_finds_nothing_here(self):
        hidden = np.random.default_rng(1).integers(0, self.RANGE, self.LENGTH)
        masked = (hidden + mask(KEY, 32, self.LENGTH)) % self.MODULUS
        assert self.found(KEY, masked) is None

    def test_all_bits_of_a_key_count(self):
        """Any of 256 bits gives another mask: nothing is folded."""
        flipped = [
            bytes(value ^ (1 << bit % 8 if place == bit // 8 else 0) for place, value in enumerate(KEY))
            for bit in range(256)
        ]
        assert len({mask(key, 32, 4).tobytes() for key in [KEY, *flipped]}) == 257

"""Whole sums: whoever is lost and whenever, the total is that of the survivors, or there is none."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from summing import STEPS, Play, terms

from hush.network.secure_sum import Refused, Terms


def test_nobody_is_lost():
    play = Play(terms())
    assert play.run()
    assert play.server.survivors == play.terms.clients
    assert play.server.total().dtype == np.uint32
    assert play.server.total().tolist() == play.expected()


patterns = st.lists(st.integers(0, STEPS), min_size=3, max_size=12)  # before which step each is lost; 5 is never


def check_end(play, opens):
    """The sum of those who sent a vector, or nothing for good."""
    assert play.run() == opens
    if opens:
        survivors = [client for client, step in play.absent.items() if step > 2]
        assert list(play.server.survivors) == survivors
        assert play.server.total().tolist() == play.expected()
        return
    assert not play.server.open
    assert not play.server.advance()
    with pytest.raises(Refused, match="the sum was abandoned: "):
        play.server.total()
    with pytest.raises(Refused, match="abandoned"):
        play.server.tell(play.terms.clients[0])
    with pytest.raises(Refused, match="abandoned"):
        play.server.accept(play.terms.clients[0], b"")


@given(absent=patterns, more=st.integers(0, 3), bits=st.sampled_from([1, 7, 16, 17, 32]))
@settings(max_examples=40)
def test_any_pattern_of_absences(absent, more, bits):
    """Everybody holds shares of everybody: whether it opens depends on how many are left, and on nothing else."""
    threshold = min(len(absent) // 2 + 1 + more, len(absent))
    play = Play(terms(len(absent), threshold=threshold, bits=bits, length=5))
    play.absent = dict(zip(play.terms.clients, absent, strict=True))
    check_end(play, opens=absent.count(STEPS) >= threshold)


@given(absent=patterns.filter(lambda absent: len(absent) > 4), fewer=st.integers(1, 6))
@settings(max_examples=40)
def test_any_pattern_of_absences_with_circles(absent, fewer):
    """In circles, enough must be left of each member's that has dealt shares."""
    members = len(absent)
    threshold = members // 2 + 1
    chosen = max(members - 1 - fewer, threshold - 1)
    needed = max(threshold, (chosen + 1) // 2 + 1)
    play = Play(terms(members, threshold=threshold, chosen=chosen, needed=needed, length=5))
    play.absent = dict(zip(play.terms.clients, absent, strict=True))
    opens, dealers = True, play.terms.clients
    for step in range(STEPS):
        left = {client for client, lost in play.absent.items() if lost > step}
        dealers = left if step < 2 else dealers
        circles = [play.members[client]._circle for client in dealers]
        opens &= len(left) >= threshold and all(len(circle & left) >= needed for circle in circles)
    check_end(play, opens)


def test_many_members_with_circles():
    """A hundred, of whom one in twenty is lost at some step."""
    many = Terms.of(b"many", tuple(range(100)), 20, 7, colluding=0.03, absent=0.05)
    assert many.chosen < 30
    play = Play(many, dict(zip(range(0, 100, 20), range(5), strict=True)))
    assert play.run()
    assert len(play.server.survivors) == 97
    assert play.server.total().tolist() == play.expected()


@pytest.mark.slow
def test_five_hundred_members_with_circles():
    """Of whom 25 are lost, five before each step."""
    many = Terms.of(b"many", tuple(range(500)), 24, 50, colluding=0.05, absent=0.05)
    assert not many.whole
    play = Play(many, {client: client // 20 % 5 for client in range(0, 500, 20)})
    assert play.run()
    assert len(play.server.survivors) == 485
    assert play.server.total().tolist() == play.expected()


@pytest.mark.parametrize("step", range(STEPS))
def test_exactly_the_threshold_is_enough_and_one_fewer_is_not(step):
    """Lost before each of the steps."""
    for lost, opens in ((2, True), (3, False)):
        play = Play(terms(7, threshold=5))
        play.absent = dict.fromkeys(play.terms.clients, STEPS) | dict.fromkeys(play.terms.clients[:lost], step)
        check_end(play, opens)
        if not opens:
            name = ("keys", "shares", "masked", "agree", "reveal")[step]
            assert play.server.abandoned == f"4 of 7 are left after the step {name!r}, 5 must be"


def test_sums_run_over():
    """The greatest numbers, modulo 2**bits."""
    play = Play(terms(5, bits=32))
    play.vectors = {client: np.full(9, 2**32 - 1, np.uint32) for client in play.vectors}
    assert play.run()
    assert play.server.total().tolist() == [2**32 - 5] * 9


def test_nothing_is_loaded_that_takes_long():
    """A machine that only enrols, or only adds up, need not wait for JAX."""
    code = "import sys, hush.network.secure_sum; assert not {'jax', 'scipy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)

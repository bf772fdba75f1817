"""Two things at once at the desk, and a journal that cannot be written: an answer counts once, and only if it lasts."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hush.network.guard import Refused

sys.path.insert(0, str(Path(__file__).parent))
from network_helpers import HANGS, desk_of, devices, fedavg, filled


@pytest.fixture
def met():
    """A desk with an open round, what it notes, and an answer."""
    notes = []
    desk, coordinator = desk_of(fedavg(), notes)
    [device] = devices(fedavg(), [0]).values()
    opened = coordinator.open(0)
    with desk.open(opened, set()) as gathered:
        yield desk, coordinator, gathered, device.hear(desk.offered(0)), notes


def hear_at_once(desk, coordinator, answers):
    """What becomes of answers that have all been read before the first is entered."""
    barrier, accept = threading.Barrier(len(answers)), coordinator.accept
    coordinator.accept = lambda *what: (accept(*what), barrier.wait(HANGS))[0]
    with ThreadPoolExecutor(len(answers)) as pool:
        hearing = [pool.submit(desk.hear, 0, answer) for answer in answers]
        return [each.exception(HANGS) for each in hearing]


def test_the_same_answer_twice_at_once_counts_once(met):
    desk, coordinator, gathered, answer, notes = met
    assert hear_at_once(desk, coordinator, [answer] * 3) == [None] * 3
    assert [event for event, _ in notes] == ["told", "heard"]
    assert gathered.waiting == {1, 2, 3}


def test_of_two_answers_at_once_one_is_refused(met):
    desk, coordinator, gathered, answer, notes = met
    found = hear_at_once(desk, coordinator, [answer, filled(1.0)(answer)])
    assert sorted(type(each).__name__ for each in found) == ["NoneType", "Refused"]
    assert [event for event, _ in notes] == ["told", "heard", "refused"]
    kept = gathered.answers[0].vectors["update"]
    assert (kept == 1.0).all() == (found[0] is not None)


def test_who_has_nothing_to_be_told_any_more_does_not_keep_it_from_others(met):
    """A step of a secure sum may end while devices are being told of it."""
    desk, coordinator, *_ = met
    tell = coordinator.tell

    def told(opened, client):
        if client == 1:
            raise Refused("client 1 was absent before")
        return tell(opened, client)

    coordinator.tell = told
    assert desk.offers((0, 1, 2)).keys() == {0, 2}
    assert desk.offered(1) is None


def test_an_answer_that_is_read_while_the_round_closes_is_too_late(met):
    desk, coordinator, gathered, answer, notes = met
    accept, current = coordinator.accept, desk._current

    def accept_and_close(*what):
        desk._current = None
        return accept(*what)

    coordinator.accept = accept_and_close
    with pytest.raises(Refused, match="round 0 is closed: the answer came too late"):
        desk.hear(0, answer)
    assert current is gathered
    assert not gathered.answers
    assert notes[-1] == ("refused", {"client": 0, "reason": "round 0 is closed: the answer came too late"})


def test_an_answer_that_could_not_be_noted_was_not_heard(met):
    desk, _, gathered, answer, _ = met

    def full(event, **facts):
        raise OSError("no space left on device")

    note, desk._note = desk._note, full
    with pytest.raises(OSError, match="no space left"):
        desk.hear(0, answer)
    assert not gathered.answers
    assert not gathered.raw
    desk._note = note
    desk.hear(0, answer)  # the same bytes again, and now they count
    assert set(gathered.answers) == {0}


def test_who_does_not_watch_any_more_is_not_called():
    desk, _ = desk_of(fedavg())
    calls = []
    unwatch = desk.watch(lambda: calls.append(desk.over))
    desk.end("enough")
    unwatch()
    desk.end("enough")
    assert calls == [True]


def test_a_clock_that_is_set_anew_sends_nobody_away(met, monkeypatch):
    """Neither a year forward nor back: who is there is known by a clock that only goes forward."""
    desk, *_ = met
    here = [client for client in range(4) if desk.is_present(client)]
    for year in (-365, 365):
        now = time.time() + 86400 * year
        monkeypatch.setattr(time, "time", lambda now=now: now)
        assert [client for client in range(4) if desk.is_present(client)] == here == [0]
        assert desk.offered(1) is not None
        desk.visitors.pop(1)

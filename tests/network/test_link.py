"""A device that stays, on a line that plays a part, under a clock that jumps when somebody waits."""

import itertools

import pytest

from hush.network import link as links
from hush.network.agreement import Agreement
from hush.network.guard import Refused
from hush.network.link import LEAST_SECONDS, MOST_SECONDS, SLICE_SECONDS, Barred, Lost, persistently, stay
from hush.network.messages import (
    Answer,
    Declined,
    End,
    Told,
    Welcome,
    write_answer,
    write_declined,
    write_end,
    write_hello,
    write_told,
    write_welcome,
)

AGREEMENT = Agreement("a = 1\n")
RUN = b"tests..."
WELCOME = write_welcome(Welcome(RUN, AGREEMENT.text))
OVER = End((3,), "enough")
END = write_end(OVER)


def told(number):
    return write_told(Told(RUN, AGREEMENT.digest, number, 0, -1, b"12345678", ()))


def answered(data):
    return write_answer(Answer(RUN, 0, 0, (data,)))


class Clock:
    """Time goes by only where somebody sleeps."""

    def __init__(self):
        self.now, self.slept = 1000.0, []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        assert seconds > 0
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(links, "time", made)
    return made


class Played:
    """A line whose server says what is written down; an exception is raised."""

    def __init__(self, asked, hellos=None, answers=None):
        self._asked, self._hellos = iter(asked), iter(hellos or itertools.repeat(WELCOME))
        self._answers, self.greeted, self.sent = iter(answers or itertools.repeat(None)), [], []

    def hello(self, data):
        self.greeted.append(data)
        return self._said(self._hellos)

    def ask(self, seconds):
        return self._said(self._asked)

    def answer(self, data):
        self._said(self._answers)
        self.sent.append(data)

    def _said(self, lines):
        found = next(lines)
        if isinstance(found, Exception):
            raise found
        return found


class Plain:
    """A device that answers with what it was told, unless it is to do something else."""

    agreement = AGREEMENT.digest

    def __init__(self, hear=answered, finish=lambda end: None):
        self.hear, self.ends, self._finish = hear, [], finish

    def finish(self, end):
        self.ends.append(end)
        self._finish(end)


def stayed(link, device=None, patience=None, stopped=lambda: False):
    """What came of it, and what was said."""
    said = []
    return stay(link, device or Plain(), patience=patience, stopped=stopped, say=said.append), said


def test_rounds_are_answered_until_the_end(clock):
    link, device = Played([told(0), None, told(1), END]), Plain()
    assert stayed(link, device) == (OVER, [])
    assert link.greeted == [write_hello(AGREEMENT.digest)]
    assert link.sent == [answered(told(0)), answered(told(1))]
    assert device.ends == [OVER]


def test_a_server_that_says_nothing_at_once_is_not_asked_again_at_once(clock):
    assert stayed(Played([*[None] * 20, END]))[0] == OVER
    assert sum(clock.slept) == pytest.approx(20 * SLICE_SECONDS)


class TestAServerThatIsAway:
    def test_is_waited_for_ever_longer_and_greeted_again(self, clock):
        gone = [Lost("cut")] + [Lost("connection refused")] * 9
        link = Played([told(0), gone[0], told(1), END], [WELCOME, *gone[1:], WELCOME])
        end, said = stayed(link)
        assert end == OVER
        assert said == [
            "the server is away (cut); trying again",
            "the server is away (connection refused); trying again",
            "the server is back",
            f"round 0 is answered with {len(link.sent[1]):,} bytes; answers so far: 2",  # after so long, a word on it
        ]
        assert len(link.greeted) == 1 + 9 + 1
        longest = sum(min(LEAST_SECONDS * 2**k, MOST_SECONDS) for k in range(10))
        assert longest / 2 <= sum(clock.slept) <= longest  # each pause is between half and all of what it may be

    def test_is_told_apart_from_one_that_is_away_again(self, clock):
        away = "the server is away (cut); trying again"
        end, said = stayed(Played([None, Lost("cut"), None, Lost("cut"), END]))
        assert end == OVER
        assert said == [away, "the server is back"] * 2

    def test_is_given_up_when_patience_ends(self, clock):
        link = Played([], itertools.repeat(Lost("connection refused")))
        began = clock.now
        end, said = stayed(link, patience=60)
        assert end is None
        assert said[1:] == ["the server was away for 60 seconds: giving up"]
        assert clock.now - began == pytest.approx(60)
        assert 60 / MOST_SECONDS <= len(link.greeted) <= 30

    def test_that_comes_back_has_all_patience_again(self, clock):
        link = Played([*[Lost("cut"), None] * 50, END])
        assert stayed(link, patience=1)[0] == OVER

    def test_an_answer_that_was_lost_is_asked_for_again(self, clock):
        link = Played([told(0), told(0), END], answers=[Lost("cut"), None])
        assert stayed(link)[0] == OVER
        assert link.sent == [answered(told(0))]
        assert len(link.greeted) == 2


class TestRefusals:
    def test_a_late_answer_is_said_and_the_next_round_goes_on(self, clock):
        link = Played([told(0), told(1), END], answers=[Refused("too late"), None])
        assert stayed(link) == (OVER, ["the server refused the answer: too late"])
        assert link.sent == [answered(told(1))]
        assert sum(clock.slept) <= LEAST_SECONDS

    def test_the_same_again_and_again_is_said_once_and_tried_ever_less_often(self, clock):
        link = Played([*[told(0)] * 12, END], answers=itertools.repeat(Refused("damaged")))
        assert stayed(link) == (OVER, ["the server refused the answer: damaged"])
        assert sum(clock.slept) >= sum(min(LEAST_SECONDS * 2**k, MOST_SECONDS) for k in range(12)) / 2

    def test_a_round_that_the_device_declines_is_said_once_for_each_reason(self, clock):
        reasons = iter(["no", "no", "never", "no"])
        device = Plain(lambda data: write_declined(Declined(RUN, 0, 0, next(reasons))))
        link = Played([*map(told, range(4)), END])
        assert stayed(link, device) == (OVER, ["declined round 0: no", "declined round 0: never"])
        assert len(link.sent) == 4

    def test_a_server_that_does_not_want_this_device_is_left(self, clock):
        with pytest.raises(Refused, match="its owner must look"):
            stayed(Played([], [Refused("its owner must look at the new agreement")]))
        with pytest.raises(Barred, match="revoked"):
            stayed(Played([told(0), Barred("revoked")]))

    def test_another_agreement_is_refused_even_if_the_server_says_nothing(self, clock):
        with pytest.raises(Refused, match=r"the server offers agreement [0-9a-f]{16}; [0-9a-f]{16} was agreed to"):
            stayed(Played([told(0)], [write_welcome(Welcome(RUN, "a = 2\n"))]))

    def test_a_welcome_that_cannot_be_read_is_asked_for_again(self, clock):
        end, said = stayed(Played([END], [WELCOME[:-1], WELCOME]))
        assert end == OVER
        assert said[0].startswith("the server is away (its welcome cannot be read: ")

    def test_a_damaged_end_is_none(self, clock):
        link, device = Played([END[:-1], END]), Plain()
        assert stayed(link, device)[0] == OVER
        assert device.ends == [OVER]
        assert link.sent == [answered(END[:-1])]  # what a device makes of it, it declines

    def test_an_end_that_the_device_does_not_believe_is_said(self, clock):
        def finish(end):
            raise Refused("it was put back")

        end, said = stayed(Played([END]), Plain(finish=finish))
        assert end == OVER
        assert said == ["the run is over, and the server's last word on it is not believed: it was put back"]


def test_what_cannot_be_written_down_is_not_sent(clock):
    def full(data):
        raise OSError("no space left on device")

    link = Played([told(0), END])
    with pytest.raises(OSError, match="no space left"):
        stayed(link, Plain(full))
    assert link.sent == []


class TestStopping:
    def test_while_nothing_happens(self, clock):
        limit = clock.now + 100
        assert stayed(Played(itertools.repeat(None)), stopped=lambda: clock.now > limit) == (None, [])
        assert clock.now <= limit + SLICE_SECONDS

    def test_while_the_server_is_away(self, clock):
        limit = clock.now + 100
        link = Played([], itertools.repeat(Lost("cut")))
        assert stayed(link, stopped=lambda: clock.now > limit)[0] is None
        assert clock.now <= limit + SLICE_SECONDS

    def test_before_anything(self, clock):
        link = Played([])
        assert stayed(link, stopped=lambda: True) == (None, [])
        assert link.greeted == []


def test_a_call_is_made_until_the_server_is_there(clock):
    said, results = [], iter([Lost("cut"), Lost("cut"), b"found"])

    def call():
        found = next(results)
        if isinstance(found, Exception):
            raise found
        return found

    assert persistently(call, patience=None, stopped=lambda: False, say=said.append) == b"found"
    assert said == ["the server is away (cut); trying again", "the server is back"]
    results = itertools.repeat(Lost("cut"))
    assert persistently(call, patience=3, stopped=lambda: False, say=said.append) is None

"""A device's side of a connection, whatever carries it: say hello, ask, answer, and come back when the line was cut.

    hello ──> ask ──> answer ──> ask ──> … ──> end

A server that is away is waited for. Nothing is lost by that: what a device has answered and the server has not heard is
asked for again, and the same bytes are sent again.
"""

import random
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from hush.core.floats import WireError
from hush.network.agreement import Agreement
from hush.network.device import Device
from hush.network.guard import Refused
from hush.network.messages import (
    DECLINED,
    END,
    Answer,
    Declined,
    End,
    kind_of,
    read_answer,
    read_end,
    read_welcome,
    write_hello,
)
from hush.network.steps import STEPPED, read_step
from hush.network.summing import MASKED

LEAST_SECONDS, MOST_SECONDS = 0.2, 10.0  # between two attempts
PROGRESS_SECONDS = 10.0  # between two words on how it gets on
SLICE_SECONDS = 0.5  # so often a waiting device looks whether it was told to stop

Found = TypeVar("Found")
Stopped = Callable[[], bool]
Say = Callable[[str], None]


class Lost(ConnectionError):
    """The server cannot be reached, or was lost on the way: later it may be there."""


class Barred(ConnectionError):
    """One side does not accept the other's credential: trying again is of no use."""


class Link(Protocol):
    """One device's line to its server. Every call may raise `Lost`, `Barred`, or `Refused` with the server's words."""

    def hello(self, data: bytes) -> bytes:
        """The server's welcome."""

    def ask(self, seconds: float) -> bytes | None:
        """What the server has to tell, as soon as there is something; None after so long, or before."""

    def answer(self, data: bytes) -> None:
        """Hand in an answer; when this returns the server has it."""

    def expect(self, longest: int) -> None:
        """From now on no message from the server has more bytes than this."""

    def close(self) -> None:
        """Hang up."""


class _Pauses:
    """Ever longer ones. Devices that all lost the same server do not come back all at once."""

    def __init__(self, stopped: Stopped) -> None:
        self._stopped, self._seconds = stopped, LEAST_SECONDS

    def reset(self) -> None:
        self._seconds = LEAST_SECONDS

    def make(self, most: float = MOST_SECONDS) -> None:
        """The next one, at most so long."""
        pause(min(self._seconds * random.uniform(0.5, 1), most), self._stopped)
        self._seconds = min(2 * self._seconds, MOST_SECONDS)


class _Away:
    """A server that is away: since when, and what was said about it."""

    def __init__(self, patience: float | None, stopped: Stopped, say: Say) -> None:
        self._patience, self._stopped, self._say = patience, stopped, say
        self._pauses = _Pauses(stopped)
        self._since: float | None = None
        self._said: set[str] = set()

    def over(self) -> None:
        """It was reached."""
        if self._since is not None:
            self._say("the server is back")
            self._since = None
            self._said.clear()
            self._pauses.reset()

    def wait(self, reason: Lost) -> bool:
        """Whether to try once more, after a pause."""
        self._since = self._since or time.monotonic()
        if str(reason) not in self._said:
            self._say(f"the server is away ({reason}); trying again")
            self._said.add(str(reason))
        left = MOST_SECONDS if self._patience is None else self._patience - (time.monotonic() - self._since)
        if left <= 0:
            self._say(f"the server was away for {self._patience:g} seconds: giving up")
            return False
        self._pauses.make(left)
        return not self._stopped()

    def outlast(self, call: Callable[[], Found]) -> Found | None:
        """What a call gives once the server is there; None if stopped, or out of patience."""
        while not self._stopped():
            try:
                return call()
            except Lost as reason:
                if not self.wait(reason):
                    return None
        return None


def persistently(call: Callable[[], Found], *, patience: float | None, stopped: Stopped, say: Say) -> Found | None:
    """What a call over a link gives, tried until the server is there; None if stopped, or out of patience."""
    away = _Away(patience, stopped, say)
    found = away.outlast(call)
    if found is not None:
        away.over()
    return found


def stay(link: Link, device: Device, *, patience: float | None, stopped: Stopped, say: Say) -> End | None:
    """Take part until the run is over; None if stopped before.

    patience   after so many seconds without the server a device gives up; never if None
    stopped    asked twice a second
    say        is told what an owner may want to know

    `Barred`, and `Refused` where the server does not let this device take part at all, are passed on. So is whatever
    keeps the device from writing down what it does, as a full disk: nothing was sent then.
    """
    away = _Away(patience, stopped, say)
    return away.outlast(_Visit(link, device, away, stopped, say))


class _Visit:
    """What is done at a server from the hello to the end; may be begun again."""

    def __init__(self, link: Link, device: Device, away: _Away, stopped: Stopped, say: Say) -> None:
        self._link, self._device, self._away, self._stopped, self._say = link, device, away, stopped, say
        self._refused, self._refusal, self._pauses = b"", "", _Pauses(stopped)
        self._declined: set[str] = set()
        self._answered, self._told_progress = 0, time.monotonic()

    def __call__(self) -> End | None:
        self._greet()
        while not self._stopped():
            began = time.monotonic()
            data = self._link.ask(SLICE_SECONDS)
            self._away.over()
            if data is None:
                # One that answers "nothing" at once is not asked again at once.
                pause(SLICE_SECONDS - (time.monotonic() - began), self._stopped)
            elif (end := _end_in(data)) is not None:
                self._finish(end)
                return end
            else:
                self._answer(data)
        return None

    def _greet(self) -> None:
        """The server may have been started anew, with something else."""
        try:
            offered = Agreement(read_welcome(self._link.hello(write_hello(self._device.agreement))).agreement)
        except WireError as error:
            raise Lost(f"its welcome cannot be read: {error}") from error
        if offered.digest != self._device.agreement:
            raise Refused(
                f"the server offers agreement {offered.name}; {self._device.agreement.hex()[:16]} was agreed to"
            )

    def _answer(self, data: bytes) -> None:
        answer = self._device.hear(data)
        if kind_of(answer) == DECLINED:
            self._tell_declined(answer)
        try:
            self._link.answer(answer)
            self._tell_progress(answer)
        except Refused as reason:
            if str(reason) != self._refusal:
                self._say(f"the server refused the answer: {reason}")
            if data != self._refused:
                self._pauses.reset()
            self._refused, self._refusal = data, str(reason)
            self._pauses.make()  # it may ask for the same again

    def _tell_progress(self, answer: bytes) -> None:
        """Now and then, so that an owner sees that something is done."""
        if kind_of(answer) == STEPPED:
            self._answered += (step := read_step(STEPPED, answer)).step == MASKED
            self._tell_now(step.number, answer, step.step == MASKED)
            return
        made = read_answer(answer)
        self._answered += isinstance(made, Answer)
        self._tell_now(made.number, answer, isinstance(made, Answer))

    def _tell_now(self, number: int, answer: bytes, is_answer: bool) -> None:
        if is_answer and time.monotonic() - self._told_progress > PROGRESS_SECONDS:
            self._told_progress = time.monotonic()
            self._say(f"round {number} is answered with {len(answer):,} bytes; answers so far: {self._answered:,}")

    def _tell_declined(self, answer: bytes) -> None:
        declined = read_answer(answer)
        assert isinstance(declined, Declined)
        if declined.reason not in self._declined:
            self._say(f"declined round {declined.number}: {declined.reason}")
            self._declined.add(declined.reason)

    def _finish(self, end: End) -> None:
        try:
            self._device.finish(end)
        except Refused as reason:
            self._say(f"the run is over, and the server's last word on it is not believed: {reason}")


def _end_in(data: bytes) -> End | None:
    """The end, where this is one; a damaged one is for the device to decline, so that it is said again."""
    try:
        return read_end(data) if kind_of(data) == END else None
    except WireError:
        return None


def pause(seconds: float, stopped: Stopped) -> None:
    """Wait, unless stopped."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not stopped():
        time.sleep(min(left, SLICE_SECONDS))

"""Being told to stop: Ctrl-C, and the SIGTERM and SIGHUP that clusters, containers and closed terminals send.

While a run is set up, a signal ends it at once; in the middle of an import, as soon as that is through, for a library
that is left half loaded may take the whole process down. While rounds run, the block of rounds is finished and
everything is written first. A second signal ends it at once all the same. Compiled code hears no signal, so a thread of
its own answers that it was heard.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
# Containers are killed ten seconds after they were asked to stop: better to leave before, with the last checkpoint.
GRACE_SECONDS = 8.0
REPEAT_SECONDS = 0.05


class StopRequested(KeyboardInterrupt):
    """A signal to stop, which ends what is being done."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.signal = number


class Stopping:
    """Whether, and by which signal, this process was told to stop."""

    def __init__(self, leave: bool = False, imports: int = 0) -> None:
        self.signal = 0  # the first that was heard
        self.finishing = False  # whether rounds run, which are to be finished
        self.spoken = True  # whether to answer
        self._leave = leave  # whether the process is ours to end, when it cannot stop in time
        self._imports = imports  # that all of this is a part of
        self._answered = False
        self._repeated = False  # whether the next signal to be answered is our own
        self._ours = False  # whether the next to be heard is
        self._due = False  # whether there is a reason to send it to ourselves
        self._sender: threading.Timer | None = None

    def __bool__(self) -> bool:
        return self.signal != 0

    @property
    def urgent(self) -> bool:
        """Whether whoever asked will not wait for long."""
        return self.signal not in (0, signal.SIGINT)

    def check(self) -> None:
        """Stop here, if that was asked for: the exception of a signal may have been lost inside a library."""
        if self:
            self._due = False
            raise StopRequested(self.signal)

    def hear(self, number: int, frame: FrameType | None = None) -> None:
        """What is done about a signal, between two steps of the program."""
        ours, self._ours = self._ours, False
        first, self.signal = not self, self.signal or number
        if (first and self.finishing) or (ours and not self._due):
            return
        if (first or ours) and imports_around(frame) > self._imports:
            self._repeat()
            return
        self._due = False
        raise StopRequested(self.signal)

    def swallowed(self, unraisable: Any) -> bool:
        """A callback of a library cannot pass the exception on, and drops it: raise it again in the program itself."""
        if not (self and isinstance(unraisable.exc_value, KeyboardInterrupt)):
            return False
        self._repeat()
        return True

    def _repeat(self) -> None:
        """Send ourselves the signal once more, a little later: here its exception would be dropped, or do harm."""

        def send(number: int) -> None:
            if self._due:
                self._repeated = self._ours = True
                os.kill(os.getpid(), number)

        self._due = True
        self._sender = _soon(REPEAT_SECONDS, send, self.signal)

    def settle(self) -> None:
        """Stop here, if that has only been put off."""
        if self._due:
            self.check()

    def close(self) -> None:
        """Send ourselves nothing more: who comes next would be stopped by it."""
        self._due = False
        if self._sender is not None:
            self._sender.cancel()
            self._sender.join()

    def answer(self, number: int) -> None:
        """What is done about a signal at once, whatever the program is doing."""
        if self._repeated:  # by ourselves
            self._repeated = False
            return
        name = signal.Signals(number).name
        if self.spoken:
            first = self.finishing and not self._answered
            done = "finishing this block of rounds, then writing; once more to stop at once" if first else "stopping"
            _say(f"heard {name}: {done}")
        self._answered = True
        if self._leave and number != signal.SIGINT:
            _soon(GRACE_SECONDS, _leave, number)


_listening: list[Stopping] = []


@contextlib.contextmanager
def listening(leave: bool = False) -> Iterator[Stopping]:
    """Listen to signals, once for the whole process: who is inside another's `with` is given that one's."""
    if _listening:
        yield _listening[-1]
        return
    stopping = Stopping(leave, imports_around(sys._getframe()))
    if threading.current_thread() is not threading.main_thread():
        yield stopping  # only the main thread can hear
        return
    # What was to be ignored (as by nohup) stays so, and what the user's program does about the others too.
    earlier = {number: signal.getsignal(number) for number in SIGNALS}
    heard = [number for number in SIGNALS if _is_ours_to_hear(number, earlier[number])]
    hook = sys.unraisablehook
    _listening.append(stopping)
    try:  # a signal may come as soon as the first handler is set
        for number in heard:
            signal.signal(number, stopping.hear)
        sys.unraisablehook = lambda unraisable: None if stopping.swallowed(unraisable) else hook(unraisable)
        with _answering(stopping):
            yield stopping
            stopping.settle()
    finally:
        stopping.close()
        sys.unraisablehook = hook
        _listening.pop()
        for number in heard:
            signal.signal(number, earlier[number])


def imports_around(frame: FrameType | None) -> int:
    """How many imports a step of the program is a part of."""
    found = 0
    while frame is not None:
        found += frame.f_code.co_name == "_find_and_load" and frame.f_globals.get("__name__") == "importlib._bootstrap"
        frame = frame.f_back
    return found


def _is_ours_to_hear(number: int, handler: Any) -> bool:
    return handler == signal.SIG_DFL or (number == signal.SIGINT and callable(handler))


@contextlib.contextmanager
def _answering(stopping: Stopping) -> Iterator[None]:
    """A thread that is told of every signal as it arrives; not where somebody else asked to be told."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    if before != -1:
        signal.set_wakeup_fd(before)
        ours.close()
        theirs.close()
        yield
        return

    def answer() -> None:
        with ours:
            while numbers := ours.recv(64):
                for number in numbers:
                    if number in SIGNALS:
                        stopping.answer(number)

    threading.Thread(target=answer, name="hush-stopping", daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(-1)
        theirs.close()  # which ends the thread


def _leave(number: int) -> None:
    """End the process here and now: its files are whole at any time."""
    _say("this block of rounds takes too long: leaving with the last checkpoint")
    os._exit(128 + number)


def _soon(seconds: float, action: Callable[[int], object], number: int) -> threading.Timer:
    timer = threading.Timer(seconds, action, (number,))
    timer.daemon = True
    timer.start()
    return timer


def _say(line: str) -> None:
    with contextlib.suppress(Exception):  # the terminal may be gone
        sys.stderr.write(f"\n{line}\n")
        sys.stderr.flush()

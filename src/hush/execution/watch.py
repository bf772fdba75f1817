"""Whether all processes of a run are alive, and how one of them leaves when they are not.

JAX notices a dead process after a while, and then ends all others without a word. So each process has a thread that
gives a sign of life every second, through the store of names and values that process 0 keeps; process 0 looks who has
stopped, and says so. A process that fails leaves a note there. Whoever then waits in vain inside a compiled program,
which hears nothing, is ended by its thread, with the reason. Where process 0 itself dies, JAX ends the others before
they can say anything: a small process beside each has their last words.
"""

import atexit
import contextlib
import os
import subprocess
import sys
import threading
import time
from typing import Any

SECONDS_BETWEEN_SIGNS = 1.0
# No sign of life for so long, and a process is taken for dead; a machine that is busy may be silent for a while.
SECONDS_UNTIL_LOST = 30.0
# A process that hears of another's end has so long to come to its own; together these are less than a minute.
SECONDS_TO_LEAVE = 15.0
# Process 0 keeps the store: it leaves a little after the others, which would be ended without a word.
SECONDS_LAST = 3.0

GONE = "process 0, where the others meet, is gone"
LOST = 9  # the exit code of a process that another one's end has ended
ALIVE, NEWS = "hush/alive/", "hush/news/"
DONE, LEFT = "hush/done/", "hush/left/"  # who has come to its end, and who has not waited there for the others


class Watch:
    """One process's view of all of them."""

    def __init__(self, client: Any, process: int, processes: int) -> None:
        self.client, self.process, self.processes = client, process, processes
        self.part = 0  # which run of this program is under way, or was last
        self.inside = False  # whether one is under way
        self.advice = ""  # how to go on, once it is known
        self.code: int | None = None  # what this process means to exit with, where that is known
        self._bad = ""
        self._leaving = False
        self._seen: dict[str, tuple[str, float]] = {}
        self._last_words = LastWords()

    def begin(self) -> None:
        """Start to look, until the process ends."""
        threading.Thread(target=self._look_on, name="hush-watch", daemon=True).start()
        atexit.register(self.leave)

    @property
    def bad_news(self) -> str:
        """Why this run cannot go on; nothing while all is well."""
        return self._bad

    def enter(self) -> None:
        """A run begins: what became of an earlier one is of no interest, unless a process is gone for good."""
        self.part, self.inside = self.part + 1, True
        self.advise("")
        self._bad = self._found()

    def advise(self, how: str) -> None:
        """How to go on, for whoever is ended because another process is."""
        self.advice = how
        who = f"process {self.process} of {self.processes}"
        cause = "most likely because process 0 is gone" if self.process else "and with it the others"
        self._last_words.are(f"error: {who} was ended in the middle of a run, {cause}{how}")

    def exit(self) -> None:
        """The run is over, in whatever way."""
        self.inside = False
        self._last_words.are("")

    def note(self, error: BaseException) -> None:
        """Tell the others that the run has failed here."""
        said = " ".join(str(error).split()) or type(error).__name__
        with contextlib.suppress(Exception):  # whoever kept the notes may be the one that is gone
            self.client.key_value_set(
                f"{NEWS}{self.part}/{self.process}", f"process {self.process} of {self.processes} failed: {said}", True
            )

    def _found(self) -> str:
        """What the notes of others say of this run; and whoever has ended will take part in none."""
        ours = f"{NEWS}{self.part}/{self.process}"
        for name, said in self.client.key_value_dir_get(NEWS):
            if name != ours and name.removeprefix(NEWS).split("/")[0] in (str(self.part), "lost"):
                return str(said)
        ended = [name.removeprefix(DONE) for name, _ in self.client.key_value_dir_get(DONE)] if self.inside else []
        return f"process {ended[0]} of {self.processes} has ended, in the middle of this run" if ended else ""

    def _look_on(self) -> None:
        signs, since = 0, 0.0
        while not self._leaving:
            signs += 1
            try:
                self.client.key_value_set(f"{ALIVE}{self.process}", str(signs), True)
                if self.process == 0:
                    self._look_for_the_lost()
                self._bad = self._bad or self._found()
            except Exception:  # whatever it is, nobody can be asked any more
                self._bad = self._bad or GONE
            if self._bad and self.inside:
                since = since or time.monotonic()
                if time.monotonic() - since > SECONDS_TO_LEAVE:
                    self._end_here()
            else:
                since = 0.0
            time.sleep(SECONDS_BETWEEN_SIGNS)

    def _look_for_the_lost(self) -> None:
        now = time.monotonic()
        done = {name.removeprefix(DONE) for name, _ in self.client.key_value_dir_get(DONE)}
        for name, sign in self.client.key_value_dir_get(ALIVE):
            who = name.removeprefix(ALIVE)
            if self._seen.get(who, ("", 0.0))[0] != sign:
                self._seen[who] = sign, now
            elif now - self._seen[who][1] > SECONDS_UNTIL_LOST and who not in done:
                said = f"process {who} of {self.processes} has given no sign of life for {SECONDS_UNTIL_LOST:.0f} s"
                self.client.key_value_set(f"{NEWS}lost/{who}", said, True)

    def _end_here(self) -> None:
        """The program waits for a process that will not come: end it, as nothing else can."""
        say(f"error: {self._bad}{self.advice}")
        self._last_words.are("")
        self._go(LOST)

    def leave(self) -> None:
        """At the end of the process: together with the others, or without those that are gone.

        JAX would wait for all of them, and end this process without a word if they do not come.
        """
        failed = self.code or hasattr(sys, "last_type")  # which is there once an error was shown that nobody caught
        # Whoever waits for this process in a compiled program is free once its connections close, before it is ended.
        usual = SECONDS_TO_LEAVE if self.process == 0 else SECONDS_TO_LEAVE / 3
        patience = time.monotonic() + usual if failed else float("inf")
        try:
            self.client.key_value_set(f"{DONE}{self.process}", "", True)
            while len(self.client.key_value_dir_get(DONE)) < self.processes and time.monotonic() < patience:
                if self.client.key_value_dir_get(f"{NEWS}lost/"):
                    break
                time.sleep(SECONDS_BETWEEN_SIGNS / 10)
            all_here = len(self.client.key_value_dir_get(DONE)) == self.processes
            if all_here and not self.client.key_value_dir_get(LEFT):
                self._leaving = True
                return
            self.client.key_value_set(f"{LEFT}{self.process}", "", True)
        except Exception:  # process 0 is gone
            pass
        self._go(self.code or int(bool(failed)))

    def _go(self, code: int) -> None:
        if self.process == 0:
            time.sleep(SECONDS_LAST)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)


class LastWords:
    """What is said on standard error if this process ends without a word of its own."""

    PROGRAM = (
        "import sys; last = [line.strip() for line in sys.stdin][-1:]; any(last) and print(*last, file=sys.stderr)"
    )

    def __init__(self) -> None:
        self._keeper = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", self.PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C is not for it
        )
        atexit.register(self._end)

    def are(self, words: str) -> None:
        """From now on these; or nothing."""
        with contextlib.suppress(Exception):
            assert self._keeper.stdin is not None
            self._keeper.stdin.write(f"{words}\n")
            self._keeper.stdin.flush()

    def _end(self) -> None:
        with contextlib.suppress(Exception):
            self._keeper.communicate(timeout=SECONDS_LAST)


def say(line: str) -> None:
    """One line, whatever state the program is in."""
    with contextlib.suppress(Exception):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

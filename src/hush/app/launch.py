"""Several processes of one run on this machine: started together, stopped together, none left behind."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import typer

from hush import cores
from hush.app.failures import LOST, complain
from hush.app.processes import LAUNCHER
from hush.stopping import SIGNALS

MOST_PROCESSES = 64
COMMANDS = ("run", "resume")
KEPT_LINES = 40  # of each process that is not shown
# Where one process has failed, the others find out by themselves, within a minute, and say why.
SECONDS_AFTER_A_FAILURE = 75.0
SECONDS_TO_STOP = 15.0


def launch(processes: int, command: Sequence[str]) -> None:
    """Start so many processes of a command, and end with the worst of their exit codes."""
    if not 1 <= processes <= MOST_PROCESSES:
        raise ValueError(f"-n must be from 1 to {MOST_PROCESSES}, found {processes}")
    if not command or command[0] not in COMMANDS:
        found = " ".join(command) or "nothing"
        raise ValueError(f"-- is followed by a command: {' or '.join(COMMANDS)} and what it takes, found {found}")
    for option in ("--coordinator", "--process", "--processes"):
        if any(word == option or word.startswith(f"{option}=") for word in command):
            raise ValueError(f"{option} is what hush launch says to each process: leave it out")
    group = Group(processes, command)
    try:
        with group.passing_signals_on():
            code = group.wait()
    finally:
        group.end()
    if code:
        raise typer.Exit(code)


class Group:
    """The processes, and what those that are not shown have said."""

    def __init__(self, processes: int, command: Sequence[str]) -> None:
        address = f"127.0.0.1:{_free_port()}"
        self._signals = 0
        self._children: list[subprocess.Popen[bytes]] = []
        self._lines = [deque[str](maxlen=KEPT_LINES) for _ in range(processes)]
        self._threads: list[threading.Thread] = []
        # Closed when this process ends, in whatever way: then the children end too.
        theirs, self._ours = os.pipe()
        try:
            for index in range(processes):
                said = ["--coordinator", address, "--process", str(index), "--processes", str(processes)]
                self._begin(index, [*command, *said], _environment(index, processes) | {LAUNCHER: str(theirs)}, theirs)
        except BaseException:
            self.end()
            raise
        finally:
            os.close(theirs)

    def _begin(self, index: int, command: Sequence[str], environment: dict[str, str], pipe: int) -> None:
        shown: dict[str, Any] = {} if index == 0 else {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        child = subprocess.Popen(
            [sys.executable, "-m", "hush.app.start", *command],
            stdin=subprocess.DEVNULL,
            env=environment,
            pass_fds=[pipe],
            start_new_session=True,  # Ctrl-C is passed on by us, and heard once
            **shown,
        )
        self._children.append(child)
        if child.stdout is not None:
            thread = threading.Thread(target=self._listen, args=(index, child.stdout), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _listen(self, index: int, stream: Any) -> None:
        for line in stream:
            self._lines[index].append(line.decode(errors="replace").rstrip("\n"))

    @contextlib.contextmanager
    def passing_signals_on(self) -> Iterator[None]:
        """Every signal to stop goes to each process, once; what that means is theirs to know."""
        earlier = {number: signal.getsignal(number) for number in SIGNALS}
        wakeup = signal.set_wakeup_fd(-1)  # which would answer, and leave after a while, without the children

        def pass_on(number: int, _: Any) -> None:
            self._signals += 1
            self._send(number)

        try:
            for number, handler in earlier.items():
                if handler != signal.SIG_IGN:
                    signal.signal(number, pass_on)
            yield
        finally:
            for number, handler in earlier.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup)

    def _send(self, number: int) -> None:
        for child in self._children:
            if child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    child.send_signal(number)

    def wait(self) -> int:
        """Until all have ended; after a failure they have a while to end by themselves. The worst exit code."""
        failed: float | None = None
        while any(child.poll() is None for child in self._children):
            if failed is None and any(child.poll() for child in self._children):
                failed = time.monotonic()
            if failed is not None and time.monotonic() - failed > SECONDS_AFTER_A_FAILURE:
                complain("a process has failed, and others go on as if it had not: they are ended")
                break
            time.sleep(0.05)
        self.end()
        codes = [_code(child.returncode) for child in self._children]
        self._tell(codes)
        # What follows from another's end says less than that.
        return max(codes, key=lambda code: (code not in (0, LOST), code))

    def _tell(self, codes: Sequence[int]) -> None:
        """What processes that failed have said, each line with the process's number."""
        for thread in self._threads:
            thread.join(SECONDS_TO_STOP)
        for index, code in enumerate(codes):
            if code and index:
                sys.stderr.writelines(f"[{index}] {line}\n" for line in self._lines[index])
            if code > 128:
                ended = signal.Signals(code - 128).name if code - 128 in set(signal.Signals) else f"signal {code - 128}"
                if not self._signals:
                    sys.stderr.write(f"[{index}] ended by {ended}\n")
        sys.stderr.flush()

    def end(self) -> None:
        """Leave nobody behind: politely, then not."""
        with contextlib.suppress(OSError):
            os.close(self._ours)
        for number in (signal.SIGTERM, signal.SIGKILL):
            until = time.monotonic() + SECONDS_TO_STOP
            self._send(number)
            while time.monotonic() < until and any(child.poll() is None for child in self._children):
                time.sleep(0.05)
        for child in self._children:
            child.wait()


def _code(returned: int) -> int:
    return returned if returned >= 0 else 128 - returned


def _free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


def _environment(index: int, processes: int) -> dict[str, str]:
    """This machine, shared out: cores evenly, and of GPUs one to each process."""
    environment = dict(os.environ)
    if not cores.users_own:
        environment["JAX_NUM_CPU_DEVICES"] = str(max(1, cores.devices() // processes))
    shown = environment.get("CUDA_VISIBLE_DEVICES", "")
    if shown:
        each = shown.split(",")
        environment["CUDA_VISIBLE_DEVICES"] = each[index % len(each)]
    elif "JAX_LOCAL_DEVICE_IDS" not in environment:
        environment["JAX_LOCAL_DEVICE_IDS"] = str(index)
    return environment

"""A node's app calls its worker, and starts it where none answers. No JAX here: this runs anew for every message."""

import contextlib
import hashlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hush.network.flower.pipe import receive, send

SOCKET, LOG = "worker.sock", "worker.log"  # what lies in a node's folder
LONGEST_PATH = 100  # bytes: the operating system's bound for sockets is a little more
START_SECONDS = 180.0  # JAX on a small machine
ATTEMPTS = 3  # a worker may be killed at any time, and is asked again
BUSY = 75  # a worker's exit code where another holds the folder: that one will answer
REQUIRED = ("state", "data", "client")
_outlive_us: list[subprocess.Popen[bytes]] = []  # a process that is let go of while it runs is complained of
OPTIONAL = ("agree", "label", "epsilon", "again", "rehearse", "idle")


def ask(config: Mapping[str, Any], welcome: bytes, data: bytes) -> bytes:
    """What the worker of this node answers; `config` is the node's own, as its owner wrote it.

    Asking twice is harmless: a device repeats the bytes of an answer that it has made.
    """
    place, known_as, command = _settled(config)
    for _ in range(ATTEMPTS):
        try:
            with _connected(place, command) as connection:
                send(connection, known_as, welcome, data)
                return receive(connection, 1)[0]
        except ConnectionError:
            continue
    raise RuntimeError(f"the worker left {ATTEMPTS} times without an answer; the log on the node says why")


def _settled(config: Mapping[str, Any]) -> tuple[Path, bytes, list[str] | None]:
    """Where the worker listens, what its settings are known as, and how it is started, if that is left to us."""
    if "socket" in config:
        return _checked(Path(str(config["socket"]))), b"", None
    if missing := [name for name in REQUIRED if name not in config]:
        raise ValueError(
            f"--node-config must say {', '.join(REQUIRED)}, or the socket of a worker that runs; "
            f"missing: {', '.join(missing)}"
        )
    state = Path(str(config["state"])).absolute()
    chosen = {name: config[name] for name in (*REQUIRED, *OPTIONAL) if name in config} | {"state": str(state)}
    known_as = hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()
    command = [sys.executable, "-m", "hush.network.flower.worker", "--known-as", known_as]
    for name, value in chosen.items():
        if isinstance(value, bool):
            command += [f"--{name}"] * value
        else:
            command += [f"--{name}={value}"]
    return _checked(state / SOCKET), known_as.encode(), command


def _checked(path: Path) -> Path:
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise ValueError(f"the path of a socket has at most {LONGEST_PATH} bytes, found {path}: choose a shorter one")
    return path


@contextlib.contextmanager
def _connected(path: Path, command: list[str] | None) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        if not _reached(connection, path):
            if command is None:
                raise RuntimeError("no worker listens at the socket that the node's owner has named")
            _started(connection, path, command)
        yield connection


def _reached(connection: socket.socket, path: Path) -> bool:
    try:
        connection.connect(str(path))
    except (FileNotFoundError, ConnectionRefusedError):
        return False
    return True


def _started(connection: socket.socket, path: Path, command: list[str]) -> None:
    """Start a worker that outlives this process, and wait until one answers."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    until, process = time.monotonic() + START_SECONDS, _process(command, path.with_name(LOG))
    while not _reached(connection, path):
        if (code := process.poll()) == BUSY:  # another one is about to listen, or to leave
            process = _process(command, path.with_name(LOG))
        elif code is not None:
            raise RuntimeError("the worker did not start; the log on the node says why")
        if time.monotonic() > until:
            raise RuntimeError(f"the worker did not answer within {START_SECONDS:g} seconds")
        time.sleep(0.05)


def _process(command: list[str], log: Path) -> "subprocess.Popen[bytes]":
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        how: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": descriptor, "stderr": descriptor}
        process = subprocess.Popen(command, start_new_session=True, **how)
    finally:
        os.close(descriptor)
    _outlive_us.append(process)
    return process

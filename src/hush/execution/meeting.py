"""Processes meet before JAX starts: who is missing, is there twice or counts differently is told so, in words.

JAX, left to find out by itself, ends them without any. Process 0 listens at the coordinator's port, the others come
there and say who they are; when all have come it lets them go, and JAX takes the port.
"""

import json
import socket
import time
from contextlib import ExitStack, suppress
from typing import Any

SECONDS_BETWEEN_TRIES = 0.2
SECONDS_TO_SPEAK = 10.0  # of who has connected: whoever says nothing is none of ours
LONGEST = 1 << 12


def receive(address: tuple[str, int], bound: str, processes: int, seconds: float) -> None:
    """As process 0, wait until all others have come; `bound` is the address to listen at, nothing for all."""
    until = time.monotonic() + seconds
    with ExitStack() as stack:
        try:
            listener = stack.enter_context(_listening(bound, address[1]))
        except OSError as error:
            raise ValueError(
                f"process 0 cannot listen at port {address[1]} of this machine ({error.strerror}): choose another "
                "coordinator"
            ) from error
        come: dict[int, socket.socket] = {}
        reason = ""
        while len(come) < processes - 1 and not reason:
            if time.monotonic() > until:
                missing = ", ".join(str(index) for index in range(1, processes) if index not in come)
                reason = (
                    f"of {processes} processes, these have not come to {_shown(address)} in {seconds:g} s: {missing}"
                )
                break
            with suppress(OSError, ValueError):  # nobody yet, or a stranger
                line = stack.enter_context(listener.accept()[0])
                line.settimeout(SECONDS_TO_SPEAK)
                said = json.loads(_line(line))
                who, count = int(said["process"]), int(said["processes"])
                reason = _wrong(who, count, come, processes)
                come[len(come) + processes if reason else who] = line
        for line in come.values():
            with suppress(OSError):
                line.sendall(json.dumps({"refused": reason}).encode() + b"\n")
        if reason:
            raise ValueError(reason)


def come(address: tuple[str, int], process: int, processes: int, seconds: float) -> None:
    """As any other process, say who this is, and wait until all have come."""
    until, answer, trouble = time.monotonic() + seconds, b"", "nobody is there"
    while not answer and time.monotonic() < until:
        try:
            with socket.create_connection(address, timeout=max(0.1, until - time.monotonic())) as line:
                line.sendall(json.dumps({"process": process, "processes": processes}).encode() + b"\n")
                # Process 0 answers when its own time is up, if not before.
                line.settimeout(seconds + SECONDS_TO_SPEAK)
                answer = _line(line)
        except OSError as error:
            trouble = error.strerror or str(error)
        if not answer:
            time.sleep(SECONDS_BETWEEN_TRIES)
    if not answer:
        raise ValueError(
            f"no process 0 at {_shown(address)} within {seconds:g} s ({trouble}); is the coordinator right?"
        )
    try:
        refused = json.loads(answer)["refused"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"what answers at {_shown(address)} is no process of hush; is the coordinator right?"
        ) from error
    if refused:
        raise ValueError(str(refused))


def _wrong(who: int, count: int, come: dict[int, Any], processes: int) -> str:
    """Why a process that has come cannot take part; nothing if it can."""
    if count != processes:
        return (
            f"process {who} counts {count} processes, process 0 counts {processes}: processes must be the same in all"
        )
    if who in come or who == 0:
        return f"process {who} of {processes} is there twice: each must have a number of its own"
    return ""


def _listening(bound: str, port: int) -> socket.socket:
    if bound:
        family = socket.AF_INET6 if ":" in bound else socket.AF_INET
        made = socket.create_server((bound, port), family=family, backlog=1024)
    elif socket.has_dualstack_ipv6():
        made = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
    else:
        made = socket.create_server(("", port), backlog=1024)
    made.settimeout(SECONDS_BETWEEN_TRIES)
    return made


def _line(connection: socket.socket) -> bytes:
    """Up to the end of a line; nothing where the other end is closed before."""
    found = b""
    while not found.endswith(b"\n") and len(found) < LONGEST:
        part = connection.recv(LONGEST)
        if not part:
            return b""
        found += part
    return found


def _shown(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"

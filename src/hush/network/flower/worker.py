"""The device of a Flower node: a process that stays, with its data, its ledger and JAX, and answers at a socket.

    python -m hush.network.flower.worker --state FOLDER --data FILE --client 0 --agree DIGEST

A node's app starts it with the first message; or the owner does, under a user of its own, and then no code that Flower
brings can reach the data: only bytes go through the socket, and the guard admits them or does not.
"""

import argparse
import contextlib
import grp
import logging
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from hush.core.floats import WireError
from hush.network.agreement import Agreement, in_words
from hush.network.device import Device
from hush.network.flower.calling import BUSY, SOCKET
from hush.network.flower.pipe import receive, send
from hush.network.guard import Refused
from hush.network.joining import FEWEST_DIGITS, check_digest, prepared
from hush.network.messages import (
    DIGEST_BYTES,
    END,
    NEVER,
    RUN_BYTES,
    Declined,
    kind_of,
    read_end,
    read_told,
    read_welcome,
    write_declined,
    write_hello,
)
from hush.store.lock import FolderLock, InUse

IDLE_MINUTES = 60.0
CALL_SECONDS = 60.0  # for what is said through the socket, not for what is computed
UNSAID = "this device cannot take part; its owner's log says why"

log = logging.getLogger("hush.network.flower.worker")


class Attendant:
    """What the owner has settled, and the device once there is an agreement.

    What the server hears of a failure is what the guard says; errors may speak of data and are for the owner's log.
    """

    def __init__(self, owner: argparse.Namespace) -> None:
        self._owner, self._agree = owner, check_agreed(owner.agree)
        self._device: Device | None = None

    def answer(self, welcome: bytes, data: bytes) -> bytes:
        """What is said to a message: to nothing at all, hello."""
        if not data:
            pinned = bytes.fromhex(self._agree) if len(self._agree) == 2 * DIGEST_BYTES else b""
            return write_hello(pinned)
        try:
            device = self._agreed(Agreement(read_welcome(welcome).agreement))
            if kind_of(data) != END:
                return device.hear(data)
            device.finish(read_end(data))
            log.info("the run is over")
            return b""
        except (Refused, WireError) as reason:
            log.warning("declined: %s", reason)
            return _declined(data, str(reason))
        except Exception:
            log.exception("declined")
            return _declined(data, UNSAID)

    def _agreed(self, offered: Agreement) -> Device:
        """The device under this agreement, made when it is first asked for."""
        if self._device is not None and self._device.agreement == offered.digest:
            return self._device
        experiment, owner = offered.experiment, self._owner
        words = in_words(offered, experiment.algorithm, experiment.problem())
        log.info("the server asks for this:\n%s", "\n".join(f"  {name}: {text}" for name, text in words.items()))
        if not self._agree or not offered.digest.hex().startswith(self._agree):
            log.warning("to agree, start the node with agree=%s", offered.digest.hex())
            raise Refused(f"the owner of this device has not agreed to {offered.name}")
        options = (owner.label, owner.epsilon, owner.again, owner.rehearse)
        self._device = prepared(offered, owner.client, owner.data, Path(owner.state), *options)
        return self._device


def check_agreed(digest: str) -> str:
    """The digits by which an owner names an agreement; none at all for an owner who has not agreed yet."""
    return "" if digest.lower() in ("", "none") else check_digest(digest)


def stay(attendant: Attendant, listener: socket.socket, known_as: str) -> None:
    """Answer one caller after the other, until nobody has called for long, or one comes with other settings."""
    while True:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            log.info("nobody has called for long: good night")
            return
        # A caller that says nothing, or no message, costs nobody else an answer.
        with connection, contextlib.suppress(OSError, ValueError):
            connection.settimeout(CALL_SECONDS)
            settings, welcome, data = receive(connection, 3)
            if known_as and settings.decode() != known_as:
                log.info("the node has other settings now: a new worker takes over")
                listener.close()  # before the caller is let go, who would else come back to this one
                return
            send(connection, attendant.answer(welcome, data))


def listening(path: Path, group: str | None) -> socket.socket:
    """A socket for this user alone, or for a group's too. The folder is locked: an old socket is nobody's."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    if group is not None:
        os.chown(path, -1, grp.getgrnam(group).gr_gid)
        path.chmod(0o660)
    listener.listen()
    return listener


def main(arguments: Sequence[str] | None = None) -> int:
    """Stay until nobody calls."""
    owner = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    state = Path(owner.state)
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    attendant, lock = Attendant(owner), FolderLock(state)
    try:
        lock.acquire()
    except InUse as busy:
        log.info("%s", busy)
        return BUSY
    path = state / SOCKET if owner.socket is None else Path(owner.socket)
    with listening(path, owner.group) as listener:
        listener.settimeout(60 * owner.idle if owner.idle else None)
        stay(attendant, listener, owner.known_as)
        path.unlink(missing_ok=True)
    lock.release()
    return 0


def _declined(data: bytes, reason: str) -> bytes:
    try:
        told = read_told(data)
        return write_declined(Declined(told.run, told.number, told.phase, reason))
    except WireError:
        return write_declined(Declined(b"\0" * RUN_BYTES, NEVER, 0, reason))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hush.network.flower.worker", allow_abbrev=False)
    parser.add_argument("--state", required=True, help="the folder where this device keeps what must last")
    parser.add_argument("--data", required=True, help="an .npz, .parquet or .txt file, or module:function")
    parser.add_argument("--client", required=True, type=int, help="which client this device stands for")
    parser.add_argument("--agree", default="", help=f"{FEWEST_DIGITS} or more digits of the agreement's digest")
    parser.add_argument("--label", default="y", help="a table's column of labels")
    parser.add_argument("--epsilon", type=float, help="what may be spent at most, where that is less than was agreed")
    parser.add_argument("--again", action="store_true", help="take part in a new run under the same agreement")
    parser.add_argument("--rehearse", action="store_true", help="take part in rehearsals, which protect nobody")
    parser.add_argument("--idle", type=float, default=IDLE_MINUTES, help="minutes without a call; 0: stay for ever")
    parser.add_argument("--socket", help="where to listen, if not in the folder")
    parser.add_argument("--group", help="a group whose members may call, too")
    parser.add_argument("--known-as", default="", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())

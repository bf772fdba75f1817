"""Rounds by post: each client's node is sent what there is to tell, and replies are brought to the desk.

Flower keeps a message until its node fetches it, but a node that is killed takes along what it had fetched. So a node
that came anew is asked anew; a device repeats an answer that it has made.
"""

import time
from collections.abc import Callable, Collection
from typing import NamedTuple, Protocol

from hush.network.coordinator import Opened
from hush.network.desk import Desk, Gathered
from hush.network.flower.roster import Roster

POLL_SECONDS = 0.25
LOOK_SECONDS = 2.0  # so often it is asked which nodes are there
AGAIN_SECONDS = 5.0  # after an error, a node is left alone for so long
GREETING_SECONDS = 300.0  # a greeting is good for so long: the worker may have to start
FAREWELL_SECONDS = 30.0  # so long the end of a run waits for nodes to hear of it


class Seen(NamedTuple):
    """A node that is there."""

    node: int
    key: bytes  # the public key that it has proved to hold, as PEM
    since: str  # when it came: another time after a restart


class Reply(NamedTuple):
    """What came back for a message."""

    asked: str  # the message's number
    data: bytes
    error: str = ""


class Post(Protocol):
    """What carries bytes to nodes and back."""

    def nodes(self) -> Collection[Seen]:
        """The nodes that are there now."""

    def push(self, node: int, welcome: bytes, data: bytes, seconds: float) -> str | None:
        """Send a message that is good for so many seconds; its number, or None where it was not taken."""

    def pull(self, asked: Collection[str]) -> Collection[Reply]:
        """What has come for these messages, each from the node that it was sent to."""


class _Asked(NamedTuple):
    client: int
    seen: Seen
    about: tuple[int, ...]  # a round and its phase; nothing for a greeting


class ByPost:
    """An exchange over a post; one thread uses it."""

    def __init__(self, post: Post, desk: Desk, roster: Roster, say: Callable[[str], None] = print) -> None:
        self._post, self._desk, self._roster, self._say = post, desk, roster, say
        self._online: dict[int, Seen] = {}
        self._greeted: dict[int, Seen] = {}
        self._away: dict[int, Seen] = {}  # who was turned away, until it comes anew
        self._strangers: set[int] = set()
        self._asked: dict[str, _Asked] = {}  # what no reply has come to
        self._unheard: set[int] = set()  # whose answer of this phase was refused: the same would come again
        self._not_before: dict[int, float] = {}
        self._looked, self._welcome = -LOOK_SECONDS, b""

    def gather(
        self, opened: Opened, told: set[int], deadline: float, wanted: int, stopped: Callable[[], bool]
    ) -> Gathered | None:
        """Tell every client of the phase whose node is there, and hear their answers."""
        with self._desk.open(opened, told) as gathered:
            until, self._unheard = time.monotonic() + deadline, set()
            while len(gathered.answers) < wanted and gathered.waiting and time.monotonic() < until:
                if stopped():
                    return None
                self._greet()
                self._tell(gathered, until - time.monotonic())
                self._hear()
            self._asked = {number: each for number, each in self._asked.items() if not each.about}
            return gathered

    def wait_for(self, devices: int, stopped: Callable[[], bool]) -> bool:
        """Wait until so many devices are there; False if stopped."""
        while True:
            self._greet()
            if sum(map(self._is_here, self._online)) >= devices:
                return True
            if stopped():
                return False
            self._hear()

    def close(self) -> None:
        """Tell who is there that it is over, if it is, and wait a little until they have heard."""
        self._look(now=True)
        self._asked = {}
        for client, data in self._desk.offers([each for each in self._online if self._is_here(each)]).items():
            self._push(client, data, (), FAREWELL_SECONDS)
        until = time.monotonic() + FAREWELL_SECONDS
        while self._asked and time.monotonic() < until:
            for reply in self._post.pull(list(self._asked)):
                self._asked.pop(reply.asked, None)
            time.sleep(POLL_SECONDS)

    def _greet(self) -> None:
        """Say hello to nodes that are new, or came anew."""
        self._look()
        for client, seen in self._online.items():
            if seen not in (self._greeted.get(client), self._away.get(client)) and self._free(client, ()):
                self._push(client, b"", (), GREETING_SECONDS)

    def _tell(self, gathered: Gathered, seconds: float) -> None:
        about = gathered.opened.number, gathered.opened.phase
        concerned = [each for each in self._online if gathered.concerns(each) and each not in self._unheard]
        free = [each for each in concerned if self._free(each, about)]
        for client, data in self._desk.offers([each for each in free if self._is_here(each)]).items():
            self._push(client, data, about, max(seconds, 1.0))

    def _push(self, client: int, data: bytes, about: tuple[int, ...], seconds: float) -> None:
        seen = self._online[client]
        number = self._post.push(seen.node, self._welcome if data else b"", data, seconds)
        if number is None:
            self._leave_alone(client, "the message was not taken")
        else:
            self._asked[number] = _Asked(client, seen, about)

    def _hear(self) -> None:
        """Take what has come, or wait a moment."""
        replies = self._post.pull(list(self._asked)) if self._asked else ()
        for reply in replies:
            asked = self._asked.pop(reply.asked, None)
            if asked is None:
                continue
            if reply.error:
                self._leave_alone(asked.client, reply.error)
            elif asked.about:
                self._hear_answer(asked, reply.data)
            else:
                self._hear_greeting(asked, reply.data)
        if not replies:
            time.sleep(POLL_SECONDS)

    def _hear_greeting(self, asked: _Asked, data: bytes) -> None:
        try:
            self._welcome = self._desk.hello(asked.client, data, f"node {asked.seen.node}")
            self._greeted[asked.client] = asked.seen
        except ValueError as reason:
            self._away[asked.client] = asked.seen
            self._say(f"client {asked.client} is turned away: {reason}")

    def _hear_answer(self, asked: _Asked, data: bytes) -> None:
        try:
            if len(data) > (most := self._desk.longest_answer):
                raise ValueError(f"an answer has {most:,} bytes at most, found {len(data):,}")
            self._desk.hear(asked.client, data)
        except ValueError as reason:
            self._unheard.add(asked.client)
            self._say(f"client {asked.client} is not heard: {reason}")

    def _look(self, now: bool = False) -> None:
        """See which nodes are there, and forget what was sent to those who have come anew since."""
        if time.monotonic() - self._looked < LOOK_SECONDS and not now:
            return
        self._looked = time.monotonic()
        self._online = {}
        for seen in self._post.nodes():
            client = self._roster.client_of(seen.key)
            if client is not None:
                self._online[client] = seen
            elif seen.node not in self._strangers:
                self._strangers.add(seen.node)
                self._say(f"node {seen.node} has a key that is not in the roster: it is told nothing")
        lost = [key for key, each in self._asked.items() if self._online.get(each.client, each.seen) != each.seen]
        for number in lost:
            del self._asked[number]

    def _is_here(self, client: int) -> bool:
        return self._greeted.get(client) == self._online.get(client)

    def _free(self, client: int, about: tuple[int, ...]) -> bool:
        asked = any((each.client, each.about) == (client, about) for each in self._asked.values())
        return not asked and time.monotonic() >= self._not_before.get(client, 0.0)

    def _leave_alone(self, client: int, reason: str) -> None:
        self._not_before[client] = time.monotonic() + AGAIN_SECONDS
        self._say(f"client {client} is asked again in {AGAIN_SECONDS:g} seconds: {reason}")

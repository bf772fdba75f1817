"""Where server and devices meet: one side opens rounds and waits, the other asks and answers, in any number of threads.

Transports bring bytes here and carry bytes away; they know who is at the other end, and nothing of rounds.
"""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from math import inf

from hush.core.floats import WireError
from hush.network.coordinator import Coordinator, Opened
from hush.network.guard import Refused
from hush.network.messages import Declined, End, Welcome, read_hello, write_end, write_welcome
from hush.network.summing import Heard

PRESENT_SECONDS = 90.0  # a device that has not asked for so long is not there
COMING_SECONDS = 5.0  # one that says hello again before that has not been away
MOST_REFUSALS = 3  # of one client in a round
SLICE_SECONDS = 0.2  # so often a waiting server looks whether it was told to stop


@dataclass
class Gathered:
    """One phase of a round: who was told, who answered, who will not."""

    opened: Opened
    told: set[int] = field(default_factory=set)
    answers: dict[int, Heard] = field(default_factory=dict)
    raw: dict[int, bytes] = field(default_factory=dict)
    declined: dict[int, str] = field(default_factory=dict)
    refusals: Counter[int] = field(default_factory=Counter)
    waiting: set[int] = field(init=False)  # who may still answer

    def __post_init__(self) -> None:
        self.waiting = set(self.opened.clients)

    def concerns(self, client: int) -> bool:
        """Whether this client is asked, and may still answer."""
        return client in self.waiting

    def knows(self, client: int, data: bytes) -> bool:
        """Whether this very answer is here already; one client cannot have two."""
        if client in self.raw and self.raw[client] != data:
            raise Refused(f"client {client} has answered round {self.opened.number} already, with another answer")
        return client in self.raw


class Desk:
    """One for a federation; all of it may be called from any thread.

    note   is told of everything that happens, before it has any effect: a journal
    """

    def __init__(
        self, coordinator: Coordinator, agreement: str, note: Callable[..., None] = lambda event, **facts: None
    ) -> None:
        self._coordinator, self._agreement, self._note = coordinator, agreement, note
        self._turn = threading.Condition()
        self._current: Gathered | None = None
        self._over: str | None = None
        self._idle_refusals: Counter[int] = Counter()  # while no round was open
        self._watchers: list[Callable[[], object]] = []
        # When each device last asked, by a clock that only goes forward: the other is set anew now and then.
        self.visitors: dict[int, float] = {}

    # What a transport calls.

    def hello(self, client: int, data: bytes, name: str = "") -> bytes:
        """A device's first words: it is told what is run here, or why it cannot take part."""
        hello = read_hello(data)
        self.check_number(client)
        pinned, offered = hello.agreement, self._coordinator.agreement
        if pinned and pinned != offered:
            raise Refused(
                f"this device has agreed to {pinned.hex()[:16]}, and here {offered.hex()[:16]} is run: its owner must "
                "look at the new agreement"
            )
        with self._turn:
            if time.monotonic() - self.visitors.get(client, -inf) > COMING_SECONDS:
                self._note("came", client=client, name=name, version=hello.version)
            self._saw(client)
            self._turn.notify_all()
        return write_welcome(Welcome(self._coordinator.run, self._agreement))

    def offers(self, clients: Collection[int]) -> dict[int, bytes]:
        """What there is to tell these devices now: a round, or the end; nothing yet to those who are not named.

        Whoever is told is entered in the journal first, all in one entry.
        """
        for client in clients:
            self.check_number(client)
        with self._turn:
            for client in clients:
                self._saw(client)
            if self._over is not None:
                return {client: write_end(End(self._used(client), self._over)) for client in clients}
            here = self._current
            if here is None:
                return {}
            concerned = [client for client in clients if here.concerns(client)]
            if new := [client for client in concerned if client not in here.told]:
                self._note("told", round=here.opened.number, phase=here.opened.phase, clients=new)
                here.told.update(new)
            opened = here.opened
        found: dict[int, bytes] = {}
        for client in concerned:
            with contextlib.suppress(Refused):  # its step of a sum has ended meanwhile: there is nothing to tell it now
                found[client] = self._coordinator.tell(opened, client)
        return found

    def offered(self, client: int) -> bytes | None:
        """The same for one device."""
        return self.offers((client,)).get(client)

    def hear(self, client: int, data: bytes) -> None:
        """A device's answer; refused, with the reason, where it is none to the open round."""
        self.check_number(client)
        with self._turn:
            self._saw(client)
            here = self._current
        try:
            if here is None:
                raise Refused("no round is open")
            if here.refusals[client] >= MOST_REFUSALS:
                raise Refused(
                    f"{MOST_REFUSALS} answers of client {client} were refused in this round: no more are read"
                )
            if here.knows(client, data):
                return  # it was not sure that the first had arrived
            self._enter(here, client, data, self._coordinator.accept(here.opened, client, data))
        except (Refused, WireError) as reason:
            self._refuse(here, client, str(reason))
            raise

    def watch(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Be called whenever there may be something new to tell, until what is returned is called."""
        self._watchers.append(callback)
        return lambda: self._watchers.remove(callback)

    def check_number(self, client: int) -> None:
        """Refuse a client that this federation does not have."""
        clients = self._coordinator.problem.population.clients
        if not 0 <= client < clients:
            raise Refused(f"this federation has clients 0 to {clients - 1}; the credential is that of client {client}")

    @property
    def over(self) -> bool:
        """Whether all who ask are told the end."""
        return self._over is not None

    @property
    def longest_answer(self) -> int:
        """How many bytes a message to the server has at most."""
        return max(self._coordinator.longest_answer, 8192)

    # What the server calls.

    def gather(
        self,
        opened: Opened,
        told: set[int],
        deadline: float,
        wanted: int,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Gathered | None:
        """Open a phase and wait for as many answers as are wanted, or until the deadline; None if stopped.

        `told` are those who were told before the server was last stopped.
        """
        with self.open(opened, told) as gathered, self._turn:
            until = time.monotonic() + deadline
            while len(gathered.answers) < wanted and gathered.waiting and time.monotonic() < until:
                if stopped():
                    return None
                self._turn.wait(min(max(until - time.monotonic(), 0), SLICE_SECONDS))
            return gathered

    @contextlib.contextmanager
    def open(self, opened: Opened, told: set[int]) -> Iterator[Gathered]:
        """A phase that devices can ask for and answer; after it, nobody can."""
        gathered = Gathered(opened, set(told))
        with self._turn:
            self._current = gathered
        self._notify()
        try:
            yield gathered
        finally:
            with self._turn:
                self._current = None

    def wait_for(self, devices: int, stopped: Callable[[], bool] = lambda: False) -> bool:
        """Wait until so many devices are there; False if stopped."""
        with self._turn:
            while self.present < devices:
                if stopped():
                    return False
                self._turn.wait(SLICE_SECONDS)
        return True

    def end(self, reason: str) -> None:
        """Tell all who ask that it is over."""
        with self._turn:
            self._over = reason
        self._notify()

    @property
    def present(self) -> int:
        """How many devices are there."""
        return sum(self.is_present(client) for client in list(self.visitors))

    def is_present(self, client: int) -> bool:
        """Whether a device has asked of late."""
        return time.monotonic() - self.visitors.get(client, -inf) < PRESENT_SECONDS

    def _enter(self, here: Gathered, client: int, data: bytes, found: Heard | Declined) -> None:
        number, phase = here.opened.number, here.opened.phase
        with self._turn:
            if self._current is not here:
                raise Refused(f"round {number} is closed: the answer came too late")
            if here.knows(client, data):
                return  # the same came twice at once
            if client not in here.told:  # it was told before a crash that took the journal with it
                self._note("told", round=number, phase=phase, clients=[client])
                here.told.add(client)
            if isinstance(found, Declined):
                self._note("declined", round=number, phase=phase, client=client, reason=found.reason)
                here.declined[client] = found.reason
            else:
                counted = {"bits": found.bits} if found.bits else {}
                self._note(found.event, round=number, phase=phase, client=client, **counted, bytes=len(data))
                here.answers[client] = found
            here.raw[client] = data
            here.waiting.discard(client)
            self._turn.notify_all()

    def _refuse(self, here: Gathered | None, client: int, reason: str) -> None:
        """A few of a round are noted: a device that will not stop must not fill the disk."""
        with self._turn:
            refusals = self._idle_refusals if here is None else here.refusals
            if refusals[client] < MOST_REFUSALS:
                refusals[client] += 1
                self._note("refused", client=client, reason=reason)
            if here is not None and refusals[client] >= MOST_REFUSALS:
                here.waiting.discard(client)
            self._turn.notify_all()

    def _used(self, client: int) -> tuple[int, ...]:
        return tuple(int(each[client]) for each in self._coordinator.used)

    def _saw(self, client: int) -> None:
        self.visitors[client] = time.monotonic()

    def _notify(self) -> None:
        with self._turn:
            self._turn.notify_all()
        for callback in list(self._watchers):
            callback()

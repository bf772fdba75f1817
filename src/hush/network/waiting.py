"""Devices that wait for news at a server, on its event loop: a round that opens is told to all of them at once.

Files and compiled programs are never waited for on the loop: the desk is asked in threads of a small pool.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, ParamSpec, Protocol, TypeVar

from hush.network.desk import Desk
from hush.network.guard import Refused
from hush.network.identities import Identity, Stranger

THREADS = 4
LOOK_SECONDS = 0.05  # so often a server that closes looks who is still to be told

logger = logging.getLogger(__name__)
Arguments = ParamSpec("Arguments")
Found = TypeVar("Found")


class Identifies(Protocol):
    """Who knows devices by their certificates: `identities.Identities`."""

    def identify(self, pem: bytes) -> Identity:
        """Who holds this certificate; `Stranger` says why nobody may."""


class Place(NamedTuple):
    """Where one device waits: what it showed, and what it will be told, or why it will not."""

    certificate: bytes
    news: asyncio.Future[bytes | Exception]


class WaitingRoom:
    """The desk as devices on an event loop meet it. Who they are, their certificates alone say, at every call."""

    def __init__(self, desk: Desk, identities: Identifies) -> None:
        self._desk, self._identities = desk, identities
        self._pool = ThreadPoolExecutor(THREADS, "hush-desk")
        self._places: dict[int, Place] = {}
        self._due: set[int] = set()  # whose news are to be looked up
        self._news = asyncio.Event()
        self._hearing: set[int] = set()
        self._parted: set[int] = set()  # who knows that it is over
        self._closing = False

    async def hello(self, certificate: bytes, data: bytes) -> bytes:
        """A device's first words."""

        def greeted() -> bytes:
            found = self._identities.identify(certificate)
            return self._desk.hello(found.client, data, found.name)

        return await self._apart(greeted)

    async def answer(self, certificate: bytes, data: bytes) -> None:
        """A device's answer; one at a time, so that no device keeps all threads busy."""
        client = await self._apart(self._client, certificate)
        if client in self._hearing:
            raise Refused(f"another answer of client {client} is being read")
        self._hearing.add(client)
        try:
            await self._apart(self._desk.hear, client, data)
        finally:
            self._hearing.discard(client)

    async def next(self, certificate: bytes, seconds: float) -> bytes:
        """What there is to tell, as soon as there is something; nothing after so long."""
        client = await self._apart(self._client, certificate)
        if self._closing:
            return b""
        place = Place(certificate, asyncio.get_running_loop().create_future())
        if client in self._places:
            _tell(self._places[client], b"")  # the device has called anew, and does not wait there any more
        self._places[client] = place
        self._look_up({client})
        try:
            async with asyncio.timeout(seconds):
                found = await place.news
        except TimeoutError:
            return b""
        finally:
            if self._places.get(client) is place:
                del self._places[client]
        if isinstance(found, Exception):
            raise found
        if found and self._desk.over:
            self._parted.add(client)
        return found

    def all_due(self) -> None:
        """There may be news for everybody."""
        self._look_up(set(self._places))

    async def attend(self) -> None:
        """Look news up as they become due, for all in one call, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            due, self._due = self._due, set()
            asked = {client: self._places[client].certificate for client in due if client in self._places}
            found: Mapping[int, bytes | Exception]
            try:
                found = await self._apart(self._offers, asked)
            except Exception as error:  # nobody is told anything, and each device is told that much
                logger.exception("what there is to tell could not be looked up")
                found = dict.fromkeys(asked, RuntimeError(repr(error)))
            for client, news in found.items():
                if client in self._places:
                    _tell(self._places[client], news)

    async def farewell(self, seconds: float) -> None:
        """Once the run is over: wait until every device that is there knows, but not for long."""
        until = asyncio.get_running_loop().time() + seconds
        while self._desk.over and asyncio.get_running_loop().time() < until:
            if all(client in self._parted for client in list(self._desk.visitors) if self._desk.is_present(client)):
                return
            await asyncio.sleep(LOOK_SECONDS)

    def release(self) -> None:
        """Let everybody go who still waits."""
        self._closing = True
        for place in self._places.values():
            _tell(place, b"")

    def close(self) -> None:
        """Nobody comes any more."""
        self._pool.shutdown()

    def _look_up(self, clients: set[int]) -> None:
        self._due |= clients
        self._news.set()

    def _client(self, certificate: bytes) -> int:
        client = self._identities.identify(certificate).client
        self._desk.check_number(client)
        return client

    def _offers(self, asked: Mapping[int, bytes]) -> dict[int, bytes | Exception]:
        """What there is for those who wait; they may have been revoked while they did."""
        strangers: dict[int, bytes | Exception] = {}
        for client, certificate in asked.items():
            try:
                self._client(certificate)
            except Stranger as reason:
                strangers[client] = reason
        return strangers | self._desk.offers([client for client in asked if client not in strangers])

    async def _apart(
        self, call: Callable[Arguments, Found], *arguments: Arguments.args, **named: Arguments.kwargs
    ) -> Found:
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: call(*arguments, **named))


def _tell(place: Place, news: bytes | Exception) -> None:
    if not place.news.done():
        place.news.set_result(news)

"""Devices in this very process: every byte is made, read and counted as between machines, and nothing else is."""

from collections.abc import Callable, Mapping

from hush.network.coordinator import Opened
from hush.network.desk import Desk, Gathered
from hush.network.device import Device


class InMemory:
    """An exchange that asks its devices one after the other, as far as they are there.

    carry   what happens to bytes on their way, by (client, bytes, whether it is an answer): nothing at all, or what a
            test makes of it
    """

    def __init__(
        self,
        desk: Desk,
        devices: Mapping[int, Device],
        carry: Callable[[int, bytes, bool], bytes] = lambda client, data, up: data,
    ) -> None:
        self.desk, self.devices, self._carry = desk, devices, carry

    def gather(
        self, opened: Opened, told: set[int], deadline: float, wanted: int, stopped: Callable[[], bool]
    ) -> Gathered | None:
        """Ask every client of the phase that is here, until as many have answered as are wanted."""
        with self.desk.open(opened, told) as gathered:
            for client in opened.clients:
                if stopped():
                    return None
                if len(gathered.answers) >= wanted:
                    break
                if client in self.devices:
                    self._ask(client)
            return gathered

    def wait_for(self, devices: int, stopped: Callable[[], bool]) -> bool:
        """They are all here."""
        return True

    def _ask(self, client: int) -> None:
        data = self.desk.offered(client)
        if data is None:
            return
        answer = self.devices[client].hear(self._carry(client, data, False))
        try:
            self.desk.hear(client, self._carry(client, answer, True))
        except ValueError:
            return  # it is in the journal, and counts as no answer

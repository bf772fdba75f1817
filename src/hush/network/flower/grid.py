"""Flower's grid as a post."""

import hmac
import os
from collections.abc import Collection
from typing import NamedTuple

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from hush.network.flower.exchange import Reply, Seen
from hush.network.flower.records import ANSWER, NONCE, TOLD

NONCE_BYTES = 16


class _Sent(NamedTuple):
    node: int
    nonce: bytes


class GridPost:
    """Messages through a SuperLink.

    The SuperLink asks that a reply names the node that was asked, but not that this node has sent it. So each message
    holds a number that only the node can know which was given it, and a reply without that number is none.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._sent: dict[str, _Sent] = {}

    def nodes(self) -> Collection[Seen]:
        """The nodes that are there now."""
        return [Seen(each.node_id, each.public_key, each.last_activated_at) for each in self._grid.get_nodes()]

    def push(self, node: int, welcome: bytes, data: bytes, seconds: float) -> str | None:
        """Send one message."""
        nonce = os.urandom(NONCE_BYTES)
        told = ConfigRecord({"welcome": welcome, "data": data})
        content = RecordDict({TOLD: told, NONCE: ConfigRecord({"nonce": nonce})})
        kind = MessageType.TRAIN if data else MessageType.QUERY
        number = next(iter(self._grid.push_messages([Message(content, node, kind, ttl=seconds)])), None)
        if number:
            self._sent[number] = _Sent(node, nonce)
        return number or None

    def pull(self, asked: Collection[str]) -> Collection[Reply]:
        """What has come for these messages; others are forgotten."""
        self._sent = {number: self._sent[number] for number in asked}
        return [self._read(message) for message in self._grid.pull_messages(list(asked))]

    def _read(self, message: Message) -> Reply:
        number = message.metadata.reply_to_message_id
        sent = self._sent.get(number)
        if message.has_error():
            return Reply(number, b"", f"Flower's error {message.error.code}: {message.error.reason}"[:1000])
        try:
            nonce, data = message.content[NONCE]["nonce"], message.content[ANSWER]["data"]
        except KeyError as missing:
            return Reply(number, b"", f"a reply must have a record {missing}")
        if sent is None or message.metadata.src_node_id != sent.node or not _same(nonce, sent.nonce):
            return Reply(number, b"", "the reply is not of the node that was asked")
        if not isinstance(data, bytes):
            return Reply(number, b"", f"a reply must be bytes, found {type(data).__name__}")
        return Reply(number, data)


def _same(found: object, expected: bytes) -> bool:
    return isinstance(found, bytes) and hmac.compare_digest(found, expected)

"""A channel that does not sum: the server is handed every message by itself."""

import jax

from hush.core.contract import Channel, Draw, Mixing, Statistics
from hush.core.keys import Key
from hush.core.plain import Digital


class Each(Channel):
    """Hands the server every message by itself, for rules such as Median.

    They come stacked, [clients, d], with their weights and with who was there (`hush.core.contract.Stacked`): a round's
    messages are all held in memory. Nothing that rests on seeing a sum alone is private then.
    """

    hands_each = True

    def __call__(self, key: Key, draw: Draw, number: int | jax.Array, statistics: Statistics) -> Mixing:
        return Digital()(key, draw, number, statistics)

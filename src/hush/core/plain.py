"""The two pieces that an algorithm has unless told otherwise: a channel that changes nothing, a server that adds."""

import jax

from hush.core.contract import Channel, Draw, Message, Mixing, ServerRule, State, Statistics
from hush.core.keys import Key
from hush.core.problem import Vector
from hush.core.schedules import Rate, check_rate, rate


class Digital(Channel):
    """Sums the messages as they were sent, by their weights.

    a = weights, no noise.
    """

    def __call__(self, key: Key, draw: Draw, number: int | jax.Array, statistics: Statistics) -> Mixing:
        return Mixing(draw.weights * draw.active, 0.0)


class Add(ServerRule):
    """Adds the mean update to the model, times a step size.

    x ← x + η_g · received: paper fedpaq-dp, Algorithm 1, line 8.
    """

    lr: Rate = 1.0
    provides = ("model",)
    receives = ("update",)

    def __check_init__(self) -> None:
        check_rate("server lr", self.lr)

    def init(self, model: Vector) -> State:
        return {"model": model}

    def __call__(self, key: Key, state: State, received: Message, coverage: jax.Array) -> State:
        return {"model": state["model"] + rate(self.lr, state["round"]) * received["update"]}

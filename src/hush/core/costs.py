"""What a round costs, before it is run."""

import equinox as eqx
import jax

from hush.core.algorithm import Algorithm, InTurn
from hush.core.coding import BITS_PER_NUMBER
from hush.core.flat import flat_shape
from hush.core.keys import root
from hush.core.problem import Problem


def bits_of_round(algorithm: Algorithm | InTurn, problem: Problem) -> int:
    """The uplink bits that a round costs at the least, before it is run: exact where messages have a fixed length.

    What a message's length depends on its numbers, or who comes on chance, counts as nothing.
    """
    model = flat_shape(problem)
    total = 0
    for phase in algorithm.phases:
        if not phase.channel.analogue and not phase.cohort.padded:
            message = jax.eval_shape(phase.local.template, model)
            places = phase.cohort.slots(problem.population.clients)
            total += places * sum(_message_bits(phase, vector.size) for vector in message.values())
    return total


def _message_bits(phase: Algorithm, dimension: int) -> int:
    cost = BITS_PER_NUMBER * dimension
    vector = jax.ShapeDtypeStruct((dimension,), "float32")
    for stage in phase.uplink:
        if hasattr(stage, "fixed_bits"):
            cost = stage.fixed_bits(dimension) or 0
            continue
        info = eqx.filter_eval_shape(lambda v, stage=stage: stage(root(0), v, stage.init(v))[2], vector)
        if "bits" in info:
            cost = info["bits"] if isinstance(info["bits"], int) else 0
    return cost

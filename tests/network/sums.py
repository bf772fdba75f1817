"""A run whose messages are summed, as a plain loop in whole numbers: what the network is held to."""

import jax
import jax.numpy as jnp
import numpy as np

from hush.core import round as rounds
from hush.core.algorithm import init_client, init_server
from hush.core.contract import Statistics
from hush.core.flat import initial
from hush.core.keys import at, root


def few_steps(algorithm):
    """What a sum moves by where some numbers are rounded the other way: far less than the noise of one client.

    Whole numbers are the same where the models before them are, to the last bit, and compilers differ there.
    """
    stage = algorithm.uplink[-1]
    steps = 5
    assert stage.noise.std > 4 * steps
    return steps / (float(stage.scale) * algorithm.channel.threshold)


def by_hand(algorithm, problem, seed, survivors):
    """Only those in the sum of each round count; a round of fewer than the threshold moves nothing."""
    run = at(root(seed), "repetition", 0)
    model = initial(problem, at(run, "init"))
    width, fewest = algorithm.uplink[-1].width, algorithm.channel.threshold
    server, step = init_server(algorithm, model), jax.jit(lambda *each: rounds.answer(algorithm, *each))
    for number, here in enumerate(survivors):
        key = rounds.phase_key(run, number, 0)
        drawn = rounds.draw(algorithm, key, problem.population, number)
        told = rounds.broadcast_of_round(algorithm, key, server)
        total = np.zeros(model.size, object)  # Python's whole numbers
        for client in here:
            made = step(rounds.client_key(key, client), told, init_client(algorithm, model), problem.client(client))
            total = total + np.asarray(made.codes["update"]["integers"]).astype(object)
        if len(here) >= fewest:
            settled = rounds.without(drawn, jnp.isin(drawn.ids, jnp.asarray(here)))
            mixing = rounds.mix(algorithm, key, settled, number, Statistics())
            whole = {"update": jnp.asarray((total % 2**width).astype(np.uint32))[None]}
            received = rounds.receive(algorithm, key, mixing, settled.active, whole, told["common"])
            server = rounds.server_step(algorithm, key, server, received, settled.coverage)
        server = rounds.next_round(server)
    return np.asarray(server["model"])

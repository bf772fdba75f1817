"""A run in which answers are lost, as a plain loop: what the network is held to."""

import jax
import jax.numpy as jnp
import numpy as np

from hush.core import round as rounds
from hush.core.algorithm import init_client, init_server
from hush.core.contract import Statistics
from hush.core.flat import initial
from hush.core.keys import at, root


def by_hand(algorithm, problem, lost, rounds_to_run, seed=0):
    """Who is lost, as (round, client), is as if it had not been drawn; its weight goes to the others of its phase.

    A phase that nobody answers leaves everything as it was.
    """
    run = at(root(seed), "repetition", 0)
    start = initial(problem, at(run, "init"))
    server, clients = init_server(algorithm, start), problem.population.clients
    memories = [[init_client(phase, start) for _ in range(clients)] for phase in algorithm.phases]
    steps = [jax.jit(lambda *each, phase=phase: rounds.client_step(phase, *each)[:2]) for phase in algorithm.phases]
    for number in range(rounds_to_run):
        for index, phase in enumerate(algorithm.phases):
            key = rounds.phase_key(run, number, index)
            draw = rounds.draw(phase, key, problem.population, number)
            ids, weights, active = (np.asarray(part).tolist() for part in draw[:3])
            weighs = {client: weight for client, weight, on in zip(ids, weights, active, strict=True) if on}
            here = [client for client in weighs if (number, client) not in lost]
            if not here:
                continue
            told = rounds.broadcast_of_round(phase, key, server)
            scale = sum(weighs.values()) / sum(weighs[client] for client in here)
            total = {name: np.zeros(vector.size) for name, vector in phase.local.template(start).items()}
            for client in here:
                own = rounds.client_key(key, client)
                sent, memories[index][client] = steps[index](own, told, memories[index][client], problem.client(client))
                total = {name: total[name] + scale * weighs[client] * np.asarray(sent[name], float) for name in total}
            received = {name: jnp.asarray(vector, jnp.float32) for name, vector in total.items()}
            mixing = rounds.mix(phase, rounds.channel_key(run, index), draw, number, Statistics())
            received = rounds.add_noise(key, mixing, received)
            server = rounds.server_step(phase, key, server, received, draw.coverage)
        server = rounds.next_round(server)
    return np.asarray(server["model"])

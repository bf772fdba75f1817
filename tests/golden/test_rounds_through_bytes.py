"""A round made of its pure functions one by one, with real bytes for every message, against the simulator."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from round_cases import CASES, RECORDS, ROUNDS, digits, simulated

from hush.algorithms import ALGORITHMS
from hush.core import round as rounds
from hush.core.algorithm import init_client, init_server
from hush.core.contract import Statistics
from hush.core.flat import initial
from hush.core.keys import at, root
from hush.uplink import STAGES

# What a rounding that differs between the two ways may do: a quantiser may then fall on the level beside.
FEW = 0.01


def through_bytes(algorithm, problem, rounds_to_run=ROUNDS):
    """Server and clients as two machines would have it: only bytes and what is broadcast go between them."""
    run = at(root(0), "repetition", 0)
    model = initial(problem, at(run, "init"))
    server = init_server(algorithm, model)
    memories = [[init_client(phase, model) for _ in range(problem.population.clients)] for phase in algorithm.phases]
    sent_bits = np.zeros(problem.population.clients, np.int64)
    steps = [jax.jit(lambda *each, phase=phase: rounds.answer(phase, *each)) for phase in algorithm.phases]
    for number in range(rounds_to_run):
        for index, phase in enumerate(algorithm.phases):
            key, air = rounds.phase_key(run, number, index), rounds.channel_key(run, index)
            draw = rounds.draw(phase, key, problem.population, number)
            told = rounds.broadcast_of_round(phase, key, server)
            arrived = []
            for client, active in zip(draw.ids.tolist(), draw.active.tolist(), strict=True):
                if not active:
                    nothing = jax.tree.map(jnp.zeros_like, phase.local.template(model))
                    summed = phase.channel.sums_codes
                    arrived.append(jax.tree.map(lambda part: part.astype(jnp.uint32), nothing) if summed else nothing)
                    continue
                own = rounds.client_key(key, client)
                made = steps[index](own, told, memories[index][client], problem.client(client))
                memories[index][client] = made.state
                payloads = rounds.pack(phase, made.codes, model)
                bits = 8 * sum(map(len, payloads.values()))
                if not phase.channel.analogue:
                    assert bits == int(made.info["bits"])
                    sent_bits[client] += bits
                arrived.append(rounds.unpack(phase, payloads, model))
            messages = jax.tree.map(lambda *each: jnp.stack(each), *arrived)
            known = rounds.statistics_of(messages["update"], draw.active) if phase.channel.aware else Statistics()
            mixing = rounds.mix(phase, air, draw, number, known)
            received = rounds.receive(phase, key, mixing, draw.active, messages, told["common"])
            server = rounds.server_step(phase, key, server, received, draw.coverage)
        server = rounds.next_round(server)
    return np.asarray(server["model"]), sent_bits


def close(found, expected):
    """All but a few numbers, which may have been rounded to the level beside."""
    apart = np.abs(found - expected) > 1e-5 + 1e-4 * np.abs(expected)
    return apart.mean() <= FEW


ORDINARY = ("rotated with feedback",)


@pytest.mark.parametrize(
    "name", [name if name in ORDINARY else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_bytes_between_server_and_clients_change_nothing(name):
    """The same model as the simulator's, to rounding, the same bits, and both as they were recorded."""
    algorithm, recorded = CASES[name](), np.load(RECORDS)
    here = simulated(algorithm)
    model, bits = through_bytes(algorithm, digits())
    assert close(model, here["model"])
    assert close(here["model"], recorded[f"{name}/model"])
    elias = "elias" in name  # whose length depends on every number
    np.testing.assert_allclose(here["bits"], recorded[f"{name}/bits"], rtol=0.01 if elias else 0)
    if "over_the_air" not in name:
        np.testing.assert_allclose(bits, here["bits"], rtol=0.01 if elias else 0)


def test_every_algorithm_and_every_stage_is_among_the_cases():
    assert not [name for name in ALGORITHMS if not any(case.startswith(name) for case in CASES)]
    stages = [stage for make in CASES.values() for phase in make().phases for stage in phase.uplink]
    wrapped = [stage.inner for stage in stages if hasattr(stage, "inner")]
    assert set(STAGES.values()) <= {type(stage) for stage in (*stages, *wrapped)}

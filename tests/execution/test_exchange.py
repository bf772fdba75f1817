"""States that lie on one device and are worked on by another: held to a plain table, bit for bit."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import hush
from hush.execution import room
from hush.execution.exchange import Cut, Whole
from hush.execution.mesh import CLIENTS, LANES
from hush.execution.simulation import Simulation
from hush.execution.turns import Turns
from hush.uplink import ErrorFeedback, TopK

pytestmark = pytest.mark.slow

# As many places as come out even, a few less, and many more than devices; one client at once, and several.
SHAPES = [Turns(6, 2, 1, 3), Turns(5, 2, 3, 1), Turns(7, 4, 1, 2), Turns(29, 4, 4, 2)]
WIDTH = 3


@cache
def exchanged(turns):
    """One program: what each device is lent, [places, …], and the table once all is returned with new bits."""
    mesh = Mesh(np.array(jax.devices()[: turns.devices]).reshape(1, -1), (LANES, CLIENTS))
    rows = P(CLIENTS)

    def on_device(table, clients, active):
        cut = Cut.between(turns, clients, active)
        lent, where = cut.lent(table)
        states = jax.tree.map(lambda leaf: leaf[where], lent)
        back = cut.returned(table, jax.tree.map(changed, states))
        return jax.tree.map(turns.of_all_devices, states), back

    whole = P()
    return jax.jit(
        jax.shard_map(on_device, mesh=mesh, in_specs=(rows, whole, whole), out_specs=(whole, rows), check_vma=False)
    )


def changed(leaf):
    """Other bits, none of which a sum would survive."""
    return leaf ^ np.uint32(0x5A5A5A5A)


@pytest.mark.parametrize("turns", SHAPES)
@given(seed=st.integers(0, 2**31), skewed=st.booleans())
@settings(max_examples=20)
def test_states_come_to_who_works_on_them_and_go_back(turns, seed, skewed):
    """Any words of 32 bits come through; also where one device owns all that is asked for."""
    draws, each = np.random.default_rng(seed), 3 * turns.places
    members = each * turns.devices
    table = draws.integers(0, 2**32, (members, WIDTH), dtype=np.uint32)
    able = np.arange(0, members, turns.devices) if skewed else np.arange(members)
    clients = draws.choice(able, turns.places, replace=False).astype(np.int32)
    active = draws.random(turns.places) < 0.8
    dealt = table.reshape(each, turns.devices, WIDTH).swapaxes(0, 1).reshape(members, WIDTH)
    lent, back = exchanged(turns)(dealt, clients, active)
    np.testing.assert_array_equal(np.asarray(lent)[active], table[clients[active]])
    expected = table.copy()
    expected[clients[active]] = changed(table[clients[active]])
    found = np.asarray(back).reshape(turns.devices, each, WIDTH).swapaxes(0, 1).reshape(members, WIDTH)
    np.testing.assert_array_equal(found, expected)


def test_floats_keep_their_signs_and_what_is_no_number():
    odd = np.array([-0.0, np.nan, -np.inf, 1e-45], np.float32)
    turns, table = Turns(4, 2, 1, 2), np.tile(odd[:, None], (1, WIDTH))

    def on_device(rows, clients):
        cut = Cut.between(turns, clients, jnp.ones(4, bool))
        lent, where = cut.lent(rows)
        return cut.returned(jnp.zeros_like(rows), lent[where])

    mesh = Mesh(np.array(jax.devices()[:2]), (CLIENTS,))
    program = jax.shard_map(on_device, mesh=mesh, in_specs=(P(CLIENTS), P()), out_specs=P(CLIENTS), check_vma=False)
    back = np.asarray(jax.jit(program)(table, np.array([3, 0, 1, 2], np.int32)))
    np.testing.assert_array_equal(back.view(np.uint32), table.view(np.uint32))


def test_a_whole_table_drops_who_did_not_take_part():
    turns, mesh = Turns(3, 1, 1, 3), Mesh(np.array(jax.devices()[:1]), (CLIENTS,))

    def on_device(table):
        whole = Whole(turns, jnp.array([4, 0, 2]), jnp.array([True, False, True]))
        lent, where = whole.lent(table)
        return whole.returned(table, -lent[where])

    program = jax.shard_map(on_device, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False)
    np.testing.assert_array_equal(jax.jit(program)(jnp.arange(1.0, 6.0)), [1, 2, -3, 4, -5])


LOCAL = {"clients": 3, "steps": 2, "lr": 0.1}
REMEMBERING = {
    "scaffold": lambda: hush.scaffold(**LOCAL),
    "error feedback": lambda: hush.Algorithm(
        hush.cohort.Uniform(3), hush.fedavg(**LOCAL).local, (ErrorFeedback(TopK(4)),)
    ),
    "ditto": lambda: hush.ditto(**LOCAL),
}


def advanced(name, problem, rounds=5, **how):
    simulation = Simulation(REMEMBERING[name](), problem, seed=5, **how)
    simulation.advance(rounds)
    return simulation


def shards(states):
    return [shard.data for leaf in jax.tree.leaves(states) for shard in leaf.addressable_shards]


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_each_device_has_its_part_of_the_states_alone(unequal, devices):
    """Of 7 clients, rounded up: halves on two devices, quarters on four; together they are there once."""
    streamed = advanced("scaffold", unequal, devices=devices, streamed=True)
    table, dimension = streamed._state.clients, streamed.dimension
    assert {part.shape for part in shards(table)} == {(1, -(-7 // devices), dimension)}
    assert sum(part.nbytes for part in shards(table)) == sum(leaf.nbytes for leaf in jax.tree.leaves(table))
    said = streamed._supply.memory["what the clients of a window remember"]
    assert said >= sum(part.nbytes for part in shards(table))


def test_the_room_for_states_is_a_devices_own(unequal, monkeypatch):
    """With room for so many bytes on each, two devices have windows of twice as many rounds as one."""
    monkeypatch.setattr(room, "STATE_BYTES", 4 * 4 * (4 * 18 + 4))  # 4 rounds of 4 clients, 18 numbers and a checksum
    found = [
        Simulation(
            hush.scaffold(clients=4, steps=1, lr=0.1), unequal, devices=devices, streamed=True
        )._supply._builder.rounds
        for devices in (1, 2)
    ]
    assert found == [4, 8]


def several(name, devices):
    return pytest.param(name, devices, marks=() if (name, devices) == ("scaffold", 2) else pytest.mark.slow)


@pytest.mark.parametrize(("name", "devices"), [several(name, devices) for name in REMEMBERING for devices in (1, 2, 4)])
def test_what_every_client_remembers_is_what_it_does_where_all_are_resident(unequal, name, devices, monkeypatch):
    """Windows of a round or two of 3 clients, which two devices do not share evenly, and who come again and again."""
    monkeypatch.setattr(room, "DATA_BYTES", 400)
    resident = advanced(name, unequal, devices=devices)
    streamed = advanced(name, unequal, devices=devices, streamed=True)
    assert streamed._supply._builder.rounds < 5
    beside = Simulation(REMEMBERING[name](), unequal, seed=5, devices=devices)
    beside.restore(streamed.state())
    for found, expected in zip(*map(jax.tree.leaves, (beside.clients, resident.clients)), strict=True):
        assert np.abs(expected).max() > 0
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(streamed.models, resident.models, rtol=2e-5, atol=2e-6)

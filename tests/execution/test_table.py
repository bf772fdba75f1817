"""What clients remember, from a file to the devices and back in pieces: in this process, and in two for real."""

import json
from pathlib import Path

import hosts_states
import jax
import numpy as np
import pytest
from pack import Pack

import hush
from hush.core.check import LARGEST
from hush.execution import hosts, table
from hush.execution.memories import Memories
from hush.execution.mesh import make
from hush.execution.table import Table

pytestmark = pytest.mark.slow

LANES, CLIENTS, WIDTH = 4, 11, 3
INITIAL = {"control": -np.zeros((LANES, WIDTH), np.float32), "count": np.arange(LANES, dtype=np.int32)}


def bits(tree):
    return [np.asarray(leaf).view(np.uint32) for leaf in jax.tree.leaves(tree)]


@pytest.fixture(params=[(1, 1), (1, 4), (2, 4), (4, 4)], ids=str)
def laid_out(request):
    """So many lanes on so many devices: all for the clients, or some of them for lanes."""
    lanes, devices = request.param
    return lanes, make(lanes, devices)


@pytest.mark.parametrize("pieces", ["in one", "in pieces", "row by row"])
def test_a_table_is_brought_and_taken_back_bit_for_bit(laid_out, pieces, monkeypatch):
    """The way of several processes, of which this is process 0; each device has its rows and no others."""
    lanes, mesh = laid_out
    initial = {name: leaf[:lanes] for name, leaf in INITIAL.items()}
    memories, draws = Memories(initial, CLIENTS, None), np.random.default_rng(1)
    everyone = np.tile(np.arange(CLIENTS), (lanes, 1))
    words = draws.integers(0, 2**32, (lanes, CLIENTS, WIDTH), dtype=np.uint32).view(np.float32)  # some are no numbers
    before = {"control": words, "count": draws.integers(0, 99, (lanes, CLIENTS), dtype=np.int32)}
    memories.scatter(everyone[:, :7], jax.tree.map(lambda leaf: leaf[:, :7], before))
    monkeypatch.setattr(hosts, "processes", lambda: 2)
    each = memories.record_bytes * lanes // mesh.shape["lanes"]
    monkeypatch.setattr(table, "PIECE_BYTES", {"in one": 100, "in pieces": 2, "row by row": 0}[pieces] * each)
    members = np.array([[0, 2, 3, 5, 6, 8, 9, 10, *[LARGEST] * 4]] * lanes)
    shelf = Table(memories, mesh, WIDTH)
    dealt = shelf.dealt(members)
    brought = shelf.bring(dealt)
    devices = mesh.shape["clients"]
    here = dealt != LARGEST
    for leaf, expected in zip(*map(jax.tree.leaves, (brought, memories.gather(dealt))), strict=True):
        assert {shard.data.shape[1] for shard in leaf.addressable_shards} == {12 // devices}
        assert sum(shard.data.nbytes for shard in leaf.addressable_shards) == leaf.nbytes
        np.testing.assert_array_equal(np.asarray(leaf)[here].view(np.uint32), expected[here].view(np.uint32))
    for device, column in enumerate(np.split(dealt[0], devices)):  # dealt like cards
        np.testing.assert_array_equal(column, members[0, device::devices])
    after = {"control": brought["control"] * -2, "count": brought["count"] + 100}
    written = jax.tree.map(np.asarray, after)
    shelf.take_back(dealt, after)
    for found, new in zip(bits(memories.gather(dealt)), bits(written), strict=True):
        np.testing.assert_array_equal(found[here], new[here])
    others = np.array([[1, 4, 7]] * lanes)  # of whom the last never took part
    expected = jax.tree.map(lambda leaf: leaf[:, [1, 4]], before)
    for found, old in zip(bits(memories.gather(others)), bits(expected), strict=True):
        np.testing.assert_array_equal(found[:, :2], old)


def test_in_one_process_it_is_the_same_table(laid_out):
    lanes, mesh = laid_out
    memories = Memories({name: leaf[:lanes] for name, leaf in INITIAL.items()}, CLIENTS, None)
    shelf, members = Table(memories, mesh, WIDTH), np.tile(np.arange(8), (lanes, 1))
    brought = shelf.bring(shelf.dealt(members))
    assert {shard.data.shape[1] for shard in brought["control"].addressable_shards} == {8 // mesh.shape["clients"]}
    shelf.take_back(shelf.dealt(members), {"control": brought["control"] + 3, "count": brought["count"]})
    np.testing.assert_array_equal(memories.gather(members)["control"], np.full((lanes, 8, WIDTH), 3, np.float32))


def test_each_of_two_processes_has_its_own_rows_alone(tmp_path):
    """And they are those of one process; no more than a piece of others' rows is ever in the memory of process 1."""
    with Pack(tmp_path) as pack:
        pack.together(2, Path(hosts_states.__file__), tmp_path)
        assert pack.codes() == [0, 0], pack.said()
    alone, personal = (hosts_states.advanced(make, devices=2) for make in (hush.scaffold, hush.ditto))
    whole = [np.asarray(leaf) for leaf in jax.tree.leaves(alone.clients)]
    measures = personal.evaluate_clients()
    assert any(name.startswith("personal_") for name in measures)
    for process in range(2):
        found, said = np.load(tmp_path / f"{process}.npz"), json.loads((tmp_path / f"{process}.json").read_text())
        rows = whole[0].shape[1] // 2
        for index, leaf in enumerate(whole):
            assert found[str(index)].shape[1] == rows
            own = leaf[:, process * rows : (process + 1) * rows]
            np.testing.assert_allclose(found[str(index)], own, rtol=1e-5, atol=1e-6)
        for name, values in measures.items():
            np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-5, err_msg=name)
        assert said["bytes on devices"] == sum(leaf.nbytes for leaf in whole) // 2
        assert 0 < said["largest piece"] <= hosts_states.PIECE_BYTES < sum(leaf.nbytes for leaf in whole) // 2
    assert said["known on disk"] == 0  # by the last, which is not process 0

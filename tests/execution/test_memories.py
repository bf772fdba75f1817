"""What clients remember, on disk: held to a plain dictionary, through crashes at any moment."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core.check import LARGEST
from hush.execution.memories import Memories

LANES, CLIENTS = 2, 6
INITIAL = {"control": np.arange(6, dtype=np.float32).reshape(LANES, 3), "count": np.array([7, 8], np.int32)}


def states_of(members, number):
    """States that tell which client's they are, and in which step they were written."""
    control = np.stack([np.full((*members.shape,), number), members, members * number], axis=2).astype(np.float32)
    return {"control": control, "count": (members + number).astype(np.int32)}


def expected(known, members):
    initial = lambda lane: (INITIAL["control"][lane], INITIAL["count"][lane])  # noqa: E731
    found = [[known.get((lane, client), initial(lane)) for client in row] for lane, row in enumerate(members.tolist())]
    return [[one[0] for one in row] for row in found], [[one[1] for one in row] for row in found]


def assert_holds(memories, known):
    everyone = np.tile(np.append(np.arange(CLIENTS), LARGEST), (LANES, 1))
    found = memories.gather(everyone)
    control, count = expected(known, everyone)
    np.testing.assert_array_equal(found["control"], control)
    np.testing.assert_array_equal(found["count"], count)


steps = st.lists(
    st.one_of(
        st.lists(st.sets(st.integers(0, CLIENTS - 1)), min_size=LANES, max_size=LANES),
        st.sampled_from(["checkpoint", "half a checkpoint", "crash"]),
    ),
    max_size=25,
)


@given(steps=steps)
@settings(max_examples=60, deadline=None)
def test_a_crash_loses_nothing_that_a_checkpoint_counts_on(tmp_path_factory, steps):
    path = tmp_path_factory.mktemp("memories") / "states"
    memories, known = Memories(INITIAL, CLIENTS, path), {}
    saved = ({name: values.copy() for name, values in memories.state().items()}, {})
    for number, step in enumerate(steps, 1):
        if step == "checkpoint":
            saved = ({name: values.copy() for name, values in memories.state().items()}, dict(known))
            memories.saved()
        elif step == "half a checkpoint":  # killed before the checkpoint's file was put in place
            memories.state()
        elif step == "crash":
            memories, known = Memories(INITIAL, CLIENTS, path), dict(saved[1])
            memories.restore(saved[0])
        else:
            width = max(map(len, step))
            members = np.array([sorted(row) + [LARGEST] * (width - len(row)) for row in step], np.int64)
            members = members.reshape(LANES, width)
            written = states_of(members, number)
            memories.scatter(members, written)
            for lane, row in enumerate(members.tolist()):
                for place, client in enumerate(row):
                    if client != LARGEST:
                        known[lane, client] = written["control"][lane, place], written["count"][lane, place]
        assert_holds(memories, known)


def test_places_are_used_again():
    """After so many checkpoints the file has room for two states of each client at most."""
    memories, members = Memories(INITIAL, CLIENTS, None), np.tile(np.arange(CLIENTS), (LANES, 1))
    for number in range(10):
        memories.scatter(members, states_of(members, number))
        memories.state()
        memories.saved()
    assert memories._length <= 2 * LANES * CLIENTS


def test_without_a_file_the_state_is_whole(tmp_path):
    first, members = Memories(INITIAL, CLIENTS, None), np.array([[1, 4], [0, LARGEST]])
    first.scatter(members, states_of(members, 3))
    for path in (None, tmp_path / "states"):
        second = Memories(INITIAL, CLIENTS, path)
        second.restore(first.state())
        np.testing.assert_array_equal(second.gather(members)["control"], first.gather(members)["control"])


@pytest.mark.parametrize("harm", ["flipped", "cut"])
def test_damage_is_named(tmp_path, harm):
    path, members = tmp_path / "states", np.tile(np.arange(CLIENTS), (LANES, 1))
    memories = Memories(INITIAL, CLIENTS, path)
    memories.scatter(members, states_of(members, 1))
    content = bytearray(path.read_bytes())
    if harm == "flipped":
        content[len(content) // 2] ^= 4
    path.write_bytes(content[: len(content) // (3 if harm == "cut" else 1)])
    with pytest.raises(ValueError, match=r"states is (damaged|shorter)"):
        memories.gather(members)

"""Stores: what was written is read back, bit for bit, whoever reads it; and what was damaged is refused by name."""

import json
import os
import signal
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hush.data.stores import Damaged, Store, Writer, buckets, claiming, reading, writing
from hush.data.stores.facts import ALIGNED

Array = np.ndarray[Any, Any]
Clients = list[tuple[str | None, Array, Array]]


def drawn(sizes: Any, dtype: str = "float32", shape: Any = (3,), y_shape: Any = (), seed: int = 0) -> Clients:
    """Clients of these sizes, called c0, c1, …, with any bytes for numbers: NaN and infinity come back too."""
    draws = np.random.default_rng(seed)

    def some(size: int, kind: str, one: Any) -> Array:
        count = size * int(np.prod(one, dtype=int)) * np.dtype(kind).itemsize
        return np.frombuffer(draws.bytes(count), kind).reshape(size, *one)

    return [
        (f"c{number}", some(size, dtype, tuple(shape)), some(size, "int32", tuple(y_shape)))
        for number, size in enumerate(sizes)
    ]


def written(folder: Path, clients: Clients, test: Any = None, replace: bool = False, **facts: Any) -> Store:
    with Writer(folder, replace) as writer:
        for number, (name, x, y) in enumerate(clients):
            writer.add(name, x, y)
            if number == 0 and test is not None:
                writer.test(*test)
        writer.finish("classification", 10, **facts)
    return Store(folder)


def same(found: tuple[Array, Array], clients: Clients, numbers: Any) -> None:
    """The plain way: one client's arrays after the other's."""
    for place, part in enumerate(found):
        expected = np.concatenate([clients[number][place + 1] for number in numbers])
        assert part.dtype == expected.dtype
        assert part.shape == expected.shape
        assert part.tobytes() == expected.tobytes()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of 50 rows and files of 4 kB, so that few clients make many of both."""
    monkeypatch.setattr(writing, "BATCH_ROWS", 50)
    monkeypatch.setattr(writing, "FILE_BYTES", 4000)


@given(
    sizes=st.lists(st.integers(1, 70), min_size=1, max_size=40),
    dtype=st.sampled_from(["uint8", "int8", "int32", "int64", "float16", "float32", "float64"]),
    shape=st.lists(st.integers(1, 4), max_size=3),
    y_shape=st.lists(st.integers(1, 3), max_size=2),
    data=st.data(),
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_clients_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, small: None, sizes: Any, dtype: str, shape: Any, y_shape: Any, data: Any
) -> None:
    clients = drawn(sizes, dtype, shape, y_shape)
    store = written(tmp_path_factory.mktemp("any") / "store", clients)
    assert store.sizes.tolist() == sizes
    assert store.names() == tuple(name for name, _, _ in clients)
    same(store.read(np.arange(len(sizes))), clients, range(len(sizes)))
    asked = data.draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1))
    same(store.read(asked), clients, asked)
    store.check()


def test_nobody_is_read(tmp_path: Path) -> None:
    x, y = written(tmp_path / "store", drawn([2, 3])).read(np.array([], int))
    assert (x.shape, y.shape) == ((0, 3), (0,))


def test_a_client_is_in_one_batch_however_large_it_is(tmp_path: Path, small: None) -> None:
    clients = drawn([20, 20, 20, 200, 1, 60])
    store = written(tmp_path / "store", clients)
    same(store.read([3, 0]), clients, [3, 0])
    batches = []
    for file in sorted(store.folder.glob("examples-*.arrow")):
        with pa.memory_map(str(file)) as mapped:
            reader = pa.ipc.open_file(mapped)
            batches += [
                set(reader.get_batch(each).column("client").to_pylist()) for each in range(reader.num_record_batches)
            ]
    assert batches == [{0, 1, 2}, {3}, {4, 5}]


def test_files_are_arrow_as_anybody_reads_it(tmp_path: Path, small: None) -> None:
    clients = drawn([7, 90, 2, 60], "uint8", (2, 5))
    test = clients[0][1][:3], clients[0][2][:3]
    store = written(tmp_path / "store", clients, test, classes=["no", "yes"])
    files = sorted(store.folder.glob("examples-*.arrow"))
    assert len(files) == len([name for name in store.facts.files if name.startswith("examples")])
    table = pa.concat_tables([pa.ipc.open_file(str(file)).read_all() for file in files])
    assert table.schema.field("x").type == pa.fixed_shape_tensor(pa.uint8(), (2, 5))
    assert table.column("client").to_pylist() == np.repeat(np.arange(4), [7, 90, 2, 60]).tolist()
    x = np.concatenate([chunk.to_numpy_ndarray() for chunk in table.column("x").chunks])
    np.testing.assert_array_equal(x, np.concatenate([each for _, each, _ in clients]))
    assert table.column("y").to_pylist() == np.concatenate([each for _, _, each in clients]).tolist()
    names = pa.ipc.open_file(str(store.folder / "names.arrow")).read_all()
    assert names.column("name").to_pylist() == ["c0", "c1", "c2", "c3"]
    held_out = pa.ipc.open_file(str(store.folder / "test.arrow")).read_all()
    np.testing.assert_array_equal(held_out.column("x").chunk(0).to_numpy_ndarray(), test[0])
    same(store.test(), [("", *test)], [0])
    assert json.loads((store.folder / "store.json").read_text())["classes"] == ["no", "yes"]


def test_clients_that_are_called_by_their_numbers_have_no_names(tmp_path: Path) -> None:
    for place, names in enumerate((["0", "1"], [None, None], ["0", None])):
        clients = [(name, x, y) for name, (_, x, y) in zip(names, drawn([2, 3]), strict=True)]
        store = written(tmp_path / str(place), clients)
        assert store.names() is None
        assert not (store.folder / "names.arrow").exists()
        store.check()


def test_an_iterator_may_use_its_arrays_again(tmp_path: Path) -> None:
    room = np.zeros((2, 3), np.float32)
    with Writer(tmp_path / "store") as writer:
        for number in range(3):
            room[:] = number
            writer.add(None, room, np.zeros(2, np.int32))
        writer.finish("classification", 1)
    assert Store(tmp_path / "store").read([0, 1, 2])[0][:, 0].tolist() == [0, 0, 1, 1, 2, 2]


def test_the_digest_is_of_what_is_stored_and_not_of_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clients = drawn([5, 70, 30])
    first = written(tmp_path / "one", clients)
    monkeypatch.setattr(writing, "BATCH_ROWS", 20)
    monkeypatch.setattr(writing, "FILE_BYTES", 100)
    again = written(tmp_path / "two", clients)
    assert len(again.facts.files) > len(first.facts.files)
    assert again.digest == first.digest
    assert (again == first, hash(again) == hash(first)) == (True, True)
    x = clients[1][1].copy()
    x.view(np.uint8).reshape(-1)[0] ^= 1
    moved = [clients[0], ("c1", x, clients[1][2]), clients[2]]
    cut = [("c0", clients[0][1][:4], clients[0][2][:4]), *clients[1:]]
    renamed = [("d0", *clients[0][1:]), *clients[1:]]
    others = [written(tmp_path / f"other {n}", each) for n, each in enumerate((moved, cut, renamed, clients[::-1]))]
    others.append(written(tmp_path / "tested", clients, clients[0][1:]))
    others.append(written(tmp_path / "classes", clients, classes=["a", "b"]))
    assert len({first.digest, *(each.digest for each in others)}) == 7


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_many_threads_and_few_descriptors(tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_OPEN", 2)
    clients = drawn([60] * 30)
    store = written(tmp_path / "store", clients)
    assert len(store.facts.files) > 10
    asked = [np.random.default_rng(seed).choice(30, 12) for seed in range(24)]
    before = descriptors()
    with ThreadPoolExecutor(6) as pool:
        for numbers, found in zip(asked, pool.map(store.read, asked), strict=True):
            same(found, clients, numbers)
    assert descriptors() <= before + 2
    del store, pool
    assert descriptors() <= before


def test_large_reads_come_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "AT_ONCE", 7)
    clients = drawn([40, 3])
    same(written(tmp_path / "store", clients).read([1, 0]), clients, [1, 0])


def test_memory_does_not_grow_with_the_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "BATCH_BYTES", 2**16)
    monkeypatch.setattr(writing, "FILE_BYTES", 2**20)
    x, y, arrow = np.zeros((10, 1000), np.uint8), np.zeros(10, np.int32), pa.total_allocated_bytes()
    most = 0
    tracemalloc.start()
    with Writer(tmp_path / "store") as writer:
        for number in range(2000):  # 20 MB
            writer.add(f"client {number}", x, y)
            most = max(most, pa.total_allocated_bytes() - arrow)
        writer.finish("classification", 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3e6  # two batches, an index of 24 bytes a client, and what Python needs besides
    assert most < 3e6
    assert Store(tmp_path / "store").facts.examples == 20_000


@pytest.mark.parametrize(
    ("second", "sentence"),
    [
        (("b", np.zeros((2, 4), np.float32), np.zeros(2, np.int32)), r"x of client 'b' must be float32 \[3\].*\[4\]"),
        (("b", np.zeros((2, 3)), np.zeros(2, np.int32)), r"must be float32 \[3\], as the first's, found float64 \[3\]"),
        (("b", np.zeros((2, 3), np.float32), np.zeros(2, np.int64)), "y of client 'b' must be int32.*found int64"),
        (("b", np.zeros((2, 3), np.float32), np.zeros(1, np.int32)), "as many inputs as targets.* found 2 and 1"),
        (("b", np.zeros((0, 3), np.float32), np.zeros(0, np.int32)), "one or more, found 0 and 0"),
        (("c0", np.zeros((2, 3), np.float32), np.zeros(2, np.int32)), "client 'c0' comes twice"),
    ],
)
def test_clients_that_are_refused_leave_nothing(tmp_path: Path, second: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        written(tmp_path / "store", [*drawn([2]), second])
    assert list(tmp_path.iterdir()) == []


def test_a_client_that_comes_twice_in_different_files(tmp_path: Path, small: None) -> None:
    with pytest.raises(ValueError, match="client 'c3' comes twice; a store takes all examples of a client at once"):
        written(tmp_path / "store", [*drawn([200] * 5), drawn([1] * 4)[3]])


def test_other_refusals_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one client, found none"):
        written(tmp_path / "store", [])
    with pytest.raises(ValueError, match=r"x must be numbers, with features, found complex64 \[1\]"):
        written(tmp_path / "store", [("a", np.zeros((1, 1), np.complex64), np.zeros(1, np.int32))])
    with pytest.raises(
        ValueError, match=r"x of the test must be float32 \[3\], as the clients' is, found float32 \[2\]"
    ):
        written(tmp_path / "store", drawn([2]), (np.zeros((1, 2), np.float32), np.zeros(1, np.int32)))
    with pytest.raises(ValueError, match="a store needs a folder of its own, found '/'"):
        written(Path("/"), drawn([2]))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there(tmp_path: Path) -> None:
    place = tmp_path / "store"
    place.mkdir()
    first = written(place, drawn([2]))  # an empty folder will do
    with pytest.raises(ValueError, match=r"already holds a store; replace it \(--force, or force=True\)"):
        written(place, drawn([3]))
    assert Store(place).digest == first.digest
    again = written(place, drawn([3]), replace=True)
    assert again.sizes.tolist() == [3]
    with pytest.raises(ValueError, match="must be float32"):
        written(place, [*drawn([3]), ("b", np.zeros((1, 1)), np.zeros(1, np.int32))], replace=True)
    assert Store(place).digest == again.digest
    other = tmp_path / "other"
    other.mkdir()
    (other / "letters.txt").write_text("dear")
    with pytest.raises(ValueError, match="is there already and is no store of hush"):
        written(other, drawn([2]), replace=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "store"]


def test_a_partial_folder_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "store.partial").mkdir()
    (tmp_path / "store.partial" / "thesis.txt").write_text("chapter 1")
    with pytest.raises(ValueError, match=r"holds thesis.txt, which no pack of hush wrote"):
        written(tmp_path / "store", drawn([2]))
    assert (tmp_path / "store.partial" / "thesis.txt").read_text() == "chapter 1"


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with Writer(tmp_path / "store") as writer:
        writer.add(*drawn([2])[0])
        with pytest.raises(ValueError, match=r"store.partial is being written by another process"):
            written(tmp_path / "store", drawn([3]))
        writer.finish("classification", 1)
    assert Store(tmp_path / "store").sizes.tolist() == [2]


KILLED = """
import sys
import numpy as np
from hush.data.stores import Writer, writing
writing.BATCH_ROWS, writing.FILE_BYTES = 50, 4000
with Writer(sys.argv[1]) as writer:
    for number in range(10**9):
        writer.add(f"client {number}", np.zeros((30, 3), np.float32), np.zeros(30, np.int32))
        if number == 500:
            print("begun", flush=True)
"""


def test_a_pack_that_is_killed_leaves_no_store(tmp_path: Path) -> None:
    place = tmp_path / "store"
    source = str(Path(writing.__file__).parents[3])
    environment = {**os.environ, "PYTHONPATH": source}
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(place)], stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGKILL)
    assert [path.name for path in tmp_path.iterdir()] == ["store.partial"]
    for folder in (place, tmp_path / "store.partial"):
        with pytest.raises(ValueError, match=r"must be a store, as hush data pack writes it, found no store.json"):
            Store(folder)
    clients = drawn([4, 5])
    same(written(place, clients).read([0, 1]), clients, [0, 1])
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_a_replacement_that_is_killed_between_two_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old store is then under another name, whole; the next pack clears that away once it is done."""
    place = tmp_path / "store"
    old = written(place, drawn([2]))
    place.rename(tmp_path / f"store{claiming.REPLACED}")
    assert Store(tmp_path / f"store{claiming.REPLACED}").digest == old.digest
    written(place, drawn([3]))
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def spoil(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0xFF]))


def test_damage_is_refused_by_the_name_of_the_file(tmp_path: Path, small: None) -> None:
    clients = drawn([60] * 4)
    place = tmp_path / "store"

    def refused(sentence: str) -> None:
        with pytest.raises(Damaged, match=sentence):
            Store(place)
        written(place, clients, clients[0][1:], replace=True)

    for name in ("examples-00001.arrow", "names.arrow", "index.arrow", "test.arrow"):
        store = written(place, clients, clients[0][1:], replace=True)
        os.truncate(store.folder / name, 100)
        refused(rf"{name} must have [\d,]+ bytes, found 100: it was cut, or written over")
        (place / name).unlink()
        refused(f"{name} is missing from the store")
    spoil(place / "index.arrow", (place / "index.arrow").stat().st_size // 2)
    refused("index.arrow is not as it was written: its checksum is another")
    facts = json.loads((place / "store.json").read_text())
    for text, sentence in (
        ("{", "store.json cannot be read as the facts of a store"),
        ("[]", "store.json cannot be read as the facts of a store"),
        (json.dumps({"format": 1}), "store.json lacks something"),
        (json.dumps({**facts, "more": 1}), "or has something unknown"),
        (json.dumps({**facts, "clients": 5}), "index.arrow and .*store.json are of different stores"),
    ):
        (place / "store.json").write_text(text)
        refused(sentence)
    (place / "store.json").write_text(json.dumps({**facts, "format": 2}))
    with pytest.raises(ValueError, match=r"is of format 2, this hush reads 1: pack the data anew"):
        Store(place)


def test_files_that_are_cut_or_taken_away_while_they_are_read(tmp_path: Path, small: None) -> None:
    store = written(tmp_path / "store", drawn([60] * 12))
    os.truncate(store.folder / "examples-00001.arrow", 600)
    (store.folder / "examples-00002.arrow").unlink()
    with pytest.raises(Damaged, match=r"examples-00001.arrow ends before byte [\d,]+, where examples should be"):
        store.read([int(np.flatnonzero(store._places["file"] == 1)[-1])])
    with pytest.raises(Damaged, match=r"examples-00002.arrow cannot be opened"):
        store.read([int(np.flatnonzero(store._places["file"] == 2)[0])])
    assert len(store.read([0])[1]) == 60


@pytest.mark.parametrize("name", ["examples-00000.arrow", "test.arrow", "names.arrow"])
def test_one_changed_byte_is_found_by_a_check(tmp_path: Path, name: str) -> None:
    clients = drawn([20] * 3)
    store = written(tmp_path / "store", clients, clients[0][1:])
    store.check()
    path = store.folder / name
    table = pa.ipc.open_file(str(path)).read_all()
    last = table.column(-1 + table.num_columns).chunk(0)
    content = path.read_bytes()
    spoil(path, content.index(bytes(last.buffers()[-1])[:8]))
    said = "cannot be read as an Arrow file" if name == "names.arrow" else "its examples have another digest"
    with pytest.raises(Damaged, match=said):
        Store(store.folder).check()


def test_clients_that_are_not_there(tmp_path: Path) -> None:
    store = written(tmp_path / "store", drawn([2, 3]))
    for clients, sentence in (
        ([2], "clients are numbered from 0 to 1, found 2 to 2"),
        ([-1, 0], "found -1 to 0"),
        ([0.5], "clients are given by whole numbers"),
        ([[0]], "clients are given by whole numbers"),
    ):
        with pytest.raises(ValueError, match=sentence):
            store.read(clients)


def test_rows_in_any_order_are_sorted_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "BUCKET_BYTES", 400)
    draws = np.random.default_rng(0)
    ids = draws.choice([-5, 3, 20, 100, 7], 300, p=[0.6, 0.1, 0.1, 0.1, 0.1])
    x, y = draws.normal(size=(300, 2)), np.arange(300)
    counts, most = buckets.Counts(), []
    for part in np.split(np.arange(300), 6):
        counts.add(ids[part])

    def rows() -> Any:
        for part in np.split(np.arange(300), 6):
            yield ids[part], x[part], y[part]
            most.append(len(list(tmp_path.iterdir())))

    found = list(buckets.client_after_client(counts, rows(), tmp_path, lambda *_: None))
    assert max(most) > 2
    assert [name for name, _, _ in found] == ["-5", "3", "7", "20", "100"]
    for name, own_x, own_y in found:
        assert own_y.tolist() == y[ids == int(name)].tolist()  # in the order in which they came
        np.testing.assert_array_equal(own_x, x[ids == int(name)])
    assert list(tmp_path.iterdir()) == []


def test_rows_that_cannot_be_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.zeros((2, 1)), np.zeros(2)

    def tried(counted: Any, *parts: Any) -> None:
        counts = buckets.Counts()
        for each in counted:
            counts.add(np.asarray(each))
        list(buckets.client_after_client(counts, parts, tmp_path, lambda *_: None))

    with pytest.raises(ValueError, match="all numbers or all text, found"):
        tried([[1], ["a"]])
    with pytest.raises(ValueError, match="3 rows before, 2 now"):
        tried([["a", "a", "b"]], (np.array(["a", "b"]), x, y))
    with pytest.raises(ValueError, match="a client was not there before"):
        tried([["a", "b"]], (np.array(["a", "c"]), x, y))
    with pytest.raises(ValueError, match=r"x must be float64 \[1\] in all rows, as in the first, found float64 \[2\]"):
        tried([["a", "a"]] * 2, (np.array(["a", "a"]), x, y), (np.array(["a", "a"]), np.zeros((2, 2)), y))
    monkeypatch.setattr(buckets.shutil, "disk_usage", lambda _: type("", (), {"free": 3}))
    with pytest.raises(ValueError, match=r"packing needs 40 bytes of disk in .*, found 3 bytes free"):
        tried([["a", "b"]], (np.array(["a", "b"]), x, y))


@pytest.mark.parametrize("rows", [0, 3, 5, 9])
def test_rows_to_spare_are_the_last_again(tmp_path, rows):
    clients = drawn([2, 3])
    store = written(tmp_path / "store", clients)
    x, y = store.read([1, 0], rows)
    same((x[:5], y[:5]), clients, [1, 0])
    assert len(x) == len(y) == max(5, rows)
    for values in (x, y):
        np.testing.assert_array_equal(values[5:], np.repeat(values[4:5], len(values) - 5, axis=0))
        assert values.ctypes.data % ALIGNED == 0

"""A stored population is the task that the same arrays or files make in memory, bit for bit; and what is refused."""

import json
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hush
from hush.core.evaluation import measures
from hush.core.keys import root
from hush.data import scanning
from hush.data.stores import Store, buckets, writing
from hush.plans.proxies import PROXIES
from hush.posterior.reference import energy
from hush.privacy import describe
from hush.settings import SettingsError, build, dumps, read, tables_of
from hush.store.fingerprint import of_problem
from hush.tasks import pack, pack_files, stored
from hush.tasks.classes import class_counts
from hush.tasks.problem import Room, Supervised

pytestmark = pytest.mark.slow

SIZES = [1, 13, 4, 5, 2, 8, 7]
IDS = np.repeat(np.arange(7), SIZES)
DRAWS = np.random.default_rng(3)
X = DRAWS.normal(size=(40, 5)).astype(np.float32)
Y = DRAWS.integers(0, 3, 40)
MIXED = DRAWS.permutation(40)  # the same rows, no client's side by side


examples_of = jax.jit(lambda client, rows: client.examples(rows))


def same(found: Supervised, expected: Supervised, clients: Any) -> None:
    """The same clients with the same examples, and the same objective."""
    part, whole = found.restrict(clients), expected.restrict(clients)
    for name in ("sizes", "shares", "numbers"):
        np.testing.assert_array_equal(getattr(part.population, name), getattr(whole.population, name))
    for name in ("examples", "smallest", "largest", "clients"):
        assert getattr(part.population, name) == getattr(whole.population, name)
    for client in clients:
        # Every one of the client's, some of them again: as many for each client, so that a program is compiled once.
        rows = np.arange(part.population.largest) % int(part.client(client).size)
        for ours, theirs in zip(*(examples_of(each.client(client), rows) for each in (part, whole)), strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(np.sort(part.importance), np.sort(whole.importance))


def same_test(found: Supervised, expected: Supervised) -> None:
    assert (found.test is None) == (expected.test is None)
    if found.test is not None and expected.test is not None:
        for ours, theirs in zip(found.test[:], expected.test[:], strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("stored") / "store"
    pack((X[MIXED], Y[MIXED]), place, client_ids=IDS[MIXED], test=(X[:9], Y[:9]))
    return place


@pytest.fixture(scope="module")
def in_memory() -> Supervised:
    return hush.tasks.arrays(X[MIXED], Y[MIXED], IDS[MIXED], model="softmax", test=(X[:9], Y[:9]))


@given(chosen=st.lists(st.integers(0, 6), min_size=1, unique=True))
@settings(max_examples=20)
def test_any_clients_in_any_order(folder: Path, in_memory: Supervised, chosen: list[int]) -> None:
    same(stored(str(folder)), in_memory, chosen)


def test_the_problem_is_the_same_in_all_else(folder: Path, in_memory: Supervised) -> None:
    problem = stored(str(folder))
    same_test(problem, in_memory)
    assert not problem.is_remote
    assert problem.index.size == 0
    assert problem.client_names is in_memory.client_names is None
    assert jax.tree.map(jnp.shape, problem.init(root(0))) == jax.tree.map(jnp.shape, in_memory.init(root(0)))
    params = problem.init(root(1))
    for part in (problem.restrict(range(7)), problem.restrict([2, 5]).padded(Room(4, 30))):
        rows = [0, 1, 2, 3, 4, 5, 6] if part.population.sizes.shape == (7,) else [2, 5]
        expected = measures(in_memory.restrict(rows), params)["train_loss"]
        assert float(measures(part, params)["train_loss"]) == pytest.approx(float(expected), rel=1e-6)
    alone, whole = measures(problem.without_clients(), params), measures(in_memory.without_clients(), params)
    assert {name: float(value) for name, value in alone.items()} == {
        name: float(value) for name, value in whole.items()
    }
    assert class_counts(problem) is None
    with pytest.raises(ValueError, match="found Supervised whose examples are elsewhere"):
        energy(problem, jnp.zeros(18))


@pytest.mark.parametrize(
    ("x", "y", "options", "model"),
    [
        (DRAWS.integers(0, 256, (40, 6, 6, 1)).astype(np.uint8), Y, {"scale": 1 / 255}, "softmax"),
        (DRAWS.integers(0, 2, (40, 6)).astype(np.uint8), Y, {}, "softmax"),
        (X.astype(np.float64), X[:, 0], {"kind": "regression"}, "softmax"),
        (X, X[:, :2], {"kind": "regression"}, "mlp"),
        (X > 0, Y > 0, {"kind": "binary"}, "softmax"),
        (X, np.array(["ill", "well", "dead"])[Y], {}, "softmax"),
        (X, np.array(["ill", "well", "dead"])[Y], {"classes": ["well", "ill", "dead", "gone"]}, "softmax"),
        (X, Y, {"classes": ["a", "b", "c"]}, "softmax"),
    ],
)
def test_kinds_of_examples(tmp_path: Path, x: Any, y: Any, options: Any, model: str) -> None:
    packed = {name: value for name, value in options.items() if name != "scale"}
    pack((x, y), tmp_path / "store", client_ids=IDS, test=(x[:9], y[:9]), **packed)
    problem = stored(str(tmp_path / "store"), model=model)
    expected = hush.tasks.arrays(x, y, IDS, model=model, test=(x[:9], y[:9]), **options)
    same(problem, expected, [6, 0, 3])
    same_test(problem, expected)
    assert problem.classes == expected.classes
    assert problem.names.from_data == expected.names.from_data
    assert problem.model.classes == expected.model.classes


def test_names_of_clients_and_an_iterator(tmp_path: Path) -> None:
    names = [f"user {number}" for number in range(7)]
    ids = np.array(names)[IDS]
    labels = np.array(["no", "yes", "so"])[Y]
    parts = [np.flatnonzero(client == IDS) for client in range(7)]
    clients = ((name, X[part].tolist(), labels[part]) for name, part in zip(names, parts, strict=True))
    store = pack(clients, tmp_path / "one", classes=["no", "so", "yes"])
    again = pack((X, labels), tmp_path / "two", client_ids=ids, classes=["no", "so", "yes"])
    assert store.digest == again.digest
    assert stored(str(tmp_path / "one")).client_names == tuple(names)
    assert pack(((number, X[:2], Y[:2]) for number in np.arange(3)), tmp_path / "three").names() is None


def test_arrays_may_be_on_disk_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "BATCH_BYTES", 2**16)
    np.save(tmp_path / "x.npy", np.zeros((4000, 1000), np.float32))  # 16 MB
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    tracemalloc.start()
    store = pack((x, np.zeros(4000, int)), tmp_path / "store", client_ids=np.arange(4000) // 10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert store.facts.clients == 400
    assert peak < 6e6


def test_models_that_look_things_up(tmp_path: Path) -> None:
    class Mean(eqx.Module):
        table: eqx.nn.Embedding
        head: eqx.nn.Linear

        def __call__(self, x: jax.Array) -> jax.Array:
            return self.head(jnp.mean(jax.vmap(self.table)(x), 0))

    model = Mean(eqx.nn.Embedding(50, 4, key=root(0)), eqx.nn.Linear(4, 3, key=root(1)))
    tokens = DRAWS.integers(0, 50, (40, 6))
    pack((tokens, Y), tmp_path / "store", client_ids=IDS, integers=True)
    problem = stored(str(tmp_path / "store"), model=model)
    same(problem, hush.tasks.arrays(tokens, Y, IDS, model=model), [0, 4])
    assert problem.recipe.settings == {}
    with pytest.raises(ValueError, match="integers are handed over as they are, found a scale or a shift"):
        stored(str(tmp_path / "store"), model=model, scale=0.5)


def test_scale_and_shift(folder: Path) -> None:
    problem = stored(str(folder), scale=2.0, shift=np.arange(5.0))
    how = {"model": "softmax", "scale": 2.0, "shift": np.arange(5.0)}
    expected = hush.tasks.arrays(X[MIXED], Y[MIXED], IDS[MIXED], **how)
    same(problem, expected, [1, 2])
    with pytest.raises(ValueError, match=r"scale must be a number or an array that fits inputs of shape \(5,\)"):
        stored(str(folder), scale=np.ones(4))


def test_settings_files(folder: Path, tmp_path: Path) -> None:
    problem = stored(str(folder), model="mlp", model_options={"hidden": 4})
    tables = tables_of(hush.fedavg(2, steps=1), problem)
    assert tables["task"]["name"] == "stored"
    (tmp_path / "settings.toml").write_text(dumps(tables))
    again = build(read(tmp_path / "settings.toml")).problem()
    assert of_problem(again) == of_problem(problem)
    assert again.recipe.settings == problem.recipe.settings
    with pytest.raises(SettingsError, match=r"must be a store, as hush data pack writes it"):
        build({"task": {"name": "stored", "path": str(tmp_path)}, "algorithm": {"name": "fedavg"}}).problem()


def test_the_fingerprint_has_the_digest_and_not_the_path(folder: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.copytree(folder, moved)
    one, other = of_problem(stored(str(folder))), of_problem(stored(str(moved)))
    assert one == other
    assert Store(folder).digest in one.texts["problem.source"]
    assert str(folder) not in str(one)
    pack((X + 1, Y), tmp_path / "more", client_ids=IDS, test=(X[:9], Y[:9]))
    assert one.differences(of_problem(stored(str(tmp_path / "more")))) == ["problem.source"]


def test_a_guarantee_is_that_of_the_same_examples_in_memory(
    folder: Path, tmp_path: Path, in_memory: Supervised
) -> None:
    by_client = hush.dp_fedavg(clients=2, population=7, steps=1, clip=1.0, noise_multiplier=1.0)
    by_example = hush.private_fedpaq(clients=2, steps=1, batch=1, noise_multiplier=1.0)
    problem = stored(str(folder))
    for algorithm, unit in ((by_client, "client"), (by_example, "example")):
        ours, theirs = (describe(algorithm, each, 3, unit=unit) for each in (problem, in_memory))
        assert (ours.phases, ours.sharing) == (theirs.phases, theirs.sharing)
    named = np.array(["a", "b", "c"])[Y]
    for classes, expected in ((None, True), (["a", "b", "c"], False)):
        pack((X, named), tmp_path / "named", client_ids=IDS, classes=classes, force=True)
        found = describe(by_client, stored(str(tmp_path / "named")), 3).phases[0].assumptions
        assert any("known beforehand" in words for words in found) == expected


@pytest.mark.parametrize("algorithm", [hush.fedavg(clients=3, steps=2, batch=3), hush.scaffold(clients=3, steps=2)])
def test_a_run_is_that_of_the_same_examples_in_memory(folder: Path, in_memory: Supervised, algorithm: Any) -> None:
    ours, theirs = (
        hush.run(algorithm, problem, rounds=4, evaluate_every=2, progress=False)
        for problem in (stored(str(folder)), in_memory)
    )
    np.testing.assert_allclose(ours.vector, theirs.vector, rtol=1e-5, atol=1e-6)
    assert ours.records["uplink_bits"].tolist() == theirs.records["uplink_bits"].tolist()
    assert "train_loss" not in ours.records


def test_stores_are_no_proxies() -> None:
    assert "stored" not in PROXIES


# Files.

FRAME = pd.DataFrame(
    {
        "age": DRAWS.integers(20, 90, 200),
        "dose": DRAWS.normal(size=200),
        "smokes": DRAWS.random(200) < 0.3,
        "ward": np.array(["icu", "er", "or"])[DRAWS.integers(0, 3, 200)],
        "hospital": np.array(["Basel", "Chur", "Aarau", "Zug"])[DRAWS.integers(0, 4, 200)],
        "outcome": np.array(["well", "ill"])[DRAWS.integers(0, 2, 200)],
    }
)
TEST = FRAME[:9].drop(columns="hospital")
COLUMNS = {"target": "outcome", "client": "hospital"}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of 30 rows, and buckets of half a kilobyte."""
    monkeypatch.setattr(scanning, "PART_ROWS", 30)
    monkeypatch.setattr(buckets, "BUCKET_BYTES", 500)


def put(frame: pd.DataFrame, path: Path) -> str:
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path, row_group_size=50)
    return str(path)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"features": ["ward", "age"], "classes": ["well", "ill"]},
        {"target": "dose", "kind": "regression", "features": ["age", "smokes"]},
        {"kind": "binary"},
        {"client": "age", "features": ["dose"]},
    ],
)
def test_tables_in_any_order(tmp_path: Path, small: None, kind: str, options: dict[str, Any]) -> None:
    path, test = put(FRAME, tmp_path / f"all.{kind}"), put(TEST, tmp_path / f"test.{kind}")
    said = COLUMNS | options
    steps = []
    pack_files(path, tmp_path / "store", test=test, on_progress=lambda *words: steps.append(words), **said).check()
    problem = stored(str(tmp_path / "store"))
    expected = getattr(hush.tasks, kind)(path, test=test, **said)
    same(problem, expected, range(expected.population.clients))
    same_test(problem, expected)
    assert problem.client_names == expected.client_names
    assert (problem.features, problem.classes) == (expected.features, expected.classes)
    assert problem.names.from_data == expected.names.from_data
    assert ("counting rows", 200, 0) in steps
    assert ("sorting rows", 200, 200) in steps
    assert steps[-1] == ("writing clients", expected.population.clients, 0)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_several_files_and_folders(tmp_path: Path, small: None, kind: str) -> None:
    parts = tmp_path / "parts"
    (parts / "deep").mkdir(parents=True)
    put(FRAME[:50], parts / f"1.{kind}")
    put(FRAME[50:120], parts / "deep" / f"2.{kind}")
    last = put(FRAME[120:], tmp_path / f"last.{kind}")
    store = pack_files([parts, last], tmp_path / "store", **COLUMNS)
    whole = pack_files(put(FRAME, tmp_path / f"all.{kind}"), tmp_path / "whole", **COLUMNS)
    assert store.digest == whole.digest
    put(FRAME[["age", "hospital"]], parts / f"3.{kind}")
    with pytest.raises(ValueError, match=r"must have the same columns in all files, .* differs by dose"):
        pack_files([parts, last], tmp_path / "odd", **COLUMNS)


def test_folders_that_are_a_column_and_lists_that_are_images(tmp_path: Path, small: None) -> None:
    images = DRAWS.normal(size=(60, 2, 3)).astype(np.float32)
    table = pa.table({"image": images.tolist(), "y": Y.tolist() + [0] * 20, "site": [f"s{n % 4}" for n in range(60)]})
    pq.write_to_dataset(table, tmp_path / "sites", partition_cols=["site"])
    pack_files(tmp_path / "sites", tmp_path / "store", target="y", client="site")
    problem = stored(str(tmp_path / "store"))
    assert problem.train.x.shape == (0, 2, 3)
    assert problem.client_names == ("s0", "s1", "s2", "s3")
    same(problem, hush.tasks.parquet(str(tmp_path / "sites"), target="y", client="site"), [2, 0])


def test_a_column_that_is_text_in_one_part_alone(tmp_path: Path, small: None) -> None:
    """As in a file that is read whole: numbers are text there too, and keep the noughts before them."""
    frame = pd.DataFrame({"code": ["01"] * 40 + ["x1"] * 40, "part": [1] * 40 + [1.5] * 40, "y": 0, "c": range(80)})
    path = put(frame, tmp_path / "odd.csv")
    pack_files(path, tmp_path / "store", target="y", client="c")
    problem, expected = stored(str(tmp_path / "store")), hush.tasks.csv(path, target="y", client="c")
    assert problem.features == expected.features == ("code=01", "code=x1", "part")
    same(problem, expected, range(80))


def test_memory_does_not_grow_with_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "PART_ROWS", 100)
    monkeypatch.setattr(buckets, "BUCKET_BYTES", 2**18)
    monkeypatch.setattr(buckets, "BUFFER", 2**12)
    monkeypatch.setattr(writing, "BATCH_BYTES", 2**16)
    values = np.zeros((20_000, 200), np.float32)  # 16 MB, every client's rows all over the file
    column = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 200)
    table = pa.table({"x": column, "y": np.zeros(20_000, int), "c": np.arange(20_000) % 500})
    pq.write_table(table, tmp_path / "all.parquet", row_group_size=500)
    del values, column, table
    before, most = pa.total_allocated_bytes(), 0

    def look(*_: Any) -> None:
        nonlocal most
        most = max(most, pa.total_allocated_bytes() - before)

    tracemalloc.start()
    store = pack_files(tmp_path / "all.parquet", tmp_path / "store", target="y", client="c", on_progress=look)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert store.sizes.tolist() == [40] * 500
    assert peak < 6e6
    assert most < 6e6


def leaf_file(path: Path, users: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    counts = [len(data["y"]) for data in users.values()]
    path.write_text(json.dumps({"users": list(users), "num_samples": counts, "user_data": users}))


def test_leaf(tmp_path: Path, small: None) -> None:
    draws = np.random.default_rng(0)
    users = {
        f"f{number}": {"x": draws.random((size, 6)).tolist(), "y": draws.integers(0, 4, size).tolist()}
        for number, size in ((3, 5), (1, 40), (2, 9))
    }
    leaf_file(tmp_path / "leaf" / "train" / "a.json", {"f3": users["f3"]})
    leaf_file(tmp_path / "leaf" / "train" / "b.json", {"f1": users["f1"], "f2": users["f2"]})
    leaf_file(tmp_path / "leaf" / "test" / "a.json", {"f3": users["f3"]})
    pack_files(tmp_path / "leaf", tmp_path / "store", shape=[2, 3])
    problem, expected = stored(str(tmp_path / "store")), hush.tasks.leaf(str(tmp_path / "leaf"), shape=[2, 3])
    assert problem.client_names == expected.client_names == ("f1", "f2", "f3")
    same(problem, expected, [2, 0, 1])
    same_test(problem, expected)


# What is refused.


@pytest.mark.parametrize(
    ("examples", "options", "sentence"),
    [
        ([("a", X[:2], Y[:3])], {}, r"x of client 'a' and y of client 'a' must be as long as each other"),
        ([("a", X[:2], Y[:2]), ("b", np.full((2, 5), np.inf), Y[:2])], {}, "x of client 'b' must be finite numbers"),
        ([("a", X[:2], Y[:2]), ("b", X[:2].astype(np.uint8), Y[:2])], {}, r"x of client 'b' must be float32 \[5\]"),
        ([("a", X[:2], Y[:2]), ("b", X[:2], -1 - Y[:2])], {}, "y of client 'b' must be labels 0, 1, …, found negative"),
        ([("a", X[:2], [0, 10**6])], {}, r"below the number of examples \(2\) or 1,000, found 1000000"),
        ([("a", X[:2], [0, 10**9])], {}, "must be labels 0, 1, … below the number of examples"),
        ([("a", X[:2], ["x", "y"])], {}, r"labels that are names need classes=\[…\]"),
        ([("a", X[:2], ["x", "y"]), ("b", X[:2], ["x", "z"])], {"classes": ["x", "y"]}, r"among the classes .*\['z'\]"),
        ([(True, X[:2], Y[:2])], {}, "a client's name must be text, a whole number or None, found True"),
        ([("a", X[:2])], {}, r"must be clients \(name, x, y\), found tuple; a pair of arrays needs client_ids"),
        ((X, Y), {}, r"must be clients \(name, x, y\), found ndarray; a pair of arrays needs client_ids"),
        ([], {}, r"must be an iterator of clients \(name, x, y\), found none"),
        (7, {}, r"must be an iterator of clients \(name, x, y\), found 7"),
        (X, {"client_ids": IDS}, r"with client_ids, examples must be a pair of arrays \(x, y\)"),
        ((X, Y[:3]), {"client_ids": IDS}, "must be as long as each other, found 40, 3 and 40"),
        ((X, Y), {"client_ids": IDS[:3]}, "must be as long as each other, found 40, 40 and 3"),
        ((X, Y), {"client_ids": IDS, "kind": "guess"}, "unknown kind 'guess'"),
        ((X, Y), {"client_ids": IDS, "force": 1}, "force must be True or False"),
        ((X, Y), {"client_ids": IDS, "integers": True}, "must be integers, since the model looks things up"),
        ((X, Y), {"client_ids": IDS, "test": (X[:, :4], Y)}, r"test inputs must have the shape of the training's"),
        ((X, Y), {"client_ids": IDS, "test": X}, "test must be a pair of arrays"),
        ((X, Y), {"client_ids": IDS, "classes": [(1,), (2,), (3,)]}, "must be text or numbers to be stored"),
    ],
)
def test_examples_that_are_refused_leave_nothing(tmp_path: Path, examples: Any, options: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        pack(examples, tmp_path / "store", **options)
    assert list(tmp_path.iterdir()) == []


def test_a_class_that_only_the_test_has_is_warned_of(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"test has labels that no training example has: \[7\]"):
        store = pack((X, Y), tmp_path / "store", client_ids=IDS, test=(X[:2], [0, 7]))
    assert store.facts.outputs == 8


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"target": "outcom"}, "no column 'outcom'; did you mean 'outcome'"),
        ({"target": None}, "target must name a column of the tables, found None"),
        ({"client": None}, "client must name a column of the tables, found None"),
        ({"client": "dose"}, "client_ids are float64"),
        ({"shape": [2]}, r"shape does not go with tables, found \[2\]"),
        ({"paths": "nowhere"}, "path must name a file or a folder, found 'nowhere'"),
        ({"paths": []}, "files of one kind can be packed together, found none"),
        ({"separator": ",,"}, "separator must be one character"),
        ({"kind": "guess"}, "unknown kind"),
    ],
)
def test_files_that_are_refused_leave_nothing(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    path = put(FRAME, tmp_path / "all.csv")
    with pytest.raises(ValueError, match=sentence):
        pack_files(**{"paths": path, "folder": tmp_path / "store", **COLUMNS, **change})
    assert [each.name for each in tmp_path.iterdir()] == ["all.csv"]


def test_other_files_that_are_refused(tmp_path: Path, small: None) -> None:
    (tmp_path / "notes").mkdir()
    with pytest.raises(ValueError, match=r"files of one kind of .parquet, .csv, .json, found none of them"):
        pack_files(tmp_path / "notes", tmp_path / "store", **COLUMNS)
    both = [put(FRAME, tmp_path / "all.csv"), put(FRAME, tmp_path / "all.parquet")]
    with pytest.raises(ValueError, match=r"files of one kind can be packed together, found .csv, .parquet"):
        pack_files(both, tmp_path / "store", **COLUMNS)
    put(FRAME.assign(note=[f"text {n % 150}" for n in range(200)], dose=FRAME["dose"].where(FRAME.index < 150)),
        tmp_path / "missing.csv")  # fmt: skip
    with pytest.raises(ValueError, match="missing or infinite ones: dose"):
        pack_files(tmp_path / "missing.csv", tmp_path / "store", **COLUMNS)
    wide = pd.DataFrame({"note": [f"text {n}" for n in range(1100)], "y": 0, "c": range(1100)})
    with pytest.raises(ValueError, match=r"column 'note' has 1,0\d\d different texts, at most 1,000"):
        pack_files(put(wide, tmp_path / "wide.csv"), tmp_path / "store", target="y", client="c")
    with pytest.raises(ValueError, match=r"at most 1,000 classes are found by their names; give them as classes"):
        pack_files(tmp_path / "wide.csv", tmp_path / "store", target="note", client="c")
    (tmp_path / "odd.parquet").write_bytes(b"no table")
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        pack_files(tmp_path / "odd.parquet", tmp_path / "store", **COLUMNS)
    (tmp_path / "leaf.json").write_text("{}")
    with pytest.raises(ValueError, match="target does not go with LEAF's files"):
        pack_files(tmp_path / "leaf.json", tmp_path / "store", target="y")
    assert not (tmp_path / "store").exists()


def test_a_folder_in_use_is_found_before_anything_is_read(tmp_path: Path) -> None:
    path = put(FRAME, tmp_path / "all.csv")
    pack_files(path, tmp_path / "store", **COLUMNS)

    def told(*_: Any) -> None:
        raise AssertionError("nothing is to be read")

    with pytest.raises(ValueError, match="already holds a store"):
        pack_files(path, tmp_path / "store", on_progress=told, **COLUMNS)


def test_one_client_is_read_when_it_is_asked_for(tmp_path):
    x, y, ids = np.arange(40.0).reshape(10, 4), np.arange(10) % 3, np.arange(10) % 4
    pack((x, y), tmp_path / "store", client_ids=ids)
    found, whole = stored(str(tmp_path / "store")), hush.tasks.arrays(x, y, ids, model="softmax")
    rows = jnp.arange(2)
    np.testing.assert_array_equal(found.client(3).examples(rows)[0], whole.client(3).examples(rows)[0])
    with pytest.raises(ValueError, match="lie on disk"):
        found.client(jnp.int32(3))

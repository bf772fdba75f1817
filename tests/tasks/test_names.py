"""Names of clients and classes: they come back with results and folders, and change nothing that is computed."""

from typing import Any

import equinox as eqx
import numpy as np
import pandas as pd
import pytest

import hush
from hush.store import load_table
from hush.store.files import CLASS_COUNTS, CLIENTS
from hush.store.fingerprint import fingerprint

X = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
Y = np.arange(12) % 3
WARDS = np.array(["north", "east", "south", "east"] * 3)


def made(ids: Any, y: Any = Y) -> Any:
    return hush.tasks.arrays(X, y, ids, model="softmax", test=(X, y))


def ran(problem: Any, **more: Any) -> Any:
    return hush.run(hush.fedavg(2, steps=1, lr=0.1), problem, 2, repetitions=2, progress=False, **more)


def test_each_row_has_the_name_of_its_client(tmp_path: Any, unpainted: Any) -> None:
    result = ran(made(WARDS), folder=tmp_path / "run")
    assert list(result.clients.columns[:3]) == ["repetition", "client", "client_name"]
    numbers = dict(enumerate(sorted(set(WARDS))))
    assert result.clients["client_name"].tolist() == [numbers[number] for number in result.clients["client"]]
    written = load_table(tmp_path / "run", CLIENTS.name)
    assert written is not None
    pd.testing.assert_frame_equal(written, result.clients)


@pytest.mark.parametrize(
    ("ids", "names"),
    [
        (np.arange(12) % 4, None),
        (np.arange(12) % 3 * 5 - 5, ("-5", "0", "5")),
        (WARDS.astype(object), ("east", "north", "south")),
        (pd.Series(WARDS, dtype="category"), ("east", "north", "south")),
    ],
)
def test_ids_are_names_but_for_the_numbers_that_clients_have_anyway(ids: Any, names: Any) -> None:
    problem = made(ids)
    assert problem.client_names == names
    assert ("client_name" in ran(problem).clients) == (names is not None)


def test_some_clients_keep_their_names() -> None:
    part = made(WARDS).restrict([2, 0])
    numbers = np.asarray(part.population.numbers).tolist()
    assert [part.client_names[number] for number in numbers] == ["east", "south"]
    size = {name: int(np.sum(name == WARDS)) for name in part.client_names}
    assert np.asarray(part.population.sizes).tolist() == [size["east"], size["south"]]


def test_other_names_are_the_same_problem() -> None:
    """The same program, and a run that may go on: names are no part of what is computed."""
    english, german = made(WARDS), made(np.char.add("Haus ", WARDS))
    numbered = made(WARDS, np.array(["a", "b", "c"])[Y])
    algorithm, run = hush.fedavg(steps=1), {"seed": 0}
    before = fingerprint(algorithm, english, run)
    assert before.differences(fingerprint(algorithm, german, run)) == []
    assert before.differences(fingerprint(algorithm, numbered, run)) == []
    for other in (german, numbered):
        assert english.names == other.names
        assert hash(english.names) == hash(other.names)
    traced = []

    @eqx.filter_jit
    def total(problem: Any) -> Any:
        traced.append(problem)
        return problem.train.x.sum()

    assert total(english) == total(german) == total(numbered)
    assert len(traced) == 1
    pd.testing.assert_frame_equal(
        ran(english).records.drop(columns="seconds"), ran(numbered).records.drop(columns="seconds")
    )


def test_a_folder_keeps_the_names_of_classes(tmp_path: Any, unpainted: Any) -> None:
    """A class that has a name and no example is counted too: nobody holds it."""
    named = pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "ward": WARDS, "found": np.array(["ill", "well", "hurt"])[Y]})
    classes = ["well", "ill", "hurt", "lost"]
    problem = hush.tasks.frame(named, "found", "ward", classes=classes)
    result = ran(problem, folder=tmp_path / "run")
    saved = result.save(tmp_path / "again").folder
    for folder in (tmp_path / "run", saved):
        with np.load(folder / CLASS_COUNTS.name) as held:
            assert held["classes"].tolist() == classes
            expected = named.groupby(["ward", "found"]).size().unstack(fill_value=0).reindex(columns=classes)
            assert (held["counts"] == expected.fillna(0).to_numpy()).all()


def test_classes_that_are_numbers_have_no_names_in_a_folder(tmp_path: Any, unpainted: Any) -> None:
    ran(made(WARDS), folder=tmp_path / "run")
    with np.load(tmp_path / "run" / CLASS_COUNTS.name) as held:
        assert list(held) == ["counts"]


def test_a_problem_without_names(quadratic: Any, unequal: Any) -> None:
    assert quadratic.client_names is None
    assert (unequal.client_names, unequal.classes, unequal.features) == (None, None, None)

"""Datasets of Hugging Face, made in memory: pictures and columns against the arrays they were made of."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import hush

datasets = pytest.importorskip("datasets", reason="meets it for real: make peers")

ROWS = 12
PIXELS = np.random.default_rng(0).integers(0, 256, (ROWS, 5, 4)).astype(np.uint8)
LABELS = np.arange(ROWS) % 3
NAMES = ["cat", "ant", "bee"]
WRITERS = np.array(["zoe", "ann", "bob", "ann"] * 3)


def columns(**change: Any) -> dict[str, Any]:
    return {
        "image": [Image.fromarray(each) for each in PIXELS],
        "label": LABELS,
        "writer": WRITERS,
        "age": np.arange(ROWS, dtype=float),
        "vector": PIXELS.reshape(ROWS, -1).tolist(),
    } | change


def made(**change: Any) -> Any:
    given = datasets.Dataset.from_dict(columns(**change))
    return given.cast_column("label", datasets.ClassLabel(names=NAMES)) if "label" not in change else given


def task(dataset: Any, **change: Any) -> Any:
    return hush.tasks.hugging_face(dataset, **({"input": "image", "target": "label", "client": "writer"} | change))


def test_pictures_are_bytes_and_classes_have_their_names() -> None:
    problem = task(made(), test=made().select([5, 2]))
    assert problem.classes == ("cat", "ant", "bee")
    assert problem.client_names == ("ann", "bob", "zoe")
    assert problem.train.x.dtype == np.uint8
    np.testing.assert_array_equal(problem.train.x, PIXELS)
    np.testing.assert_allclose(problem.train[:][0], PIXELS / 255, rtol=1e-6)
    np.testing.assert_array_equal(problem.test.x, PIXELS[[5, 2]])
    assert np.asarray(problem.test.y).tolist() == LABELS[[5, 2]].tolist()
    assert [len(part) for part in np.split(np.asarray(problem.index), np.asarray(problem.offsets)[1:])] == [6, 3, 3]


def test_colours_and_a_shuffled_dataset() -> None:
    colours = np.random.default_rng(1).integers(0, 256, (ROWS, 5, 4, 3)).astype(np.uint8)
    given = made(image=[Image.fromarray(each) for each in colours])
    order = np.random.default_rng(2).permutation(ROWS)
    problem = task(given.select(order).with_format("numpy"), client=np.arange(ROWS) % 4)
    np.testing.assert_array_equal(problem.train.x, colours[order])
    assert np.asarray(problem.train.y).tolist() == LABELS[order].tolist()
    assert problem.client_names is None


def test_columns_of_numbers_as_a_frame_has_them() -> None:
    order = np.random.default_rng(2).permutation(ROWS)
    problem = task(made().select(order), input=["age", "vector"], test=made())
    assert problem.features[:2] == ("age", "vector[0]")
    np.testing.assert_array_equal(problem.train.x, np.c_[order, PIXELS.reshape(ROWS, -1)[order]])
    np.testing.assert_array_equal(problem.test.x, np.c_[np.arange(ROWS), PIXELS.reshape(ROWS, -1)])
    text = task(made(label=[NAMES[label] for label in LABELS]), input="age")
    assert text.classes == ("ant", "bee", "cat")


def test_class_labels_that_are_no_target_are_names() -> None:
    kinds = datasets.ClassLabel(names=["x", "y"])
    given = made(ward=[0, 1] * 6, site=[1, 1, 0, 0] * 3).cast_column("ward", kinds).cast_column("site", kinds)
    problem = task(given, input=["age", "ward"], client="site")
    assert problem.features == ("age", "ward=x", "ward=y")
    assert problem.client_names == ("x", "y")
    assert task(given, client="site").client_names == ("x", "y")


def test_rows_are_dealt_by_a_partitioner() -> None:
    class Halves:
        num_partitions, dataset = 2, None

        def is_dataset_assigned(self) -> bool:
            return False

        def load_partition(self, number: int) -> Any:
            assert self.dataset is not None
            return self.dataset.select(range(number, 8, 2))

    problem = task(made(), client=Halves())
    np.testing.assert_array_equal(problem.train.x, PIXELS[[0, 2, 4, 6, 1, 3, 5, 7]])
    assert np.asarray(problem.population.sizes).tolist() == [4, 4]


def test_it_is_trained() -> None:
    result = hush.run(hush.fedavg(2, steps=1), task(made(), test=made()), 1, progress=False)
    assert result.clients["client_name"].tolist() == ["ann", "bob", "zoe"]


LARGE = [Image.fromarray(PIXELS[0].repeat(2, 0)), *columns()["image"][1:]]
COLOURED = [Image.fromarray(PIXELS[0]).convert("RGB"), *columns()["image"][1:]]


@pytest.mark.parametrize(
    ("dataset", "change", "sentence"),
    [
        (lambda: {"train": made()}, {}, r"must be a datasets.Dataset, found dict; take one of its splits, \['train'\]"),
        (lambda: pd.DataFrame(), {}, "must be a datasets.Dataset, found DataFrame"),
        (made, {"test": [1]}, "test must be a datasets.Dataset, found list"),
        (made, {"input": "imag"}, "dataset has no column 'imag'; did you mean 'image'"),
        (made, {"target": "labels"}, "dataset has no column 'labels'"),
        (made, {"client": "author"}, "no column 'author'"),
        (made, {"client": "author", "input": "age"}, "no column 'author'"),
        (made, {"input": "writer"}, "found text in column 'writer'; text becomes numbers by hush.tasks.tokens"),
        (made, {"input": ["image", "age"]}, "one column of images, or columns of numbers, found both"),
        (lambda: made(image=LARGE), {}, "pictures of one size and of one mode"),
        (lambda: made(image=COLOURED), {}, "pictures of one size and of one mode .*L, RGB"),
        (lambda: made(image=[each.convert("P") for each in columns()["image"]]), {}, "among L, RGB, RGBA"),
        (lambda: made(image=[*columns()["image"][1:], None]), {}, "a picture in every row, found none in row 11"),
        (lambda: made(age=[None, *range(11)]), {"input": "age"}, "missing or infinite ones: age 1"),
    ],
)
def test_what_is_refused(dataset: Any, change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        task(dataset(), **change)


def test_a_test_with_other_classes_is_refused() -> None:
    other = made(label=LABELS).cast_column("label", datasets.ClassLabel(names=NAMES[::-1]))
    with pytest.raises(ValueError, match=r"test must have the classes of the training, \['cat', 'ant', 'bee'\]"):
        task(made(), test=other)
    with pytest.raises(ValueError, match="test has no column 'image'"):
        task(made(), test=made().remove_columns("image"))

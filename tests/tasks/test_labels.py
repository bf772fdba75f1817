"""Labels that are names: numbered as sorted(set(…)) would, by training and test alike, and given back by name."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import hush
from hush.tasks.labels import numbering

X = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
NAMES = ["wolf", "ant", "bee", "ant"] * 3
IDS = np.arange(12) % 3


def made(y: Any, **more: Any) -> Any:
    return hush.tasks.arrays(X, y, IDS, **({"model": "softmax"} | more))


@pytest.mark.parametrize(
    "given",
    [
        NAMES,
        tuple(NAMES),
        np.array(NAMES),
        np.array(NAMES, object),
        np.array(NAMES, np.bytes_),
        np.array(NAMES)[:, None],
        pd.Series(NAMES),
        pd.Series(NAMES, dtype="category"),
        pd.Categorical(NAMES, categories=["wolf", "bee", "ant", "cat"]),
    ],
)
def test_names_in_any_wrapping_are_numbered_in_sorted_order(given: Any) -> None:
    problem = made(given)
    assert problem.classes == ("ant", "bee", "wolf")
    assert np.asarray(problem.train.y).tolist() == [sorted(set(NAMES)).index(name) for name in NAMES]
    assert problem.train.y.dtype == np.int32
    assert problem.model.classes == 3


def test_any_labels_that_can_be_sorted() -> None:
    labels = np.empty(12, object)
    labels[:] = [(0, "b"), (0, "a"), (-1, "z")] * 4
    problem = made(labels)
    assert problem.classes == ((-1, "z"), (0, "a"), (0, "b"))
    assert np.asarray(problem.train.y).tolist() == [2, 1, 0] * 4


@pytest.mark.parametrize("given", [[0, 2, 2] * 4, np.array([0, 2, 2] * 4, object), np.array([False, True, True] * 4)])
def test_numbers_keep_their_values(given: Any) -> None:
    problem = made(given)
    assert problem.classes is None
    assert np.asarray(problem.train.y).tolist() == [int(label) for label in given]


def test_of_two_names_the_second_is_one() -> None:
    y = ["malignant", "benign", "benign"] * 4
    problem = made(y, kind="binary", test=(X, y[::-1]))
    assert problem.classes == ("benign", "malignant")
    assert np.asarray(problem.train.y).tolist() == [1.0, 0.0, 0.0] * 4
    assert np.asarray(problem.test.y).tolist() == [0.0, 0.0, 1.0] * 4


def test_the_test_is_numbered_by_the_training() -> None:
    problem = made(NAMES, test=(X[:2], ["wolf", "bee"]))
    assert np.asarray(problem.test.y).tolist() == [2, 1]
    with pytest.warns(UserWarning, match=r"no training example has: \['aardvark', 'cow'\]"):
        problem = made(NAMES, test=(X[:3], ["cow", "ant", "aardvark"]))
    assert problem.classes == ("ant", "bee", "wolf", "aardvark", "cow")
    assert np.asarray(problem.test.y).tolist() == [4, 0, 3]
    assert problem.model.classes == 5


def test_classes_give_another_order_and_names_for_numbers() -> None:
    order = ["wolf", "bee", "cat", "ant"]
    problem = made(NAMES, classes=order)
    assert problem.classes == tuple(order)
    assert np.asarray(problem.train.y).tolist() == [order.index(name) for name in NAMES]
    assert problem.model.classes == 4
    numbers = made([0, 1, 1] * 4, classes=np.array(["no", "yes", "perhaps"]))
    assert numbers.classes == ("no", "yes", "perhaps")
    assert numbers.model.classes == 3


@pytest.mark.parametrize(
    ("y", "more", "sentence"),
    [
        ([None, *NAMES[1:]], {}, "a label for each example, found none for 1 of 12"),
        (np.array([np.nan, *NAMES[1:]], object), {}, "found none for 1 of 12"),
        (pd.Series([pd.NA, *NAMES[1:]]), {}, "found none for 1 of 12"),
        (np.array([1, *NAMES[1:]], object), {}, "labels of one kind that can be sorted, found int, str"),
        (np.array([[], *NAMES[1:]], object), {}, "labels of one kind that can be sorted, found list, str"),
        (NAMES, {"kind": "binary"}, "two different labels for kind='binary', found 3"),
        (["yes"] * 12, {"kind": "binary"}, "two different labels for kind='binary', found 1"),
        (NAMES, {"classes": ["ant", "bee"]}, r"among the classes \('ant', 'bee'\), found \['wolf'\]"),
        (NAMES, {"classes": ["ant", "ant"]}, "classes must be different names"),
        (NAMES, {"classes": [["ant"], ["bee"]]}, "classes must be different names"),
        (NAMES, {"classes": "ant"}, "classes must be a list of names"),
        (NAMES, {"classes": []}, "classes must be a list of names"),
        ([0, 1, 2] * 4, {"classes": ["a", "b"]}, "labels below 2, the number of classes that have names, found 2"),
        ([0.0] * 12, {"classes": ["a"], "kind": "regression"}, "classes are of labels"),
        (NAMES, {"kind": "regression"}, "y must be real numbers, found text"),
        (NAMES, {"test": (X, [0, 1] * 6)}, "test y must be of the names that y's labels are, found numbers"),
        ([0, 1] * 6, {"test": (X, NAMES)}, "test y must be numbers, as y's labels are"),
        (
            ["no", "yes"] * 6,
            {"test": (X, ["no"] * 11 + ["?"]), "kind": "binary"},
            r"among the classes .*found \['\?'\]",
        ),
        (NAMES[:5], {}, "x and y must be as long as each other, found 12 and 5"),
    ],
)
def test_what_is_refused(y: Any, more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        made(y, **more)


def test_as_many_names_as_examples_are_no_classes() -> None:
    with pytest.raises(ValueError, match="names of classes, found 1,500 different in 1,500 examples"):
        numbering("y", [f"patient {number}" for number in range(1500)], "classification")


def test_an_image_with_channels_first_is_refused_for_a_convolution() -> None:
    turned, straight = np.zeros((12, 3, 32, 32)), np.zeros((12, 32, 32, 3))
    with pytest.raises(ValueError, match=r"lenet5 takes images as height × width × channels, found \(3, 32, 32\)"):
        hush.tasks.arrays(turned, IDS, IDS, model="lenet5")
    assert hush.tasks.arrays(turned, IDS, IDS, model="softmax").population.clients == 3
    assert hush.tasks.arrays(straight, IDS, IDS, model="lenet5").population.clients == 3

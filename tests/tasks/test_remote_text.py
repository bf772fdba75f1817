"""Text that stays on devices: its windows are those of a simulation's task, and what is none is refused."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.core.costs import costs
from hush.core.flat import dimension
from hush.network.holding import holding
from hush.settings import build, tables_of
from hush.tasks.remote import held

LENGTH, TOKENS = 5, 101
TEXTS = ["a rose is a rose is a rose", "so few words", "the engine weaves patterns"]
OPTIONS = {"width": 4, "embedding": 3}
SIZES = [-(-len(text) // (LENGTH + 1)) for text in TEXTS]


def remote(**settings: Any) -> Any:
    asked = {"shape": [LENGTH], "outputs": TOKENS, "kind": "text", "model": "gru", "model_options": OPTIONS}
    return hush.tasks.remote(SIZES, **asked | settings)


def simulated(**settings: Any) -> Any:
    return hush.tasks.tokens(TEXTS, [0, 1, 2], model="gru", model_options=OPTIONS, length=LENGTH, **settings)


def windows() -> tuple[Any, Any]:
    rows = np.arange(2 * (LENGTH + 1)).reshape(2, -1)
    return rows[:, :-1], rows[:, 1:]


def test_a_text_file_is_cut_as_a_simulation_cuts_it(tmp_path: Any) -> None:
    whole = simulated()
    assert dimension(remote()) == dimension(whole)
    for client, text in enumerate(TEXTS):
        path = tmp_path / f"{client}.txt"
        path.write_text(text)
        mine = holding(str(path), remote(), client).problem.train
        theirs = whole.restrict([client]).train
        np.testing.assert_array_equal(mine.x, theirs.x)
        np.testing.assert_array_equal(mine.y, theirs.y)
        assert mine.x.dtype == jnp.int32
        np.savez(tmp_path / "mine.npz", x=mine.x, y=mine.y)
        again = holding(str(tmp_path / "mine.npz"), remote(), client).problem.train
        np.testing.assert_array_equal(again.x, mine.x)


def test_the_server_measures_tokens_each_once(tmp_path: Any) -> None:
    (tmp_path / "test.txt").write_text("a rose, a word")
    here, there = remote(test=str(tmp_path / "test.txt")), simulated(test="a rose, a word")
    np.testing.assert_array_equal(here.tables()["test"], there.tables()["test"])
    np.testing.assert_array_equal(here.test.y, there.test.y)
    assert list(here.tables()) == ["test"]


def test_settings_files_name_it_with_a_part_of_the_model() -> None:
    problem = remote(model_options=OPTIONS | {"trainable": ["*head*"]})
    found = build(tables_of(hush.fedavg(), problem))
    assert dimension(found.problem()) == 4 * TOKENS + TOKENS
    assert costs(found.algorithm, found.problem()).client_uplink_bits.most == 32 * (4 * TOKENS + TOKENS)
    x, y = windows()
    with pytest.raises(ValueError, match="tokens must be below 101, the number of outputs, found 110"):
        held(problem, 1, x + 99, y + 99)


def test_labels_are_held_to_the_outputs_of_a_model_in_parts_too() -> None:
    options = {"trainable": ["*bias"]}
    problem = hush.tasks.remote([2], shape=[3], outputs=4, model="mlp", model_options=options)
    with pytest.raises(ValueError, match="labels must be below 4, the number of outputs, found 4"):
        held(problem, 0, np.zeros((2, 3)), [0, 4])


def _unlike(x: Any, y: Any) -> tuple[Any, Any]:
    return x, y[::-1]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda x, y: (x.astype(float), y), r"x must be integers \[n, 5\], found float64"),
        (lambda x, y: (x[:, 1:], y), r"x must be integers \[n, 5\], found int64 of shape \(2, 4\)"),
        (lambda x, y: (x, y[:, 0]), r"y must be integers \[n, 5\], found int64 of shape \(2,\)"),
        (lambda x, y: (x[:1], y), "as long as each other, found 1 and 2"),
        (_unlike, "y must be the tokens of x one place later"),
        (lambda x, y: (x, np.where(y == 2, -1, y)), "filled up at the end alone"),
        (lambda x, y: (x, np.full_like(y, -1)), "two tokens or more"),
        (lambda x, y: (x - 2, y - 2), "tokens from 0 on"),
        (lambda x, y: (x + 99, y + 99), "tokens must be below 101, the number of outputs, found 110"),
        (lambda x, y: (x[:1], y[:1]), "was announced with 2 examples, found 1"),
    ],
)
def test_what_is_no_window_of_tokens_is_refused(change: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        held(remote(), 1, *change(*windows()))
    held(remote(), 1, *windows())


def test_what_fills_a_window_may_be_any_token() -> None:
    """A device may fill with what it likes: it does not count, and the model sees 0 there."""
    x, y = windows()
    x, y = x.copy(), y.copy()
    y[0, 2:], x[0, 3:] = -1, 77
    mine = held(remote(), 1, x, y).train
    assert np.asarray(mine.x)[0].tolist() == [0, 1, 2, 0, 0]
    np.testing.assert_array_equal(mine.y, y)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"model": "softmax"}, "unknown model of text 'softmax'"),
        ({"shape": [5, 2]}, r"shape must be the length of a window, such as \[64\], found \[5, 2\]"),
        ({"scale": 2.0}, "tokens are handed over as they are"),
        ({"kind": "tokens"}, "unknown kind 'tokens'"),
    ],
)
def test_settings_that_make_no_task_of_text_are_refused(settings: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        remote(**settings)


def test_files_that_are_no_data_for_a_task_are_refused_with_the_reason(tmp_path: Any) -> None:
    (tmp_path / "mine.txt").write_text(TEXTS[0])
    other = hush.tasks.remote([2], shape=[3], outputs=4)
    for problem, source, reason in (
        (remote(), "mine.parquet", "whose windows of tokens are no columns"),
        (other, "mine.txt", "this task is of no text"),
        (remote(outputs=50), "mine.txt", "cut into 101 characters, and the task has 50 tokens"),
        (remote(), "absent.txt", "cannot be read as text"),
    ):
        with pytest.raises(ValueError, match=reason):
            holding(str(tmp_path / source), problem, 0)

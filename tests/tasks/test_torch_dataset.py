"""PyTorch's datasets and loaders against the tensors they were made of; and things that only look like them."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import hush

ROWS = 12
X = np.random.default_rng(0).normal(size=(ROWS, 3, 9, 10)).astype(np.float32)
Y = np.arange(ROWS) % 3
IDS = np.array(["b", "a", "c", "a"] * 3)


class Plain:
    """A dataset by PyTorch's contract, without PyTorch."""

    def __init__(self, rows: Any = range(ROWS)) -> None:
        self.rows = list(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> tuple[Any, int]:
        if number >= len(self):
            raise IndexError
        return X[self.rows[number]], int(Y[self.rows[number]])


def made(dataset: Any, client_ids: Any = IDS, **more: Any) -> Any:
    return hush.tasks.torch_dataset(dataset, client_ids, **({"model": "softmax"} | more))


def test_a_dataset_without_pytorch() -> None:
    problem = made(Plain(), test=Plain([4, 2]))
    np.testing.assert_array_equal(problem.train.x, X)
    np.testing.assert_array_equal(problem.test.x, X[[4, 2]])
    assert np.asarray(problem.train.y).tolist() == Y.tolist()
    assert problem.client_names == ("a", "b", "c")
    turned = made(Plain(), test=Plain(), channels_first=True)
    assert turned.train.x.shape == (ROWS, 9, 10, 3)
    np.testing.assert_array_equal(turned.test.x, X.transpose(0, 2, 3, 1))


def test_a_dataset_for_each_client() -> None:
    rows = {"zoe": [5, 1], "ann": [0, 7, 3]}
    problem = made({name: Plain(each) for name, each in rows.items()}, None)
    assert problem.client_names == ("ann", "zoe")
    for number, name in enumerate(problem.client_names):
        x, y = problem.client(number).examples(jnp.arange(len(rows[name])))
        np.testing.assert_array_equal(x, X[rows[name]])
        assert np.asarray(y).tolist() == Y[rows[name]].tolist()
    assert made(dict(enumerate([Plain([1]), Plain([2])])), None).client_names is None


def test_a_list_of_pairs_and_one_that_can_only_be_gone_through() -> None:
    pairs = [(X[row], Y[row]) for row in range(ROWS)]
    np.testing.assert_array_equal(made(pairs).train.x, X)
    np.testing.assert_array_equal(made(iter(pairs)).train.x, X)


@pytest.mark.parametrize(
    ("dataset", "more", "sentence"),
    [
        (Plain(), {"client_ids": None}, "client_ids must name a client for each example"),
        (Plain(), {"client_ids": IDS[:3]}, "client_ids must name a client for each of 12 examples, found 3"),
        ({"a": Plain()}, {}, "client_ids go with one dataset for all"),
        ({}, {"client_ids": None}, "clients must be named"),
        ({1.5: Plain()}, {"client_ids": None}, r"named by text or whole numbers, found \[1.5\]"),
        ([(X[0], 1, 2)], {}, r"dataset must have examples \(x, y\), found tuple at 0"),
        ([{"x": 1}], {}, r"examples \(x, y\), found dict at 0; .* hush.tasks.hugging_face"),
        ([], {}, "dataset must have examples, found none"),
        (7, {}, "must be a Dataset or a DataLoader of PyTorch, found int"),
        ("mnist", {}, "must be a Dataset or a DataLoader of PyTorch, found str"),
        ([(X[0], 1), (X[0, :2], 1)], {}, r"inputs of one shape, found \(3, 9, 10\) at 0 and \(2, 9, 10\) at 1"),
        ({"a": [(X[0], 1)], "b": [(X[0, 0], 1)]}, {"client_ids": None}, "clients must have examples of one shape"),
        ([(X[0, 0], 1)], {"channels_first": True}, r"channels_first is for images .*found inputs of \(9, 10\)"),
        (Plain(), {"channels_first": 1}, "channels_first must be True or False"),
    ],
)
def test_what_is_refused(dataset: Any, more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        made(dataset, **more)


class TestPyTorch:
    """The real things."""

    @pytest.fixture(autouse=True)
    def _torch(self) -> None:
        self.torch = pytest.importorskip("torch", reason='PyTorch is an extra: pip install "hush[torch]"')
        self.data = self.torch.utils.data
        self.whole = self.data.TensorDataset(self.torch.tensor(X), self.torch.tensor(Y))

    @pytest.mark.parametrize("options", [{}, {"batch_size": 5}, {"batch_size": 5, "shuffle": True, "drop_last": True}])
    def test_a_loader_is_its_dataset_in_order(self, options: dict[str, Any]) -> None:
        problem = made(self.data.DataLoader(self.whole, **options))
        np.testing.assert_array_equal(problem.train.x, X)
        assert np.asarray(problem.train.y).tolist() == Y.tolist()

    def test_an_iterable_dataset_is_gone_through(self) -> None:
        whole = self.whole

        class Stream(self.data.IterableDataset):
            def __iter__(self) -> Any:
                return (whole[row] for row in range(ROWS))

        for dataset in (Stream(), self.data.DataLoader(Stream(), batch_size=5)):
            np.testing.assert_array_equal(made(dataset).train.x, X)

    def test_tensors_of_other_kinds(self) -> None:
        x = self.torch.tensor(X, requires_grad=True).to(self.torch.bfloat16)
        found = made([(x[row], self.torch.tensor([float(Y[row])])) for row in range(ROWS)])
        np.testing.assert_array_equal(found.train.x, x.detach().float().numpy())

    def test_parts_of_one_dataset(self) -> None:
        first, second = (self.data.Subset(self.whole, rows) for rows in ([0, 2, 4], [1, 3]))
        loader = self.data.DataLoader(self.data.Subset(first, [2, 0]), shuffle=True)
        problem = made({"a": loader, "b": second}, None)
        np.testing.assert_array_equal(problem.client(0).examples(jnp.arange(2))[0], X[[4, 0]])
        with pytest.raises(ValueError, match="found example 4 of one dataset with 'a' and with 'b'"):
            made({"a": loader, "b": self.data.Subset(self.whole, [3, 4])}, None)
        with pytest.raises(ValueError, match="found example 1 of one dataset with 'b' and with 'c'"):
            made({"b": second, "c": self.whole}, None)

    def test_loaders_that_are_refused(self) -> None:
        for options, sentence in (
            (
                {"sampler": self.data.SubsetRandomSampler([1, 2])},
                "found a SubsetRandomSampler; .*torch.utils.data.Subset",
            ),
            ({"sampler": self.data.RandomSampler(self.whole, replacement=True)}, "found a RandomSampler"),
            ({"sampler": self.data.RandomSampler(self.whole, num_samples=3)}, "found a RandomSampler"),
            ({"batch_sampler": self.data.BatchSampler([1, 2], 2, False)}, "batch_sampler"),
            ({"collate_fn": lambda batch: batch}, "no collate_fn of its own"),
        ):
            for dataset in (self.whole, list(self.whole)):
                with pytest.raises(ValueError, match=sentence):
                    made(self.data.DataLoader(dataset, **options))

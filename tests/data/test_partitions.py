"""Partitions: what must hold for every data set, over many of them, and the papers' own settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from hush.data import partitions

Labels = npt.NDArray[np.int64]
MNIST_COUNTS = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)

fixed = settings(derandomize=True, deadline=None, max_examples=50)
seeds = st.integers(0, 2**40)


@st.composite
def label_sets(draw: st.DrawFn, most: int = 40) -> Labels:
    """Unbalanced classes with gaps between their values, in mixed order."""
    counts = draw(st.lists(st.integers(1, most), min_size=1, max_size=6))
    labels = np.repeat(3 * np.arange(len(counts)) - 2, counts)
    return np.random.default_rng(draw(st.integers(0, 99))).permutation(labels)


def histogram(labels: npt.ArrayLike, shares: list[Any]) -> npt.NDArray[np.int64]:
    """Examples per [client, class], counted by a plain loop."""
    values = np.asarray(labels)
    kinds = np.unique(values)
    return np.array([[int((values[share] == kind).sum()) for kind in kinds] for share in shares])


def check(labels: Labels, shares: list[Any], clients: int, *, disjoint: bool = True, all_used: bool = False) -> None:
    assert len(shares) == clients
    for share in shares:
        assert share.dtype == np.int64
        assert len(share) > 0
        assert np.all(np.diff(share) > 0), "ascending, no example twice"
        assert share[0] >= 0
        assert share[-1] < len(labels)
    together = np.concatenate(shares)
    if disjoint or all_used:
        assert len(np.unique(together)) == len(together)
    if all_used:
        assert len(together) == len(labels)


def same(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


class TestIid:
    @fixed
    @given(label_sets(), st.data(), seeds)
    def test_shares_are_equal_and_complete(self, labels: Labels, data: st.DataObject, seed: int) -> None:
        clients = data.draw(st.integers(1, len(labels)))
        shares = partitions.iid(labels, clients, seed)
        check(labels, shares, clients, all_used=True)
        sizes = [len(share) for share in shares]
        assert max(sizes) - min(sizes) <= 1
        assert same(shares, partitions.iid(labels, clients, seed))

    @fixed
    @given(label_sets(), st.data(), seeds, st.booleans())
    def test_examples_per_client(self, labels: Labels, data: st.DataObject, seed: int, overlap: bool) -> None:
        clients = data.draw(st.integers(1, len(labels)))
        examples = data.draw(st.integers(1, len(labels) if overlap else len(labels) // clients))
        shares = partitions.iid(labels, clients, seed, examples, overlap)
        check(labels, shares, clients, disjoint=not overlap)
        assert {len(share) for share in shares} == {examples}

    def test_overlapping_clients_do_not_depend_on_how_many_there_are(self) -> None:
        """Paper clipping, Cifar-10: 1920 clients with 500 of 50,000 examples each."""
        labels = np.arange(50_000) % 10
        shares = partitions.iid(labels, 1920, 7, 500, overlap=True)
        check(labels, shares, 1920, disjoint=False)
        assert same(shares[:5], partitions.iid(labels, 5, 7, 500, overlap=True))
        # How often an example is drawn is binomial: mean 1920 * 500 / 50000 = 19.2, variance 19.2 * 0.99.
        times = np.bincount(np.concatenate(shares), minlength=50_000)
        assert times.mean() == 19.2
        assert abs(times.var() / 19.008 - 1) < 0.05

    def test_seeds_differ(self) -> None:
        assert not same(partitions.iid(np.zeros(50, int), 5, 0), partitions.iid(np.zeros(50, int), 5, 1))


class TestClassesPerClient:
    @fixed
    @given(label_sets(), st.data(), seeds)
    def test_everyone_holds_exactly_that_many(self, labels: Labels, data: st.DataObject, seed: int) -> None:
        supply = np.unique(labels, return_counts=True)[1]
        clients = data.draw(st.integers(1, len(labels)))
        classes = data.draw(st.integers(1, len(supply)))
        assume(np.minimum(supply, clients).sum() >= clients * classes)
        shares = partitions.classes_per_client(labels, clients, classes, seed)
        check(labels, shares, clients)
        counts = histogram(labels, shares)
        assert np.all((counts > 0).sum(axis=1) == classes)
        if clients * classes >= len(supply):
            assert np.all(counts.sum(axis=0) > 0)
        held = supply[counts.sum(axis=0) > 0].sum()
        sizes = counts.sum(axis=1)
        assert len(set(sizes.tolist())) == 1 or sizes.sum() == held, "equal, or else all dealt out"
        assert sizes.sum() >= 0.9 * held
        assert same(shares, partitions.classes_per_client(labels, clients, classes, seed))

    @fixed
    @given(label_sets(), st.data(), seeds)
    def test_sizes_are_equal_if_dropping_is_allowed(self, labels: Labels, data: st.DataObject, seed: int) -> None:
        supply = np.unique(labels, return_counts=True)[1]
        clients = data.draw(st.integers(1, len(labels)))
        classes = data.draw(st.integers(1, len(supply)))
        assume(np.minimum(supply, clients).sum() >= clients * classes)
        shares = partitions.classes_per_client(labels, clients, classes, seed, most_dropped=1.0)
        check(labels, shares, clients)
        assert len({len(share) for share in shares}) == 1

    @pytest.mark.parametrize(("classes", "size"), [(1, 584), (2, 600), (3, 600), (5, 600), (10, 600)])
    def test_het_mnist(self, classes: int, size: int) -> None:
        """Paper fedpaq-dp: 100 equal clients.

        With one class each, m examples per client allow floor(n_k / m) holders of class k; 100 are needed.
        """
        if classes == 1:
            assert size == max(m for m in range(1, 601) if sum(n // m for n in MNIST_COUNTS) >= 100)
        labels = np.repeat(np.arange(10), MNIST_COUNTS)
        shares = partitions.classes_per_client(labels, 100, classes, seed=0)
        counts = histogram(labels, shares)
        assert set(counts.sum(axis=1).tolist()) == {size}
        assert np.all((counts > 0).sum(axis=1) == classes)
        fair = 60_000 / 100 / classes
        assert np.all(np.abs(counts[counts > 0] / fair - 1) < 0.15), "no class is there in name only"

    def test_pairs_of_classes_are_mixed(self) -> None:
        labels = np.repeat(np.arange(10), 6000)
        counts = histogram(labels, partitions.classes_per_client(labels, 100, 2, seed=3))
        pairs = {tuple(np.flatnonzero(row).tolist()) for row in counts}
        assert len(pairs) > 30, "of 45 possible"
        assert set((counts > 0).sum(axis=0).tolist()) == {20}

    def test_a_tiny_class_does_not_shrink_everyone(self) -> None:
        labels = np.array([0] * 1000 + [1] * 3)
        sizes = sorted(len(share) for share in partitions.classes_per_client(labels, 10, 1, seed=0))
        assert sizes == [3] + [111] * 8 + [112]

    def test_too_few_of_different_classes(self) -> None:
        with pytest.raises(ValueError, match=r"10 clients with 2 classes each need 20 .* found are 13"):
            partitions.classes_per_client([0] * 1000 + [1] * 3, 10, 2, seed=0)


class TestDominantClasses:
    @fixed
    @given(label_sets(), st.data(), seeds, st.floats(0.01, 1.0))
    def test_mixture(self, labels: Labels, data: st.DataObject, seed: int, share: float) -> None:
        supply = np.unique(labels, return_counts=True)[1]
        kinds = len(supply)
        dominant = data.draw(st.integers(1, kinds))
        share = 1.0 if dominant == kinds else share
        examples = data.draw(st.integers(1, 30))
        clients = data.draw(st.integers(1, 30))
        major = round(share * examples)
        rest, minor = kinds - dominant, examples - major
        allowed = {major // dominant, -(-major // dominant)}
        allowed |= {minor // rest, -(-minor // rest)} if rest else set()
        assume(examples <= len(labels) and major >= dominant and max(allowed) <= supply.min())
        shares = partitions.dominant_classes(labels, clients, examples, dominant, share, seed=seed)
        check(labels, shares, clients, disjoint=False)
        for row in histogram(labels, shares):
            assert set(row.tolist()) <= allowed
            assert row.sum() == examples

    @pytest.mark.parametrize("seed", range(3))
    def test_emnist_of_paper_002_uses_every_example_once(self, seed: int) -> None:
        """1920 clients times 125 examples is all of EMNIST digits: no example may be wasted or reused."""
        labels = np.repeat(np.arange(10), 24_000)
        shares = partitions.dominant_classes(labels, 1920, 125, seed=seed)
        check(labels, shares, 1920, all_used=True)
        counts = np.sort(histogram(labels, shares), axis=1)
        assert np.all(counts[:, -2:] == (57, 58))
        assert np.all(counts[:, :-2].sum(axis=1) == 10)
        assert set(counts[:, :-2].ravel().tolist()) == {1, 2}

    def test_section_two_of_paper_002(self) -> None:
        """With 500 examples: 230 of each of 2 classes and 5 of each of the other 8."""
        labels = np.repeat(np.arange(10), 24_000)
        counts = histogram(labels, partitions.dominant_classes(labels, 480, 500, seed=1))
        assert np.all(np.sort(counts, axis=1) == [5] * 8 + [230] * 2)
        assert set((counts == 230).sum(axis=0).tolist()) == {96}

    def test_classes_that_run_out_are_dealt_again_evenly(self) -> None:
        labels = np.repeat(np.arange(10), 100)
        shares = partitions.dominant_classes(labels, 64, 50, seed=2)
        check(labels, shares, 64, disjoint=False)
        times = np.bincount(np.concatenate(shares), minlength=1000)
        assert set(times.tolist()) <= {3, 4}, "3200 draws of 1000 examples"

    def test_one_client_needs_more_than_there_is(self) -> None:
        with pytest.raises(ValueError, match="would need 23 examples of a class that has 20"):
            partitions.dominant_classes(np.repeat(np.arange(10), 20), 3, 50, seed=0)


class TestDirichlet:
    @fixed
    @given(label_sets(), st.data(), st.sampled_from([1e-300, 1e-3, 0.1, 1.0, 100.0, 1e6, 1e300]), seeds)
    def test_every_example_once(self, labels: Labels, data: st.DataObject, alpha: float, seed: int) -> None:
        clients = data.draw(st.integers(1, len(labels)))
        minimum = data.draw(st.integers(1, len(labels) // clients))
        shares = partitions.dirichlet(labels, clients, alpha, seed, minimum)
        check(labels, shares, clients, all_used=True)
        assert min(len(share) for share in shares) >= minimum
        assert same(shares, partitions.dirichlet(labels, clients, alpha, seed, minimum))

    def test_small_alpha_separates_and_large_alpha_mixes(self) -> None:
        labels = np.repeat(np.arange(10), 1000)
        mixed = histogram(labels, partitions.dirichlet(labels, 10, 1e6, 0))
        assert np.all(np.abs(mixed - 100) <= 2)
        separate = histogram(labels, partitions.dirichlet(labels, 10, 1e-3, 0))
        assert np.mean(separate.max(axis=0) / separate.sum(axis=0)) > 0.95

    def test_proportions_have_the_variance_of_the_distribution(self) -> None:
        """Var of one share is (1/m) (1 - 1/m) / (m alpha + 1); 200 classes by 10 clients give 2000."""
        labels = np.repeat(np.arange(200), 1000)
        shares = histogram(labels, partitions.dirichlet(labels, 10, 0.5, 11)) / 1000
        assert abs(shares.var() / (0.1 * 0.9 / 6) - 1) < 0.1

    def test_as_many_clients_as_examples(self) -> None:
        labels = np.arange(5000) % 7
        check(labels, partitions.dirichlet(labels, 5000, 1e-3, 0), 5000, all_used=True)
        check(labels, partitions.dirichlet(labels, 4999, 1e6, 0), 4999, all_used=True)


class TestPowerLaw:
    @fixed
    @given(label_sets(), st.data(), st.floats(0, 50), seeds)
    @example(np.zeros(9, int), None, 1e4, 0)
    def test_every_example_once(self, labels: Labels, data: Any, exponent: float, seed: int) -> None:
        clients = data.draw(st.integers(1, len(labels))) if data else 3
        minimum = data.draw(st.integers(1, len(labels) // clients)) if data else 1
        shares = partitions.power_law(labels, clients, exponent, seed, minimum)
        check(labels, shares, clients, all_used=True)
        assert min(len(share) for share in shares) >= minimum
        assert same(shares, partitions.power_law(labels, clients, exponent, seed, minimum))

    @pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0])
    def test_sizes_follow_the_law(self, exponent: float) -> None:
        labels = np.zeros(100_000, int)
        sizes = np.sort([len(share) for share in partitions.power_law(labels, 50, exponent, 0)])[::-1]
        law = np.array([rank**-exponent for rank in range(1, 51)])
        np.testing.assert_allclose(sizes, 1 + (100_000 - 50) * law / law.sum(), atol=1.01)


class TestByClientId:
    def test_numbers_in_order_of_value(self) -> None:
        shares, names = partitions.by_client_id([10, 9, 10, -1])
        assert names == ["-1", "9", "10"]
        assert [share.tolist() for share in shares] == [[3], [1], [0, 2]]

    @pytest.mark.parametrize("kind", [str, object, np.bytes_])
    def test_strings(self, kind: Any) -> None:
        shares, names = partitions.by_client_id(np.array(["zoe", "ann", "zoe"]).astype(kind))
        assert names == ["ann", "zoe"]
        assert [share.tolist() for share in shares] == [[1], [0, 2]]

    @fixed
    @given(st.lists(st.integers(-5, 5), min_size=1) | st.lists(st.text("ab", max_size=3), min_size=1))
    def test_against_a_plain_loop(self, ids: list[Any]) -> None:
        shares, names = partitions.by_client_id(ids)
        check(np.zeros(len(ids), int), shares, len(set(ids)), all_used=True)
        for share, name in zip(shares, names, strict=True):
            assert share.tolist() == [row for row, found in enumerate(ids) if str(found) == name]

    @pytest.mark.parametrize("ids", [[], [1.5], [[1]]])
    def test_refused(self, ids: Any) -> None:
        with pytest.raises(ValueError, match=r"client_ids are .* allowed are whole numbers or strings \[n\]"):
            partitions.by_client_id(ids)


LABELS = np.arange(20) % 4
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("iid", {"clients": 0}, "clients must be a whole number from 1 to 20, found 0"),
    ("iid", {"clients": 21}, "clients must be a whole number from 1 to 20, found 21"),
    ("iid", {"clients": 2.0}, "clients must be a whole number .*, found 2.0"),
    ("iid", {"clients": 4, "examples": 6}, "examples must be a whole number from 1 to 5, found 6"),
    ("iid", {"clients": 4, "examples": 21, "overlap": True}, "examples must be .* from 1 to 20, found 21"),
    ("iid", {"clients": 4, "seed": -1}, "seed must be a whole number of at least 0, found -1"),
    ("iid", {"clients": 1, "labels": [0.5]}, r"labels are float64 \[1\], allowed are whole numbers \[n\]"),
    ("iid", {"clients": 1, "labels": np.zeros((0,), int)}, r"labels are int64 \[0\]"),
    (
        "classes_per_client",
        {"clients": 2, "classes": 5},
        "classes must be a whole number from 1 to 4, found 5",
    ),
    (
        "classes_per_client",
        {"clients": 2, "classes": 0},
        "classes must be a whole number from 1 to 4, found 0",
    ),
    ("classes_per_client", {"clients": 21, "classes": 1}, "clients must be .*, found 21"),
    (
        "classes_per_client",
        {"clients": 2, "classes": 1, "most_dropped": 2},
        "most_dropped is 2, .* from 0 to 1",
    ),
    (
        "dominant_classes",
        {"clients": 0, "examples": 5},
        "clients must be a whole number of at least 1, found 0",
    ),
    (
        "dominant_classes",
        {"clients": 2, "examples": 21},
        "examples must be a whole number from 1 to 20, found 21",
    ),
    ("dominant_classes", {"clients": 2, "examples": 5, "dominant": 5}, "dominant must be .* from 1 to 4, found 5"),
    (
        "dominant_classes",
        {"clients": 2, "examples": 5, "share": 1.5},
        "share is 1.5, allowed is 0 < share <= 1",
    ),
    ("dominant_classes", {"clients": 2, "examples": 5, "dominant": 4}, "only 1 if every class is dominant"),
    (
        "dominant_classes",
        {"clients": 2, "examples": 5, "share": 0.1},
        "0.1 of 5 examples is 0, needed is 1 for each",
    ),
    ("dirichlet", {"clients": 2, "alpha": 0.0}, "alpha must be a positive number, found 0.0"),
    ("dirichlet", {"clients": 2, "alpha": float("nan")}, "alpha must be a positive number, found nan"),
    ("dirichlet", {"clients": 21, "alpha": 1.0}, "clients must be a whole number from 1 to 20, found 21"),
    (
        "dirichlet",
        {"clients": 5, "alpha": 1.0, "minimum": 5},
        "minimum must be a whole number from 1 to 4, found 5",
    ),
    (
        "dirichlet",
        {"clients": 5, "alpha": 1.0, "minimum": 0},
        "minimum must be a whole number from 1 to 4, found 0",
    ),
    ("power_law", {"clients": 2, "exponent": -1.0}, "exponent must be a number of at least 0, found -1.0"),
    ("power_law", {"clients": 0, "exponent": 1.0}, "clients must be a whole number from 1 to 20, found 0"),
]


@pytest.mark.parametrize(("function", "arguments", "message"), REFUSED)
def test_refused(function: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        getattr(partitions, function)(**{"labels": LABELS, "seed": 0, **arguments})


def test_what_is_set_aside_is_a_share_apart_from_the_rest():
    first, second, rest = partitions.set_aside(1003, 0.1, seed=4)
    assert (len(first), len(second), len(rest)) == (20, 80, 903)
    assert np.array_equal(np.sort(np.concatenate([first, second, rest])), np.arange(1003))
    for again, part in zip(partitions.set_aside(1003, 0.1, seed=4), (first, second, rest), strict=True):
        assert np.array_equal(again, part)
    assert not np.array_equal(partitions.set_aside(1003, 0.1, seed=5)[2], rest)


@pytest.mark.parametrize("share", [0.0, 1.0, 1.5, -0.1, 1e-9, 0.999_999, float("nan"), "half"])
def test_a_share_that_sets_nothing_aside_or_all_is_refused(share):
    with pytest.raises(ValueError, match="set_aside must be"):
        partitions.set_aside(1003, share, seed=0)

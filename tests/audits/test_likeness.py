"""Likeness by plain loops, and by what is known of it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hush.audits.likeness import is_image, matched, psnr, relative_error, ssim


@given(st.integers(0, 10**6), st.sampled_from([(8, 8), (9, 12, 1), (8, 8, 3), (4, 5)]))
def test_structural_similarity_by_plain_loops(seed, shape):
    draws = np.random.default_rng(seed)
    x, y = draws.uniform(size=(2, *shape))
    size = min(7, *shape[:2])
    found = []
    for i in range(shape[0] - size + 1):
        for j in range(shape[1] - size + 1):
            for c in range(shape[2] if len(shape) == 3 else 1):
                a, b = (image.reshape(*shape[:2], -1)[i : i + size, j : j + size, c] for image in (x, y))
                covariance = np.mean(a * b) - a.mean() * b.mean()
                top = (2 * a.mean() * b.mean() + 1e-4) * (2 * covariance + 9e-4)
                found.append(top / ((a.mean() ** 2 + b.mean() ** 2 + 1e-4) * (a.var() + b.var() + 9e-4)))
    np.testing.assert_allclose(ssim(x, y), np.mean(found), rtol=1e-6)


@given(st.permutations(range(6)), st.integers(0, 10**6))
def test_an_order_is_found_again(order, seed):
    originals = np.random.default_rng(seed).uniform(size=(6, 4, 4))
    np.testing.assert_array_equal(originals[list(order)][matched(originals, originals[list(order)])], originals)


def test_an_exact_copy():
    image = np.random.default_rng(0).uniform(size=(8, 8))
    assert psnr(image, image) == np.inf
    assert relative_error(image, image) == 0
    assert relative_error(np.ones(3), np.ones(3)) == 0
    assert relative_error(np.ones(3), np.zeros(3)) == np.inf


def test_what_is_an_image():
    assert is_image((8, 8))
    assert is_image((8, 8, 1))
    assert is_image((8, 8, 3))
    assert not is_image((8,))
    assert not is_image((1, 8, 1))
    assert not is_image((8, 8, 5))

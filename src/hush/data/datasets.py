"""Image datasets as NumPy arrays: found on this machine or downloaded, checked, decoded once and cached.

    >>> digits = load("digits")
    >>> digits.train_x.shape, digits.train_x.dtype.name, digits.classes
    ((1437, 8, 8, 1), 'uint8', 10)

`digits` comes with scikit-learn and needs no files. The others are looked for in the folder HUSH_DATA names,
then in the user's cache folder, and downloaded into the latter unless HUSH_OFFLINE is set.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hush.core.check import known
from hush.data import download as downloads
from hush.data.decoding import Bytes, Layout, decode, fingerprint, read_cache, write_cache
from hush.data.download import DataUnavailable

__all__ = ["NAMES", "DataUnavailable", "Dataset", "Sizes", "load", "pixel_scale", "sizes"]

Scale = tuple[tuple[float, ...], tuple[float, ...]]  # means and standard deviations, one number per channel

DIGITS_SEED = 0  # of the permutation that splits scikit-learn's digits, which come without a split
DIGITS, DIGITS_TRAIN = 1797, 1437
CACHE_VERSION = 1  # raise it when the decoded arrays change


@dataclass(frozen=True)
class Dataset:
    """Images uint8 [n, height, width, channels], labels int32 [n], and the scale of pixels / 255."""

    name: str
    train_x: Bytes
    train_y: npt.NDArray[np.int32]
    test_x: Bytes
    test_y: npt.NDArray[np.int32]
    classes: int
    scale: Scale


def _idx_pair(split: str) -> tuple[str, str]:
    return f"{split}-images-idx3-ubyte", f"{split}-labels-idx1-ubyte"


LAYOUTS: dict[str, Layout] = {
    "mnist": Layout(
        _idx_pair("train"),
        _idx_pair("t10k"),
        ("mnist", "MNIST"),
        (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
        (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
    ),
    "fashion_mnist": Layout(
        _idx_pair("train"),
        _idx_pair("t10k"),
        ("fashion-mnist", "fashion_mnist", "FashionMNIST"),
        (6000,) * 10,
        (1000,) * 10,
    ),
    "emnist_digits": Layout(
        _idx_pair("emnist-digits-train"),
        _idx_pair("emnist-digits-test"),
        ("emnist-digits", "emnist_digits", "emnist", "EMNIST"),
        (24000,) * 10,
        (4000,) * 10,
        archive="gzip.zip",
        transposed=True,
    ),
    "cifar10": Layout(
        tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
        ("test_batch.bin",),
        ("cifar-10", "cifar10", "CIFAR-10", "CIFAR10"),
        (5000,) * 10,
        (1000,) * 10,
        image=(32, 32, 3),
        archive="cifar-10-binary.tar.gz",
    ),
}
NAMES = ("digits", *LAYOUTS)

# Of pixels / 255 of all training images. They are written here, and not computed from what was loaded: what everybody
# knows beforehand cannot tell whose examples clients hold. Those of EMNIST are the four digits commonly published.
SCALES: dict[str, Scale] = {
    "digits": ((0.3054956455,), (0.3758737322,)),
    "mnist": ((0.1306604763,), (0.3081078039,)),
    "fashion_mnist": ((0.2860405970,), (0.3530242445,)),
    "emnist_digits": ((0.1733,), (0.3317,)),
    "cifar10": ((0.4913996786, 0.4821584084, 0.4465309144), (0.2470322325, 0.2434851280, 0.2615878417)),
}


@dataclass(frozen=True)
class Sizes:
    """What everybody knows of a dataset who has never looked into it."""

    train: int  # examples
    test: int
    image: tuple[int, int, int]
    classes: int


def sizes(name: str) -> Sizes:
    """The sizes of the dataset `name` as its publisher states them: no file is opened.

    >>> sizes("cifar10")
    Sizes(train=50000, test=10000, image=(32, 32, 3), classes=10)
    """
    known("dataset", name, NAMES)
    if name == "digits":
        return Sizes(DIGITS_TRAIN, DIGITS - DIGITS_TRAIN, (8, 8, 1), 10)
    layout = LAYOUTS[name]
    return Sizes(sum(layout.train_counts), sum(layout.test_counts), layout.image, len(layout.train_counts))


def load(name: str) -> Dataset:
    """The dataset `name`, one of NAMES; DataUnavailable if its files can be neither found nor downloaded."""
    if name == "digits":
        return _digits()
    known("dataset", name, NAMES)
    layout = LAYOUTS[name]
    paths = downloads.locate(name, layout.files, layout.folders, layout.archive)
    cache = downloads.cache_folder() / "decoded" / f"{name}.npz"
    key = json.dumps([CACHE_VERSION, [fingerprint(path) for path in paths]])
    arrays = read_cache(cache, key)
    if arrays is None:
        arrays = decode(layout, paths)
        write_cache(cache, key, arrays)
    return Dataset(name, *arrays, len(layout.train_counts), SCALES[name])


def _digits() -> Dataset:
    # Imported here because it takes a second that users of other datasets need not wait.
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.rint(bunch.images * 255 / 16).astype(np.uint8)[..., None]
    labels = bunch.target.astype(np.int32)
    order = np.random.default_rng(DIGITS_SEED).permutation(len(labels))
    train, test = order[:DIGITS_TRAIN], order[DIGITS_TRAIN:]
    return Dataset("digits", images[train], labels[train], images[test], labels[test], 10, SCALES["digits"])


def pixel_scale(images: Bytes) -> Scale:
    """Mean and standard deviation per channel of pixels / 255, exact: from counts of the 256 values."""
    channels = images.shape[-1]
    counts = np.zeros((channels, 256))
    for begin in range(0, len(images), 4096):  # bincount widens to 8 bytes, so a part at a time
        for channel in range(channels):
            counts[channel] += np.bincount(images[begin : begin + 4096, ..., channel].ravel(), minlength=256)
    weights, values = counts / counts.sum(axis=1, keepdims=True), np.arange(256) / 255
    means = weights @ values
    deviations = np.sqrt(np.sum(weights * (values - means[:, None]) ** 2, axis=1))
    return tuple(means.tolist()), tuple(deviations.tolist())

"""Image datasets as NumPy arrays: found on this machine or downloaded, checked, decoded once and cached.

    >>> digits = load("digits")
    >>> digits.train_x.shape, digits.train_x.dtype.name, digits.classes
    ((1437, 8, 8, 1), 'uint8', 10)

`digits` comes with scikit-learn and needs no files. The others are looked for in the folder HUSH_DATA names,
then in the user's cache folder, and downloaded into the latter unless HUSH_OFFLINE is set.
"""

from __future__ import annotations

import functools
import gzip
import json
import lzma
import math
import os
import tarfile
import tempfile
import warnings
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hush.core.check import known
from hush.data import download as downloads
from hush.data.download import DataUnavailable

__all__ = ["NAMES", "DataUnavailable", "Dataset", "Sizes", "load", "pixel_scale", "sizes"]

Bytes = npt.NDArray[np.uint8]
Arrays = tuple[Bytes, npt.NDArray[np.int32], Bytes, npt.NDArray[np.int32]]
Scale = tuple[tuple[float, ...], tuple[float, ...]]  # means and standard deviations, one number per channel
File = tuple[str, bytes]  # what to call it in an error, and its content
DAMAGE = (gzip.BadGzipFile, EOFError, zlib.error)

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


@dataclass(frozen=True)
class Layout:
    """What a publisher's files are called and must hold.

    The examples per class are checked because MNIST and Fashion-MNIST give their files the same names: one
    must not pass for the other.
    """

    train_files: tuple[str, ...]  # idx: images, labels; CIFAR: the batches
    test_files: tuple[str, ...]
    folders: tuple[str, ...]
    train_counts: tuple[int, ...]  # examples per class
    test_counts: tuple[int, ...]
    image: tuple[int, int, int] = (28, 28, 1)
    archive: str = ""  # the publisher's single file with all of the above
    transposed: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        return self.train_files + self.test_files


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
    key = json.dumps([CACHE_VERSION, [_fingerprint(path) for path in paths]])
    arrays = _read_cache(cache, key)
    if arrays is None:
        arrays = _decode(layout, paths)
        _write_cache(cache, key, arrays)
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


# From files to arrays.


def _decode(layout: Layout, paths: tuple[Path, ...]) -> Arrays:
    files = _unpack_archive(layout, paths[0]) if len(paths) == 1 else [_unpack(path) for path in paths]
    middle = len(layout.train_files)
    train = _split(layout, files[:middle], layout.train_counts)
    test = _split(layout, files[middle:], layout.test_counts)
    return *train, *test


def _unpack(path: Path) -> File:
    packed = {".gz": gzip.decompress, ".xz": lzma.decompress}
    content = path.read_bytes()
    try:
        return str(path), packed[path.suffix](content) if path.suffix in packed else content
    except (*DAMAGE, lzma.LZMAError) as failure:
        raise ValueError(f"{path} ({len(content)} bytes) is damaged or cut off: {failure}") from failure


def _unpack_archive(layout: Layout, path: Path) -> list[File]:
    found: dict[str, bytes] = {}
    try:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                for member in archive.namelist():
                    if (file := Path(member).stem) in layout.files:
                        found[file] = gzip.decompress(archive.read(member))
        else:  # in the archive's own order: going back in a compressed tar means unpacking it again
            with tarfile.open(path) as tape:
                for entry in tape:
                    if (file := Path(entry.name).name) in layout.files and (handle := tape.extractfile(entry)):
                        found[file] = handle.read()
    except (*DAMAGE, tarfile.TarError, zipfile.BadZipFile) as failure:
        raise ValueError(f"{path} ({path.stat().st_size} bytes) is damaged or cut off: {failure}") from failure
    if missing := [file for file in layout.files if file not in found]:
        raise ValueError(f"{path} lacks {', '.join(missing)}")
    return [(f"{path}:{file}", found[file]) for file in layout.files]


def _split(layout: Layout, files: list[File], counts: tuple[int, ...]) -> tuple[Bytes, npt.NDArray[np.int32]]:
    """Images and labels of one split, from an idx pair or from CIFAR batches."""
    height, width, channels = layout.image
    if channels == 1:
        images = _idx(*files[0], (sum(counts), height, width))[..., None]
        labels = _idx(*files[1], (sum(counts),))
        title = files[1][0]
    else:
        record = 1 + height * width * channels
        rows = np.concatenate([_records(*file, sum(counts) // len(files), record) for file in files])
        images = rows[:, 1:].reshape(-1, channels, height, width).transpose(0, 2, 3, 1)
        labels = rows[:, 0]
        title = ", ".join(title for title, _ in files)
    found = np.bincount(labels, minlength=len(counts))
    if tuple(found.tolist()) != counts:
        raise ValueError(f"{title}: {found.tolist()} examples of the labels 0, 1, ..., expected {list(counts)}")
    if layout.transposed:
        images = images.swapaxes(1, 2)
    return np.ascontiguousarray(images), labels.astype(np.int32)


def _idx(title: str, content: bytes, shape: tuple[int, ...]) -> Bytes:
    """An idx file: two zeros, 8 for uint8, the number of axes, each as a big-endian int32, the values."""
    header = bytes([0, 0, 8, len(shape)]) + b"".join(size.to_bytes(4, "big") for size in shape)
    if content[: len(header)] != header:
        raise ValueError(f"{title} begins with {content[: len(header)].hex(' ')}, expected {header.hex(' ')} ({shape})")
    if len(content) != len(header) + math.prod(shape):
        raise ValueError(f"{title} has {len(content)} bytes, expected {len(header) + math.prod(shape)}")
    return np.frombuffer(content, np.uint8, offset=len(header)).reshape(shape)


def _records(title: str, content: bytes, count: int, record: int) -> Bytes:
    if len(content) != count * record:
        raise ValueError(f"{title} has {len(content)} bytes, expected {count} records of {record}")
    return np.frombuffer(content, np.uint8).reshape(count, record)


# The decoded arrays, kept.


def _fingerprint(path: Path) -> tuple[str, int, int]:
    status = path.stat()
    return str(path.resolve()), status.st_size, status.st_mtime_ns


def _read_cache(cache: Path, key: str) -> Arrays | None:
    """The arrays kept under this key. Every member of an npz has a checksum, so damage shows on reading."""
    try:
        with cache.open("rb") as stream, np.load(stream) as kept:  # np.load itself leaves a damaged file open
            if str(kept["key"]) != key:
                return None
            return kept["train_x"], kept["train_y"], kept["test_x"], kept["test_y"]
    except Exception:  # whatever is wrong with it, the cure is the same: decode again
        return None


def _write_cache(cache: Path, key: str, arrays: Arrays) -> None:
    train_x, train_y, test_x, test_y = arrays
    part = ""
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=cache.parent, prefix=cache.stem, suffix=".part")
        with os.fdopen(handle, "wb") as stream:
            np.savez(
                stream,
                key=np.array(key),
                train_x=train_x,
                train_y=train_y,
                test_x=test_x,
                test_y=test_y,
            )
        Path(part).replace(cache)
    except OSError as failure:
        _warn_once(f"decoded datasets cannot be kept in {cache.parent}, each load will decode again ({failure})")
        if part:
            Path(part).unlink(missing_ok=True)


@functools.cache
def _warn_once(text: str) -> None:
    warnings.warn(text, stacklevel=4)

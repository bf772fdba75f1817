"""Publishers' files of images as arrays: unpacked, checked, and kept for the next time."""

from __future__ import annotations

import functools
import gzip
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

Bytes = npt.NDArray[np.uint8]
Arrays = tuple[Bytes, npt.NDArray[np.int32], Bytes, npt.NDArray[np.int32]]
File = tuple[str, bytes]  # what to call it in an error, and its content
DAMAGE = (gzip.BadGzipFile, EOFError, zlib.error)


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


# From files to arrays.


def decode(layout: Layout, paths: tuple[Path, ...]) -> Arrays:
    """Images and labels of training and test, from the publisher's files or from one archive of them."""
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


def fingerprint(path: Path) -> tuple[str, int, int]:
    """What tells that a file is the same as before, without reading it."""
    status = path.stat()
    return str(path.resolve()), status.st_size, status.st_mtime_ns


def read_cache(cache: Path, key: str) -> Arrays | None:
    """The arrays kept under this key. Every member of an npz has a checksum, so damage shows on reading."""
    try:
        with cache.open("rb") as stream, np.load(stream) as kept:  # np.load itself leaves a damaged file open
            if str(kept["key"]) != key:
                return None
            return kept["train_x"], kept["train_y"], kept["test_x"], kept["test_y"]
    except Exception:  # whatever is wrong with it, the cure is the same: decode again
        return None


def write_cache(cache: Path, key: str, arrays: Arrays) -> None:
    """Keep the arrays under this key; where that fails, it is warned of once."""
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

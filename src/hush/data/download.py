"""Where a dataset's files are: on this machine, or at its publisher's and then in the user's cache folder.

A download is written to `<file>.part`, continued by an HTTP Range request if it was cut off, and renamed only
after its checksum matched: a file under its own name is therefore always complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import platformdirs

if sys.platform != "win32":
    import fcntl

TIMEOUT = 30.0  # seconds without a byte before an address is given up
ATTEMPTS = 4  # per address; each continues where the last one stopped
BLOCK = 1 << 18
INNER = (".", "raw", "gzip", "cifar-10-batches-bin")  # folders that unpacking and other libraries make


class DataUnavailable(RuntimeError):
    """The files of a dataset are neither on this machine nor can they be downloaded now."""


@dataclass(frozen=True)
class Source:
    """One file of a publisher: its name, its `algorithm:digest`, the addresses that serve it, best first."""

    file: str
    checksum: str
    addresses: tuple[str, ...]


def _sources(addresses: tuple[str, ...], algorithm: str, digests: dict[str, str]) -> tuple[Source, ...]:
    return tuple(
        Source(file, f"{algorithm}:{digest}", tuple(address + file for address in addresses))
        for file, digest in digests.items()
    )


_MNIST = _sources(
    ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
    "md5",
    {
        "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    },
)
_FASHION_MNIST = _sources(
    (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    ),
    "md5",
    {
        "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
        "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
        "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
    },
)
_EMNIST_DIGITS = _sources(
    ("https://github.com/aurelienduarte/emnist/raw/master/gzip/",),
    "sha256",
    {
        f"emnist-digits-{file}-ubyte.gz": digest
        for file, digest in (
            ("train-images-idx3", "f7c95004d14d81af89522e67d8f0c781dfb3bd544181c81bfe1eb6b41c35b726"),
            ("train-labels-idx1", "6638a6ff5fe2eefd9cca2471995b46c82986b8e4b2a70d2f5ce8e05d7edb319e"),
            ("test-images-idx3", "20ebe43509264f7639d37c835a3f0b009e90b29e00a099a03101abe1644a3f63"),
            ("test-labels-idx1", "bad1834c45d5988e270b99d43b13edc3fd898f658ffbc2caf2846ef27f7b05b0"),
        )
    },
)
# The publisher's archive holds all six EMNIST splits (over 500 MB), so the mirror of single files goes first.
_EMNIST_ARCHIVE = _sources(
    ("https://biometrics.nist.gov/cs_links/EMNIST/",), "md5", {"gzip.zip": "58c8d27c78d21e728a6bc7b3cc06412e"}
)
_CIFAR10 = _sources(
    ("https://www.cs.toronto.edu/~kriz/",),
    "md5",
    {"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"},
)

# Per dataset the ways to get all of it, best first; each way is a set of files that is enough by itself.
SOURCES: dict[str, tuple[tuple[Source, ...], ...]] = {
    "mnist": (_MNIST,),
    "fashion_mnist": (_FASHION_MNIST,),
    "emnist_digits": (_EMNIST_DIGITS, _EMNIST_ARCHIVE),
    "cifar10": (_CIFAR10,),
}


def cache_folder() -> Path:
    """The user's cache folder for hush: downloads and decoded arrays."""
    return Path(platformdirs.user_cache_dir("hush"))


def offline() -> bool:
    """Whether the user forbade downloads (HUSH_OFFLINE set to anything but 0, false or no)."""
    return os.environ.get("HUSH_OFFLINE", "").strip().lower() not in ("", "0", "false", "no")


def locate(name: str, files: tuple[str, ...], folders: tuple[str, ...], archive: str) -> tuple[Path, ...]:
    """The paths of all `files`, packed or not, or of the `archive` with all of them; downloaded if absent.

    Searched are HUSH_DATA, then the user's cache folder: in each the `folders`, then itself.
    """
    given, home = os.environ.get("HUSH_DATA", ""), cache_folder()
    roots = [Path(given).expanduser(), home] if given else [home]
    for place in (root / folder / inner for root in roots for folder in (*folders, ".") for inner in INNER):
        if found := _find(place, files, archive):
            return found
    reason = "HUSH_OFFLINE is set"
    if not offline():
        try:
            _download(name, home / name)
            if found := _find(home / name, files, archive):
                return found
            reason = f"the files downloaded into {home / name} are not these"
        except DataUnavailable as failure:
            reason = str(failure)
    raise DataUnavailable(
        f"the files of {name} are not on this machine: {', '.join(files)} (or .gz, .xz"
        + (f", or {archive}" if archive else "")
        + f"). Looked in {' and '.join(map(str, roots))}, and there in the folders {', '.join(folders)}. "
        f"Not downloaded: {reason}. "
        "Set HUSH_DATA to the folder that holds them, or use hush.tasks.digits, which needs no files."
    )


def _find(place: Path, files: tuple[str, ...], archive: str) -> tuple[Path, ...]:
    found = []
    for file in files:
        spellings = (file, file.replace("-idx", ".idx"))
        candidates = [place / (spelling + ending) for spelling in spellings for ending in ("", ".gz", ".xz")]
        found += [path for path in candidates if path.is_file()][:1]
    if len(found) == len(files):
        return tuple(found)
    return (place / archive,) if archive and (place / archive).is_file() else ()


def _download(name: str, folder: Path) -> None:
    """Bring one complete set of files of `name` into `folder`, or raise DataUnavailable saying why not."""
    problems: list[str] = []
    for way in SOURCES[name]:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with _only_process(folder):
                for source in way:
                    _fetch(source, folder)
            return
        except DataUnavailable as failure:
            problems.append(str(failure))
        except OSError as failure:
            problems.append(f"cannot write to {folder}: {failure}")
    raise DataUnavailable("; ".join(problems))


@contextlib.contextmanager
def _only_process(folder: Path) -> Iterator[None]:
    """Processes that start together must not append to one `.part`; without locks the checksum guards."""
    if sys.platform == "win32":
        yield
        return
    with (folder / ".lock").open("wb") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _fetch(source: Source, folder: Path) -> None:
    target, part = folder / source.file, folder / f"{source.file}.part"
    if target.is_file() or _accept(source, part, target):
        return
    problems: list[str] = []
    for address in source.addresses:
        for _ in range(ATTEMPTS):
            before = _size(part)
            try:
                _transfer(address, part)
            except urllib.error.HTTPError as failure:
                failure.close()
                problems.append(f"{address}: HTTP {failure.code} {failure.reason}")
                if not (failure.code == 416 and before):
                    break
                part.unlink()  # longer than the file on the server, so not a beginning of it
                continue
            except (OSError, http.client.HTTPException) as failure:
                problems.append(f"{address}: {failure}")
                if _size(part) <= before:
                    break  # nothing new came: trying again at once will not help
                continue
            if _accept(source, part, target):
                return
            problems.append(f"{address}: {_digest(source, part)}, expected {source.checksum}")
            part.unlink()
            if not before:
                break  # the address serves something else; only an old beginning is worth another try
    raise DataUnavailable(f"{source.file} could not be downloaded ({'; '.join(dict.fromkeys(problems))})")


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _digest(source: Source, path: Path) -> str:
    algorithm = source.checksum.partition(":")[0]
    with path.open("rb") as handle:
        return f"{algorithm}:{hashlib.file_digest(handle, algorithm).hexdigest()}"


def _accept(source: Source, part: Path, target: Path) -> bool:
    if not part.is_file() or _digest(source, part) != source.checksum:
        return False
    part.replace(target)
    return True


def _transfer(address: str, part: Path) -> None:
    """Append to `part` what the server has beyond it; raises ConnectionError if the stream ends early."""
    offset = _size(part)
    request = urllib.request.Request(address, headers={"User-Agent": "hush"})
    if offset:
        request.add_header("Range", f"bytes={offset}-")
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        begin = re.match(rf"bytes {offset}-", response.headers.get("Content-Range", ""))
        if not (response.status == 206 and begin):
            offset = 0  # the server ignores Range and sends the whole file
        length = response.headers.get("Content-Length")
        total = offset + int(length) if length else None
        received = offset
        with part.open("r+b" if offset else "wb") as handle, _progress(part.stem, offset, total) as show:
            handle.seek(offset)
            while block := response.read(BLOCK):
                handle.write(block)
                received += len(block)
                show(received)
    if total is not None and received != total:
        raise ConnectionError(f"the connection ended after {received} of {total} bytes")


@contextlib.contextmanager
def _progress(file: str, offset: int, total: int | None) -> Iterator[Callable[[int], None]]:
    """Yields a function to be told the bytes so far: a bar on a terminal, a line per quarter elsewhere."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        columns = (TextColumn(file), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        with Progress(*columns, console=Console(stderr=True)) as progress:
            task = progress.add_task(file, total=total, completed=offset)
            yield lambda received: progress.update(task, completed=received)
        return
    start = f"resumed at {offset:,} bytes" if offset else "started"
    print(f"hush: downloading {file}: {start}", file=sys.stderr)
    shown = [4 * offset // total if total else 0]

    def line(received: int) -> None:
        quarter = 4 * received // total if total else 0
        if quarter > shown[0]:
            shown[0] = quarter
            print(f"hush: downloading {file}: {received:,} of {total:,} bytes", file=sys.stderr)

    yield line

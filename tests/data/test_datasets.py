"""Datasets: tiny files in the publishers' formats, a local server, and the real files where they are."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import http.server
import io
import lzma
import os
import tarfile
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hush.data import datasets, decoding, download
from hush.data.datasets import DataUnavailable, load, pixel_scale

TRAIN = np.array([0, 1, 2, 2, 1, 0, 0], dtype=np.uint8)
TEST = np.array([2, 0, 1], dtype=np.uint8)
Files = dict[str, bytes]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tiny layouts (3 classes, 4 x 5 grey or 2 x 2 colour images), an empty cache folder, no network."""
    for name, layout in datasets.LAYOUTS.items():
        colour = layout.image[2] == 3
        changes: dict[str, Any] = {"train_counts": (3, 2, 2), "test_counts": (1, 1, 1)}
        changes |= {"image": (2, 2, 3), "train_files": ("data_batch_1.bin",)} if colour else {"image": (4, 5, 1)}
        monkeypatch.setitem(datasets.LAYOUTS, name, dataclasses.replace(layout, **changes))
    monkeypatch.setattr(download, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setenv("HUSH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HUSH_OFFLINE", "1")
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def images(count: int, seed: int = 0, shape: tuple[int, ...] = (4, 5)) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def idx(array: npt.NDArray[np.uint8]) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes() + array.tobytes()


def idx_files(name: str = "mnist") -> Files:
    contents = (images(7), TRAIN, images(3, 1), TEST)
    return {file: idx(array) for file, array in zip(datasets.LAYOUTS[name].files, contents, strict=True)}


def cifar_files() -> Files:
    """Records of one label byte, then all red, all green, all blue values."""
    return {
        file: b"".join(bytes([label]) + image.tobytes() for label, image in zip(labels, pixels, strict=True))
        for file, labels, pixels in (
            ("data_batch_1.bin", TRAIN, images(7, 2, (3, 2, 2))),
            ("test_batch.bin", TEST, images(3, 3, (3, 2, 2))),
        )
    }


def write(folder: Path, files: Files, pack: Callable[[bytes], bytes] = bytes, ending: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        (folder / (file + ending)).write_bytes(pack(content))


class TestDigits:
    def test_shape_and_split(self) -> None:
        from sklearn.datasets import load_digits

        digits = load("digits")
        assert (digits.train_x.shape, digits.test_x.shape) == ((1437, 8, 8, 1), (360, 8, 8, 1))
        types = [array.dtype.name for array in (digits.train_x, digits.train_y, digits.test_x, digits.test_y)]
        assert types == ["uint8", "int32", "uint8", "int32"]
        assert (digits.train_x.min(), digits.train_x.max(), digits.classes) == (0, 255, 10)
        original = np.array([round(value * 255 / 16) for value in load_digits().images.ravel()])
        ours = np.concatenate([digits.train_x, digits.test_x]).reshape(1797, 64)
        assert sorted(map(tuple, ours.tolist())) == sorted(map(tuple, original.reshape(1797, 64).tolist()))

    def test_the_split_never_changes(self) -> None:
        digits = load("digits")
        assert digits.train_y[:12].tolist() == [6, 6, 6, 2, 5, 6, 6, 2, 2, 1, 1, 9]
        np.testing.assert_array_equal(digits.train_x, load("digits").train_x)

    def test_scale(self) -> None:
        digits = load("digits")
        pixels = digits.train_x.astype(float) / 255
        np.testing.assert_allclose(digits.scale, [[pixels.mean()], [pixels.std()]], atol=1e-10)


class TestFormats:
    @pytest.mark.parametrize("folder", ["mnist", "MNIST", "MNIST/raw", "."])
    @pytest.mark.parametrize(("pack", "ending"), [(bytes, ""), (gzip.compress, ".gz")])
    def test_idx(self, place: Path, folder: str, pack: Callable[[bytes], bytes], ending: str) -> None:
        write(place / folder, idx_files(), pack, ending)
        mnist = load("mnist")
        np.testing.assert_array_equal(mnist.train_x, images(7)[..., None])
        np.testing.assert_array_equal(mnist.test_x, images(3, 1)[..., None])
        assert (mnist.train_y.tolist(), mnist.test_y.tolist()) == (TRAIN.tolist(), TEST.tolist())
        assert (mnist.name, mnist.classes, mnist.train_y.dtype) == ("mnist", 3, np.dtype(np.int32))
        assert mnist.scale == datasets.SCALES["mnist"]  # whatever is in the files
        pixels = images(7) / 255
        np.testing.assert_allclose(pixel_scale(mnist.train_x), [[pixels.mean()], [pixels.std()]], rtol=1e-12)

    def test_idx_with_a_dot_as_some_unpackers_write_it(self, place: Path) -> None:
        write(place, {file.replace("-idx", ".idx"): content for file, content in idx_files().items()})
        assert len(load("mnist").train_x) == 7

    @pytest.mark.parametrize("folder", ["fashion-mnist", "fashion_mnist"])
    def test_fashion_mnist(self, place: Path, folder: str) -> None:
        write(place / folder, idx_files())
        assert load("fashion_mnist").name == "fashion_mnist"

    @pytest.mark.parametrize("folder", ["emnist-digits", "emnist_digits", "EMNIST/gzip"])
    def test_emnist_is_turned_upright(self, place: Path, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
        write(place / folder, idx_files("emnist_digits"), gzip.compress, ".gz")
        emnist = load("emnist_digits")
        assert emnist.train_x.shape == (7, 5, 4, 1)
        np.testing.assert_array_equal(emnist.train_x[2, :, :, 0], images(7)[2].T)

    def test_emnist_from_the_publishers_archive(self, place: Path) -> None:
        with zipfile.ZipFile(place / "gzip.zip", "w") as archive:
            archive.writestr("gzip/emnist-letters-train-images-idx3-ubyte.gz", b"not wanted")
            for file, content in idx_files("emnist_digits").items():
                archive.writestr(f"gzip/{file}.gz", gzip.compress(content))
        np.testing.assert_array_equal(load("emnist_digits").test_x[1, :, :, 0], images(3, 1)[1].T)

    @pytest.mark.parametrize("folder", ["cifar-10", "cifar10", "cifar-10-batches-bin", "cifar-10/cifar-10-batches-bin"])
    @pytest.mark.parametrize(("pack", "ending"), [(bytes, ""), (lzma.compress, ".xz")])
    def test_cifar(self, place: Path, folder: str, pack: Callable[[bytes], bytes], ending: str) -> None:
        write(place / folder, cifar_files(), pack, ending)
        self.check_cifar(load("cifar10"))

    def test_cifar_from_the_publishers_archive(self, place: Path) -> None:
        write_tar(place / "cifar-10-binary.tar.gz")
        self.check_cifar(load("cifar10"))

    def check_cifar(self, cifar: datasets.Dataset) -> None:
        planes = images(7, 2, (3, 2, 2))
        assert cifar.train_x.shape == (7, 2, 2, 3)
        for channel in range(3):
            np.testing.assert_array_equal(cifar.train_x[..., channel], planes[:, channel])
        assert cifar.train_y.tolist() == TRAIN.tolist()
        means, deviations = pixel_scale(cifar.train_x)
        np.testing.assert_allclose(means, planes.mean(axis=(0, 2, 3)) / 255, rtol=1e-12)
        np.testing.assert_allclose(deviations, planes.std(axis=(0, 2, 3)) / 255, rtol=1e-12)

    def test_hush_data_comes_before_the_cache_folder(self, place: Path) -> None:
        write(download.cache_folder() / "mnist", dict.fromkeys(idx_files(), b"worse"))
        write(place / "mnist", idx_files())
        assert len(load("mnist").train_x) == 7

    def test_the_cache_folder_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("HUSH_DATA")
        write(download.cache_folder() / "mnist", idx_files())
        assert len(load("mnist").train_x) == 7


def write_tar(path: Path) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for file, content in (("readme.html", b"hello"), *reversed(cifar_files().items())):
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{file}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


class TestDamage:
    def spoil(self, place: Path, number: int, change: Callable[[bytes], bytes], pack: str = "") -> str:
        files = idx_files()
        name = list(files)[number]
        if pack:
            write(place / "mnist", files, gzip.compress, ".gz")
            path = place / "mnist" / f"{name}.gz"
        else:
            write(place / "mnist", files)
            path = place / "mnist" / name
        path.write_bytes(change(path.read_bytes()))
        with pytest.raises(ValueError, match=r"expected|damaged") as failure:
            load("mnist")
        assert str(path) in str(failure.value)
        return str(failure.value)

    def test_cut_off(self, place: Path) -> None:
        assert "has 155 bytes, expected 156" in self.spoil(place, 0, lambda content: content[:-1])

    def test_too_long(self, place: Path) -> None:
        assert "has 16 bytes, expected 15" in self.spoil(place, 1, lambda content: content + b"x")

    def test_empty(self, place: Path) -> None:
        assert "begins with " in self.spoil(place, 0, lambda content: b"")

    def test_not_idx(self, place: Path) -> None:
        assert "begins with 3c 68 74 6d" in self.spoil(place, 0, lambda content: b"<html>" + content[6:])

    def test_other_shape(self, place: Path) -> None:
        found = self.spoil(place, 2, lambda content: idx(images(3, 1, (5, 4))))
        assert "00 00 00 04 00 00 00 05 ((3, 4, 5))" in found

    def test_label_out_of_range(self, place: Path) -> None:
        found = self.spoil(place, 1, lambda content: content[:-1] + b"\x05")
        assert "[2, 2, 2, 0, 0, 1] examples of the labels 0, 1, ..., expected [3, 2, 2]" in found

    def test_another_dataset_of_the_same_shape(self, place: Path) -> None:
        assert "[2, 3, 2] examples" in self.spoil(place, 1, lambda content: content[:-1] + b"\x01")

    def test_gzip_cut_off(self, place: Path) -> None:
        assert "is damaged or cut off" in self.spoil(place, 0, lambda content: content[:-9], "gz")

    def test_gzip_flipped(self, place: Path) -> None:
        change = lambda content: content[:40] + bytes([content[40] ^ 1]) + content[41:]  # noqa: E731
        assert "is damaged or cut off" in self.spoil(place, 0, change, "gz")

    def test_not_gzip(self, place: Path) -> None:
        assert "is damaged or cut off" in self.spoil(place, 3, lambda content: b"hello", "gz")

    @pytest.mark.parametrize("keep", [0, 10, -30])
    def test_xz_cut_off(self, place: Path, keep: int) -> None:
        write(place / "cifar10", cifar_files(), lambda content: lzma.compress(content)[:keep], ".xz")
        with pytest.raises(ValueError, match=r"data_batch_1.bin.xz .* (is damaged or cut off|expected 7 records)"):
            load("cifar10")

    def test_cifar_size(self, place: Path) -> None:
        write(place / "cifar10", cifar_files(), lambda content: content[:-1])
        with pytest.raises(ValueError, match=r"data_batch_1.bin has 90 bytes, expected 7 records of 13"):
            load("cifar10")

    def test_archives(self, place: Path) -> None:
        write_tar(place / "cifar-10-binary.tar.gz")
        whole = (place / "cifar-10-binary.tar.gz").read_bytes()
        for content in (whole[: len(whole) // 2], b"", b"hello"):
            (place / "cifar-10-binary.tar.gz").write_bytes(content)
            with pytest.raises(ValueError, match=r"cifar-10-binary.tar.gz .*(is damaged or cut off|lacks)"):
                load("cifar10")
        (place / "gzip.zip").write_bytes(b"PK")
        with pytest.raises(ValueError, match=r"gzip.zip \(2 bytes\) is damaged or cut off"):
            load("emnist_digits")
        with zipfile.ZipFile(place / "gzip.zip", "w") as archive:
            archive.writestr("gzip/readme.txt", b"")
        with pytest.raises(ValueError, match=r"gzip.zip lacks emnist-digits-train-images-idx3-ubyte, "):
            load("emnist_digits")


class TestCache:
    def kept(self) -> Path:
        return download.cache_folder() / "decoded" / "mnist.npz"

    def count_decoding(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        calls: list[str] = []
        decode = datasets.decode

        def counted(layout: decoding.Layout, paths: tuple[Path, ...]) -> decoding.Arrays:
            calls.append(str(paths[0]))
            return decode(layout, paths)

        monkeypatch.setattr(datasets, "decode", counted)
        return calls

    def test_decoded_once(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(place / "mnist", idx_files())
        calls = self.count_decoding(monkeypatch)
        first, second = load("mnist"), load("mnist")
        assert len(calls) == 1
        for field in dataclasses.fields(first):
            one, other = getattr(first, field.name), getattr(second, field.name)
            assert type(one) is type(other)
            np.testing.assert_array_equal(one, other)
        assert first.train_y.dtype == second.train_y.dtype
        assert [path.name for path in self.kept().parent.iterdir()] == ["mnist.npz"]

    def test_a_changed_file_is_decoded_again(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(place / "mnist", idx_files())
        load("mnist")
        path = place / "mnist" / "train-images-idx3-ubyte"
        path.write_bytes(idx(images(7, 9)))
        os.utime(path, ns=(1, 1))  # the same size, so only the time tells
        np.testing.assert_array_equal(load("mnist").train_x[..., 0], images(7, 9))

    def test_another_folder_is_decoded_again(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(place / "mnist", idx_files())
        load("mnist")
        write(place / "other", {**idx_files(), "train-images-idx3-ubyte": idx(images(7, 9))})
        monkeypatch.setenv("HUSH_DATA", str(place / "other"))
        np.testing.assert_array_equal(load("mnist").train_x[..., 0], images(7, 9))

    def test_a_damaged_cache_is_rebuilt_silently(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(place / "mnist", idx_files())
        good = load("mnist")
        whole = self.kept().read_bytes()
        damages = [b"", b"hello", whole[: len(whole) // 2]]
        damages += [whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :] for at in range(0, len(whole), 7)]
        for damage in damages:
            self.kept().write_bytes(damage)
            again = load("mnist")
            np.testing.assert_array_equal(again.train_x, good.train_x)
            np.testing.assert_array_equal(again.test_y, good.test_y)

    def test_an_unwritable_cache_folder_warns_once(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(place / "mnist", idx_files())
        (place / "file").write_bytes(b"")
        monkeypatch.setattr(download, "cache_folder", lambda: place / "file" / "hush")
        with pytest.warns(UserWarning, match="cannot be kept in .* each load will decode again"):
            load("mnist")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(load("mnist").train_x) == 7


class TestAbsent:
    def test_the_error_says_what_to_do(self, place: Path) -> None:
        with pytest.raises(DataUnavailable) as failure:
            load("mnist")
        text = str(failure.value)
        assert isinstance(failure.value, RuntimeError)
        for part in (
            *datasets.LAYOUTS["mnist"].files,
            str(place),
            str(download.cache_folder()),
            "folders mnist, MNIST",
            "HUSH_OFFLINE is set",
            "Set HUSH_DATA",
            "hush.tasks.digits",
        ):
            assert part in text

    def test_some_files_are_not_enough(self, place: Path) -> None:
        files = idx_files()
        del files["t10k-labels-idx1-ubyte"]
        write(place / "mnist", files)
        with pytest.raises(DataUnavailable, match="t10k-labels-idx1-ubyte"):
            load("mnist")

    @pytest.mark.parametrize(
        ("name", "near"), [("Fashion-MNIST", "fashion_mnist"), ("cifar-10", "cifar10"), ("digit", "digits")]
    )
    def test_unknown_names(self, name: str, near: str) -> None:
        known = "known: cifar10, digits, emnist_digits, fashion_mnist, mnist"
        with pytest.raises(ValueError, match=rf"unknown dataset '{name}'; did you mean '{near}'\? {known}$"):
            load(name)
        with pytest.raises(ValueError, match=f"unknown dataset 'imagenet'; {known}$"):
            load("imagenet")


class Server(http.server.ThreadingHTTPServer):
    """Serves `files`; sends at most `cut` bytes of a body, then hangs up; `ranges` False ignores Range."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: Files = {}
        self.cut: int | None = None
        self.ranges = True
        self.asked: list[tuple[str, str | None]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.asked.append((self.path[1:], asked))
        content = self.server.files.get(self.path[1:])
        if content is None:
            self.send_error(404)
            return
        begin = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.server.ranges else 0
        if begin >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        self.wfile.write(content[begin:][: self.server.cut])
        self.close_connection = True

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A publisher of MNIST, at two addresses of which the first has nothing."""
    monkeypatch.delenv("HUSH_OFFLINE")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        running.files = {f"{file}.gz": gzip.compress(content, mtime=0) for file, content in idx_files().items()}
        sums = {file: hashlib.md5(content).hexdigest() for file, content in running.files.items()}
        addresses = (f"{running.address}missing/", running.address)
        monkeypatch.setitem(download.SOURCES, "mnist", (download._sources(addresses, "md5", sums),))
        yield running
        running.shutdown()
        thread.join()


class TestDownload:
    file = "train-images-idx3-ubyte.gz"

    def folder(self) -> Path:
        return download.cache_folder() / "mnist"

    def test_into_the_cache_folder_and_only_once(self, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
        np.testing.assert_array_equal(load("mnist").train_x[..., 0], images(7))
        assert sorted(path.name for path in self.folder().iterdir()) == [".lock", *sorted(server.files)]
        shown = capsys.readouterr()
        assert f"hush: downloading {self.file}: started" in shown.err
        assert shown.out == ""
        asked = len(server.asked)
        load("mnist")
        assert len(server.asked) == asked == 8, "four files, each first asked of the address that lacks it"

    def test_the_other_way_if_the_first_fails(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        write_tar(self.folder().parent.parent / "made.tar.gz")
        server.files["cifar-10-binary.tar.gz"] = (self.folder().parent.parent / "made.tar.gz").read_bytes()
        digest = hashlib.sha256(server.files["cifar-10-binary.tar.gz"]).hexdigest()
        ways = tuple(
            download._sources((server.address,), "sha256", {file: digest})
            for file in ("none", "cifar-10-binary.tar.gz")
        )
        monkeypatch.setitem(download.SOURCES, "cifar10", ways)
        assert len(load("cifar10").train_x) == 7

    def test_checksum_mismatch(self, server: Server) -> None:
        server.files[self.file] = b"something else"
        found = hashlib.md5(b"something else").hexdigest()
        with pytest.raises(DataUnavailable, match=rf"{self.file} could not be downloaded .*md5:{found}, expected md5:"):
            load("mnist")
        assert not list(self.folder().glob("train-images*"))

    def test_interrupted_and_resumed_at_once(self, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
        server.cut = len(server.files[self.file]) // 2 + 1
        load("mnist")
        assert (self.file, f"bytes={server.cut}-") in server.asked
        assert f"downloading {self.file}: resumed at {server.cut} bytes" in capsys.readouterr().err

    def test_interrupted_and_resumed_by_a_later_process(self, server: Server) -> None:
        server.cut = 10
        with pytest.raises(DataUnavailable, match=r"the connection ended after 40 of [0-9]+ bytes"):
            load("mnist")
        part = self.folder() / f"{self.file}.part"
        assert part.read_bytes() == server.files[self.file][:40], "four attempts of ten bytes"
        server.cut = None
        server.asked.clear()
        load("mnist")
        assert (self.file, "bytes=40-") in server.asked
        assert not part.exists()

    def test_a_server_without_ranges(self, server: Server) -> None:
        self.leave(server.files[self.file][:20])
        server.ranges = False
        assert len(load("mnist").train_x) == 7

    @pytest.mark.parametrize("old", [b"an old beginning", b"longer than the file" * 100])
    def test_a_beginning_of_another_file(self, server: Server, old: bytes) -> None:
        self.leave(old)
        assert len(load("mnist").train_x) == 7

    def test_complete_but_not_yet_renamed(self, server: Server) -> None:
        self.leave(server.files[self.file])
        load("mnist")
        assert self.file not in {file for file, _ in server.asked}

    def leave(self, content: bytes) -> None:
        self.folder().mkdir(parents=True)
        (self.folder() / f"{self.file}.part").write_bytes(content)

    def test_two_at_once(self, server: Server) -> None:
        threads = [threading.Thread(target=load, args=("mnist",)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(server.asked) == 8
        assert len(load("mnist").train_x) == 7

    def test_not_if_forbidden(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HUSH_OFFLINE", "1")
        with pytest.raises(DataUnavailable, match="HUSH_OFFLINE is set"):
            load("mnist")
        assert server.asked == []
        monkeypatch.setenv("HUSH_OFFLINE", "0")
        load("mnist")

    def test_nobody_listens(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        sources = download._sources(("http://127.0.0.1:1/",), "md5", {self.file: "0"})
        monkeypatch.setitem(download.SOURCES, "mnist", (sources,))
        with pytest.raises(DataUnavailable, match=r"http://127.0.0.1:1/.*refused.*hush.tasks.digits"):
            load("mnist")

    def test_nowhere_to_write(self, server: Server, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (place / "file").write_bytes(b"")
        monkeypatch.setattr(download, "cache_folder", lambda: place / "file" / "hush")
        with pytest.raises(DataUnavailable, match="cannot write to"):
            load("mnist")

    def test_a_bar_on_a_terminal(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        terminal = Terminal()
        monkeypatch.setattr("sys.stderr", terminal)
        load("mnist")
        assert self.file in terminal.getvalue()


def test_sources_name_every_file_once() -> None:
    assert set(download.SOURCES) == set(datasets.LAYOUTS)
    for name, ways in download.SOURCES.items():
        for way in ways:
            files = {source.file.removesuffix(".gz") for source in way}
            archive = {datasets.LAYOUTS[name].archive.removesuffix(".gz")}
            assert files == archive or files >= set(datasets.LAYOUTS[name].test_files)
            for source in way:
                algorithm, digest = source.checksum.split(":")
                assert len(digest) == {"md5": 32, "sha256": 64}[algorithm]
                assert all(address.endswith(f"/{source.file}") for address in source.addresses)


REAL_DATA = os.environ.get("HUSH_DATA") or str(Path(__file__).parents[3] / "shared" / "data")
REAL_LAYOUTS = dict(datasets.LAYOUTS)


@pytest.mark.parametrize(
    ("name", "counts", "mean", "deviation", "first"),
    [
        ("mnist", (5923, 6742, 5958), 0.1307, 0.3081, [5, 0, 4, 1, 9]),
        ("fashion_mnist", (6000, 6000, 6000), 0.2860, 0.3530, [9, 0, 0, 3, 0]),
    ],
)
def test_the_real_files(
    name: str,
    counts: tuple[int, ...],
    mean: float,
    deviation: float,
    first: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Against the publishers' published numbers."""
    monkeypatch.setenv("HUSH_DATA", REAL_DATA)
    for key, layout in REAL_LAYOUTS.items():
        monkeypatch.setitem(datasets.LAYOUTS, key, layout)
    try:
        dataset = load(name)
    except DataUnavailable as failure:
        pytest.skip(f"no files of {name}: {failure}")
    assert (dataset.train_x.shape, dataset.test_x.shape) == ((60_000, 28, 28, 1), (10_000, 28, 28, 1))
    assert tuple(np.bincount(dataset.train_y)[:3].tolist()) == counts
    np.testing.assert_allclose(dataset.scale, [[mean], [deviation]], atol=5e-5)
    np.testing.assert_allclose(dataset.scale, pixel_scale(dataset.train_x), atol=1e-10)
    assert dataset.train_y[:5].tolist() == first

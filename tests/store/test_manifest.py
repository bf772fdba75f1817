"""The manifest: every file that is written is entered, damage is found, and no moment of a crash looks like damage."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_samples import copy_of, flip

from hush.store import manifest
from hush.store.files import FILES, leftovers, present
from hush.store.manifest import Entry
from hush.store.writing import atomically


def write(folder, name, content):
    atomically(folder / name, lambda file: file.write(content))


@pytest.fixture
def folder(tmp_path):
    manifest.begin(tmp_path)
    return tmp_path


def test_what_is_written_is_entered_with_its_length_and_checksum(folder):
    write(folder, "status.json", b"{}")
    assert manifest.entries(folder) == {"status.json": [Entry("status.json", 2, zlib.crc32(b"{}"))]}
    assert manifest.matches(folder, "status.json") is True
    assert manifest.matches(folder, "model.npz") is None


def test_outside_a_run_folder_nothing_is_entered(tmp_path):
    write(tmp_path, "page.html", b"words")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_every_bit_counts(folder):
    write(folder, "status.json", content := bytes(range(40)))
    for place in range(len(content)):
        write(folder, "status.json", content)
        flip(folder / "status.json", place)
        assert manifest.matches(folder, "status.json") is False
    (folder / "status.json").write_bytes(content + b"!")
    assert manifest.matches(folder, "status.json") is False
    (folder / "status.json").unlink()
    assert manifest.matches(folder, "status.json") is False


def test_a_crash_between_entry_and_file_is_no_damage(folder):
    write(folder, "status.json", b"before")
    manifest.enter(folder, Entry("status.json", 5, zlib.crc32(b"after")))
    assert manifest.matches(folder, "status.json") is True


def test_a_file_that_grows_may_be_longer_than_its_entry_but_not_shorter(folder):
    manifest.enter(folder, Entry("records.csv", 4, zlib.crc32(b"a,b\n")))
    for content, whole in ((b"a,b\n", True), (b"a,b\n1,2\n", True), (b"a,b", False), (b"a;b\n1,2\n", False)):
        (folder / "records.csv").write_bytes(content)
        assert manifest.matches(folder, "records.csv") is whole


@given(st.binary(min_size=1, max_size=30))
def test_a_damaged_line_is_passed_over_and_the_next_is_whole(tmp_path_factory, torn):
    """Whatever a cut or a flip leaves of a line, the lines around it are read, and nothing else is made of it."""
    folder = tmp_path_factory.mktemp("torn")
    manifest.begin(folder)
    manifest.enter(folder, Entry("settings.toml", 3, 7))
    with (folder / manifest.NAME).open("ab") as file:
        file.write(torn)
    manifest.enter(folder, Entry("status.json", 4, 8))
    found = manifest.entries(folder)
    assert found == {"settings.toml": [Entry("settings.toml", 3, 7)], "status.json": [Entry("status.json", 4, 8)]}


def test_a_compacted_manifest_says_the_same_in_fewer_lines(folder):
    for number in range(50):
        write(folder, "status.json", str(number).encode())
    before = manifest.entries(folder)
    manifest.compact(folder)
    assert manifest.entries(folder) == before
    assert len((folder / manifest.NAME).read_text().splitlines()) == 3


def test_a_write_that_fails_leaves_the_file_and_no_leftover(folder):
    write(folder, "status.json", b"before")

    def fail(file):
        file.write(b"half")
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        atomically(folder / "status.json", fail)
    assert (folder / "status.json").read_bytes() == b"before"
    assert list(leftovers(folder)) == []


def test_every_file_of_a_run_is_in_the_table_and_in_the_manifest(run):
    """But for the manifest itself, and the lock."""
    names = {path.name for path in run.iterdir()}
    assert names - {".lock"} == {path.name for path in present(run)}
    assert names - {".lock", manifest.NAME} == set(manifest.entries(run))
    assert all(manifest.matches(run, name) for name in names - {".lock", manifest.NAME})
    absent = {file.name for file in FILES if not any(run.glob(file.name))}
    # no federation, nobody streamed, no ε to show, and too few samples
    assert absent == {"journal.jsonl", "client_states.bin", "clients.png", "trace.png", "density.png"}


def test_a_copy_matches_too(run, tmp_path):
    other = copy_of(run, tmp_path / "copy")
    assert all(manifest.matches(other, name) for name in manifest.entries(other))

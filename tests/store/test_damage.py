"""Whatever happens to the files of a run: it is named, what is whole is used, and a run never goes on from damage."""

import shutil
import warnings

import numpy as np
import pandas as pd
import pytest
from store_samples import ROUNDS, copy_of, finished_run, flip, resumed
from typer.testing import CliRunner

from hush.app.main import app
from hush.store import FILES, Unreadable, load_records, manifest
from hush.store.reading import damaged, load_archive, require_run

pytestmark = pytest.mark.slow  # many small runs, which add up

DRAWN = (".png", ".html")  # written anew by every report
NEEDED = {"settings.toml"}  # without which a folder is no run


def without_time(records):
    return records.drop(columns="seconds")


@pytest.fixture
def copy(run, unpainted, tmp_path):
    return copy_of(run, tmp_path / "run")


def report(folder):
    """`hush report`, with the warnings that it printed."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = CliRunner().invoke(app, ["report", str(folder)])
    return result, " ".join(str(warning.message) for warning in said)


def harm(path, kind):
    size = path.stat().st_size
    if kind == "deleted":
        path.unlink()
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "zeroed":
        path.write_bytes(b"\0" * size)
    elif kind == "cut":
        path.write_bytes(path.read_bytes()[: size // 2])
    else:
        flip(path, {"flipped early": size // 5, "flipped late": -(size // 5) - 1}[kind])


KINDS = ("deleted", "empty", "zeroed", "cut", "flipped early", "flipped late")


def slow(kind):
    return pytest.param(kind, marks=pytest.mark.slow)


ABSENT = (
    ".lock",
    manifest.NAME,
    "journal.jsonl",
    "client_states.bin",
    "clients.png",
    "trace.png",
    "density.png",
)  # not files of this run that are checked
QUICK = ("settings.toml", "checkpoint.npz", "records.csv", "clients.parquet")
NAMES = [file.name for file in FILES if "*" not in file.name and file.name not in ABSENT]


@pytest.mark.parametrize("kind", ["flipped late", *map(slow, KINDS[:5])])
@pytest.mark.parametrize("name", [name if name in QUICK else slow(name) for name in NAMES])
def test_a_report_of_a_damaged_folder_names_the_damage(copy, name, kind):
    """Never a traceback, never silence: a worded refusal, or a page that says what is damaged."""
    harm(copy / name, kind)
    result, said = report(copy)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    if result.exit_code != 0:
        assert name in NEEDED
        assert name in result.stderr
        return
    page = (copy / "report.html").read_text()
    if not name.endswith(DRAWN):
        assert name in page
        assert (copy / name).is_file() is (kind != "deleted")  # reading repairs nothing behind one's back
    if name.endswith(".parquet") and kind != "deleted" and name != "records.parquet":
        assert name in said


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("records.csv", "deleted"),
        ("records.csv", "flipped late"),
        ("status.json", "empty"),
        *(pytest.param("records.csv", kind, marks=pytest.mark.slow) for kind in KINDS[1:5]),
        pytest.param("records.parquet", "cut", marks=pytest.mark.slow),
        pytest.param("model.npz", "flipped late", marks=pytest.mark.slow),
    ],
)
def test_a_run_goes_on_whole_although_what_it_does_not_need_is_damaged(copy, unequal, name, kind, straight):
    harm(copy / name, kind)
    result = resumed(copy, unequal)
    pd.testing.assert_frame_equal(without_time(result.records), without_time(straight.records))
    np.testing.assert_array_equal(result.vector, straight.vector)
    assert damaged(copy) == []
    pd.testing.assert_frame_equal(without_time(load_records(copy)), without_time(straight.records))


@pytest.fixture(scope="module")
def straight(unequal):
    return finished_run(None, unequal, ROUNDS + 4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["checkpoint.npz", "samples.f32"])
def test_a_run_does_not_go_on_from_damage(copy, unequal, name, kind):
    harm(copy / name, kind)
    before = {path.name: path.read_bytes() for path in copy.iterdir() if path.name != ".lock"}
    with pytest.raises(ValueError, match=rf"{name}.*(--force|replace=True)"):
        resumed(copy, unequal)
    assert {path.name: path.read_bytes() for path in copy.iterdir() if path.name != ".lock"} == before


def test_every_flip_in_a_checkpoint_is_found(copy):
    """Two hundred places, from the first byte to the last; none is read as if nothing had been."""
    whole = (copy / "checkpoint.npz").read_bytes()
    for place in np.linspace(0, len(whole) - 1, 200).astype(int):
        flip(copy / "checkpoint.npz", int(place))
        with pytest.raises(Unreadable, match=r"checkpoint\.npz is damaged"):
            load_archive(copy, "checkpoint.npz")
        (copy / "checkpoint.npz").write_bytes(whole)


def test_without_a_manifest_a_damaged_archive_is_refused_too(copy):
    """A folder of an earlier version has none; the archive has checksums of its own, and fails in many ways."""
    (copy / manifest.NAME).unlink()
    whole = (copy / "checkpoint.npz").read_bytes()
    reference, found = load_archive(copy, "checkpoint.npz"), 0
    for place in np.linspace(0, len(whole) - 1, 200).astype(int):
        flip(copy / "checkpoint.npz", int(place))
        try:
            read = load_archive(copy, "checkpoint.npz")
            for name, values in read.items():  # a byte that says nothing
                np.testing.assert_array_equal(values, reference[name])
        except Unreadable:
            found += 1
        (copy / "checkpoint.npz").write_bytes(whole)
    assert found > 150


def test_records_cut_anywhere_are_read_up_to_a_whole_line_or_from_elsewhere(copy):
    """A cut is damage where the manifest knows the line, and otherwise what a killed run leaves."""
    whole = (copy / "records.csv").read_bytes()
    rows = load_records(copy)
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for length in range(last - 5, len(whole)):
        (copy / "records.csv").write_bytes(whole[:length])
        with pytest.warns(RuntimeWarning, match=r"records\.csv is damaged; read records\.parquet instead"):
            pd.testing.assert_frame_equal(load_records(copy), rows)
    shutil.copy(copy / manifest.NAME, copy / "kept")
    (copy / manifest.NAME).unlink()
    for length in range(last, len(whole)):
        (copy / "records.csv").write_bytes(whole[:length])
        pd.testing.assert_frame_equal(load_records(copy), rows.iloc[:-1])


def test_records_come_from_the_checkpoint_where_nothing_else_is_whole(copy):
    rows = load_records(copy)
    harm(copy / "records.csv", "zeroed")
    (copy / "records.parquet").unlink()
    with pytest.warns(RuntimeWarning, match=r"records\.csv is damaged; read checkpoint\.npz instead"):
        pd.testing.assert_frame_equal(load_records(copy), rows)
    (copy / "checkpoint.npz").unlink()
    with pytest.raises(Unreadable, match="has no records that can be read"):
        load_records(copy)


def test_a_folder_that_was_only_begun_says_what_can_be_done(tmp_path):
    manifest.begin(tmp_path)
    with pytest.raises(Unreadable, match=r"lacks settings\.toml: its run was ended too early; start it anew"):
        require_run(tmp_path)
    with pytest.raises(ValueError, match="there is no such folder"):
        require_run(tmp_path / "absent")


def test_edited_settings_are_said_in_the_report(copy):
    path = copy / "settings.toml"
    path.write_text(path.read_text().replace("lr = 0.1", "lr = 0.2"))
    result, _ = report(copy)
    assert result.exit_code == 0
    assert "settings.toml is not as the run wrote it" in (copy / "report.html").read_text()

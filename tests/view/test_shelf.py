"""The runs of a folder: found, read from the ends of their files, and shown whatever happened to them."""

import math
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from view_samples import PRIVATE, SETTINGS, begin, rows, written

from hush.store import RunFolder, Unreadable, load_records, load_settings
from hush.store.lock import in_use
from hush.view import shelf as shelves
from hush.view import tail
from hush.view.entry import Entry, algorithm_of
from hush.view.holding import held
from hush.view.listing import SORTS, Asked, list_page, row, shown
from hush.view.shelf import Known, Look, Shelf
from hush.view.tail import last_rows


def entries(root):
    return {run.entry.name: run.entry for run in Shelf(root).look(600).runs.values()}


def table(path, records):
    path.write_text(pd.DataFrame(records).to_csv(index=False))
    return path


class TestTail:
    @pytest.mark.parametrize("at_once", [1, 30, 200, 1 << 16])
    def test_the_last_rows_are_those_of_the_whole_file(self, tmp_path, monkeypatch, at_once):
        """Against pandas, which reads all of it."""
        monkeypatch.setattr(tail, "AT_ONCE", at_once)
        records = [row for done in range(1, 30) for row in rows(done, lanes=3, sweep=(0.1, 0.2))]
        path = table(tmp_path / "records.csv", records)
        names, found = last_rows(path)
        whole = pd.read_csv(path, dtype=str)
        wanted = whole[whole["round"] == whole["round"].iloc[-1]]
        assert names == list(whole.columns)
        assert found == wanted.to_dict("records")
        assert len(found) == 6

    def test_half_a_line_is_none(self, tmp_path):
        path = table(tmp_path / "records.csv", rows(10) + rows(20))
        whole = path.read_bytes()
        lines = whole.splitlines(keepends=True)
        for cut in range(len(lines[0]) + len(lines[1]), len(whole)):
            path.write_bytes(whole[:cut])
            assert [row["round"] for row in last_rows(path)[1]] == ["10"]
        for cut in (0, 5, len(lines[0]) - 1, len(lines[0])):
            path.write_bytes(whole[:cut])
            assert last_rows(path)[1] == []

    @pytest.mark.parametrize("content", [b"round,accuracy\n1\n", b"round,accuracy\n1,2,3\n", b"\xff\xfe\n1\n"])
    def test_what_is_no_table_is_refused(self, tmp_path, content):
        (tmp_path / "records.csv").write_bytes(content)
        with pytest.raises(Unreadable, match="is no table of records"):
            last_rows(tmp_path / "records.csv")


class TestEntries:
    def test_runs_are_found_wherever_they_lie(self, tmp_path):
        written(tmp_path / "one")
        written(tmp_path / "a" / "b" / "two")
        written(tmp_path / ".hidden" / "three")
        (tmp_path / "empty").mkdir()
        assert set(entries(tmp_path)) == {"one", "a/b/two"}
        assert set(entries(tmp_path / "one")) == {"one"}

    def test_what_a_run_says(self, tmp_path):
        written(tmp_path / "run", rows(20, lanes=3), rows(40, lanes=3))
        entry = entries(tmp_path)["run"]
        assert (entry.status, entry.round, entry.rounds, entry.measure) == ("finished", 40, 40, "accuracy")
        assert (entry.algorithm, entry.task) == ("sgd, qsgd", "digits, softmax")
        assert entry.value == pytest.approx(np.mean([each["accuracy"] for each in rows(40, lanes=3)]))
        assert entry.bits == 40_000
        assert math.isnan(entry.epsilon)
        files = [path for path in (tmp_path / "run").iterdir() if path.name != "manifest.txt"]
        assert entry.began == min(path.stat().st_mtime for path in files)

    def test_of_a_sweep_the_best_point(self, tmp_path):
        written(tmp_path / "run", rows(40, lanes=2, sweep=(0.5, 1.0, 0.25)))
        entry = entries(tmp_path)["run"]
        best = [each["accuracy"] for each in rows(40, lanes=2, sweep=(1.0,))]
        assert (entry.value, entry.best_of) == (pytest.approx(np.mean(best)), 3)

    def test_of_lanes_that_are_not_finite_the_others(self, tmp_path):
        written(tmp_path / "run", rows(40, accuracy=0.5) + rows(40, accuracy=math.nan))
        assert entries(tmp_path)["run"].value == 0.5

    def test_the_largest_epsilon_with_what_it_is_about(self, tmp_path):
        evaluation = rows(40, epsilon=1.25) + rows(40, epsilon=2.50001)
        written(tmp_path / "run", evaluation, privacy=PRIVATE | {"lanes": 2})
        entry = entries(tmp_path)["run"]
        assert entry.epsilon == 2.50001
        assert entry.privacy == "δ = 1e-05; one client; trusted: the server; one lane of 2, together more"
        assert "2.51<small>" in row("key", entry)  # never rounded down

    @pytest.mark.parametrize(
        ("status", "stands"),
        [("interrupted", "stopped"), ("diverged", "failed"), ("failed", "failed"), ("odd", "unknown")],
    )
    def test_how_it_stands(self, tmp_path, status, stands):
        written(tmp_path / "run", status=status, message="because")
        entry = entries(tmp_path)["run"]
        assert (entry.status, entry.message) == (stands, "because")

    def test_names_of_algorithms(self):
        assert algorithm_of({"algorithm": {"name": "scaffold"}}) == "scaffold"
        assert algorithm_of({"algorithm": {"called": "fedavg"}, "local": {"piece": "sgd"}}) == "fedavg"
        phases = [{"local": {"piece": "gather"}}, {"local": {"piece": "sgd"}, "channel": {"piece": "over_the_air"}}]
        assert algorithm_of({"phases": phases}) == "gather, sgd, over_the_air"
        assert algorithm_of({"local": 3, "uplink": "x", "phases": 1}) == ""


class TestLive:
    def test_a_run_is_seen_to_grow(self, tmp_path):
        shelf = Shelf(tmp_path)
        with RunFolder(tmp_path / "run") as files:
            begin(files)
            (first,) = shelf.look(600).runs.values()
            assert (first.entry.status, first.entry.round) == ("running", 0)
            for done in (10, 20):
                files.append(rows(done))
                (later,) = shelf.look(600).runs.values()
                assert (later.entry.round, later.entry.rounds) == (done, 40)
                assert later.version > first.version
                first = later
            with (tmp_path / "run/records.csv").open("ab") as file:
                file.write(b"0,30,0.")  # half a line
            (half,) = shelf.look(600).runs.values()
            assert (half.entry, half.version) == (first.entry, first.version)
        (killed,) = shelf.look(600).runs.values()
        assert killed.entry.status == "stopped"
        assert "as if killed" in killed.entry.message

    def test_asking_whether_a_run_is_written_takes_nothing_away(self, tmp_path):
        with RunFolder(tmp_path / "run") as files:
            begin(files)
            before = (tmp_path / "run/.lock").read_bytes()
            assert held(tmp_path / "run")
            assert in_use(tmp_path / "run")
            assert (tmp_path / "run/.lock").read_bytes() == before != b""
        assert not held(tmp_path / "run")
        assert not held(tmp_path)

    def test_only_what_has_changed_is_read_again(self, tmp_path, monkeypatch):
        for name in ("one", "two", "three"):
            written(tmp_path / name)
        read = []
        monkeypatch.setattr(shelves, "read", lambda folder, name, links: read.append(name) or Entry(name, 0.0))
        shelf = Shelf(tmp_path)
        before = shelf.look(600)
        assert sorted(read) == ["one", "three", "two"]
        assert shelf.look(600) == before
        assert len(read) == 3
        (tmp_path / "two/status.json").write_text("{}")
        shelf.look(600)
        assert read[3:] == ["two"]

    def test_new_runs_and_runs_that_are_gone(self, tmp_path):
        written(tmp_path / "one")
        shelf = Shelf(tmp_path)
        first = shelf.look(600)
        written(tmp_path / "deep" / "two")
        second = shelf.look(600)
        assert len(second.runs) == 2
        assert [run.entry.name for run in second.runs.values() if run.version > first.version] == ["deep/two"]
        shutil.rmtree(tmp_path / "one")
        third = shelf.look(600)
        assert set(third.gone) == set(first.runs)
        assert min(third.gone.values()) > second.version

    def test_what_there_is_no_time_for_comes_with_the_next_look(self, tmp_path):
        for number in range(5):
            written(tmp_path / str(number))
        shelf = Shelf(tmp_path)
        hurried = shelf.look(-1)
        assert (len(hurried.runs), hurried.unread) == (0, 5)
        assert "reading <span>5</span> more" in list_page(hurried, Asked(), Path("runs"))
        assert len(shelf.look(600).runs) == 5


def _cut(folder):
    (folder / "settings.toml").write_text("[local\n")


def _letters(folder):
    path = folder / "records.csv"
    path.write_text(path.read_text().replace("40000", "many"))


def _short_row(folder):
    path = folder / "records.csv"
    path.write_text(path.read_text() + "1,2\n")


def _no_manifest(folder, then):
    (folder / "manifest.txt").unlink()
    then(folder)


DAMAGE = {
    "settings.toml is missing": lambda folder: (folder / "settings.toml").unlink(),
    "settings.toml cannot be read": _cut,
    "status.json cannot be read": lambda folder: (folder / "status.json").write_text("[" * 100_000),
    "status.json should hold names": lambda folder: (folder / "status.json").write_text("[]"),
    "not as written: status.json": lambda folder: (folder / "status.json").write_text("{}"),
    "not as written: records.csv": lambda folder: (folder / "records.csv").write_text("round\n1\n"),
    "missing: records.csv": lambda folder: (folder / "records.csv").unlink(),
    "records.csv has 'many' where a number": lambda folder: _no_manifest(folder, _letters),
    "values for 7 columns": lambda folder: _no_manifest(folder, _short_row),
}


class TestDamage:
    @pytest.mark.parametrize("reason", DAMAGE)
    def test_it_is_shown_with_its_reason_beside_the_others(self, tmp_path, reason):
        written(tmp_path / "whole")
        DAMAGE[reason](written(tmp_path / "broken"))
        found = entries(tmp_path)
        assert found["whole"].status == "finished"
        assert found["broken"].status == "damaged"
        assert reason in found["broken"].message
        assert str(tmp_path) not in found["broken"].message
        assert "damaged" in list_page(Shelf(tmp_path).look(600), Asked(), Path("runs"))

    def test_nonsense_in_the_files_is_no_reason_to_fail(self, tmp_path):
        with RunFolder(tmp_path / "run") as files:
            begin(files, {"local": [1], "task": "x", "algorithm": 3}, status=["?"], rounds="many", privacy=[1])
        assert entries(tmp_path)["run"].status == "unknown"

    def test_links_that_lead_out_are_not_followed(self, tmp_path):
        secret = tmp_path / "secret.csv"
        secret.write_text("round,accuracy\n7,0.777\n")
        written(tmp_path / "outside")
        root = tmp_path / "runs"
        run = written(root / "run")
        (root / "elsewhere").symlink_to(tmp_path / "outside")
        (run / "records.csv").unlink()
        (run / "records.csv").symlink_to(secret)
        assert set(entries(root)) == {"run"}
        assert entries(root)["run"].status == "damaged"
        assert "records.csv leads out" in entries(root)["run"].message
        assert "0.777" not in list_page(Shelf(root).look(600), Asked(), Path("runs"))

    def test_a_folder_that_is_none_is_refused(self, tmp_path):
        with pytest.raises(ValueError, match="nowhere is no folder"):
            Shelf(tmp_path / "nowhere")


class TestList:
    MADE = (
        Entry("b", 3.0, "finished", algorithm="sgd", task="digits", round=5, measure="accuracy", value=0.5, bits=10.0),
        Entry("a", 1.0, "running", algorithm="sgd, qsgd", task="own", round=9, measure="accuracy", value=0.9),
        Entry("C", 2.0, "damaged", "cut short"),
    )

    def looked(self):
        return Look(1, {entry.name: Known(None, entry, (), 1) for entry in self.MADE}, {}, 0)

    @pytest.mark.parametrize(
        ("asked", "wanted"),
        [
            (Asked(), "bCa"),
            (Asked(turned=True), "aCb"),
            (Asked(sort="name"), "abC"),
            (Asked(sort="reached"), "abC"),
            (Asked(sort="reached", turned=True), "baC"),
            (Asked(sort="bits"), "baC"),
            (Asked(words="SGD"), "ba"),
            (Asked(words="digits sgd"), "b"),
            (Asked(words="cut damaged"), "C"),
            (Asked(words="nothing"), ""),
        ],
    )
    def test_filter_and_sort(self, asked, wanted):
        assert "".join(key for key, _ in shown(self.looked(), asked)) == wanted

    def test_a_smaller_loss_is_better(self):
        made = [Entry(name, 0.0, measure="train_loss", value=value) for name, value in (("x", 2.0), ("y", 1.0))]
        look = Look(1, {entry.name: Known(None, entry, (), 1) for entry in made}, {}, 0)
        assert [key for key, _ in shown(look, Asked(sort="reached"))] == ["y", "x"]

    def test_names_are_shown_and_never_obeyed(self):
        bad = "<script>alert('x')</script>\"'&"
        entry = Entry(bad, 0.0, "finished", bad, bad, bad, 1, 2, "accuracy", 0.5, 1, 1.0, 1.0, bad)
        page = list_page(Look(1, {"k": Known(None, entry, (), 1)}, {}, 0), Asked(words=bad), Path(bad))
        assert "<script>" not in page
        assert "alert('x')" not in page
        assert page.count("&lt;script&gt;") >= 7

    def test_every_column_says_how_it_is_sorted(self):
        page = list_page(self.looked(), Asked("a b", "bits"), Path("runs"))
        for name in SORTS:
            assert f'data-sort="{name}"' in page
        assert '/?q=a+b&amp;sort=bits&amp;turned=1"' in page  # once more turns it round


def test_the_samples_are_as_runs_write_them(tmp_path):
    """So that the tests above are of real folders: the store's own reader takes them."""
    folder = written(tmp_path / "run", rows(20, lanes=2), rows(40, lanes=2))
    assert len(load_records(folder)) == 4
    assert load_settings(folder) == SETTINGS

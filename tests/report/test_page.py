"""The report of a run: a parser reads the page back, and the numbers in it are computed a second way."""

import base64
import hashlib
import re
import statistics
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from report_samples import SETTINGS, made, run_folder, slim

from hush.report.page import write_report


class Page(HTMLParser):
    """What the tests look at: tags with their attributes, ids, and the cells of tables."""

    def __init__(self, path):
        super().__init__()
        self.tags, self.rows, self.text = [], [], ""
        self._cell = False
        self.source = path.read_text()
        self.feed(self.source)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        self._cell = tag in ("td", "th")

    def handle_endtag(self, tag):
        self._cell = False

    def handle_data(self, data):
        self.text += data
        if self._cell:
            self.rows[-1][-1] += data

    @property
    def ids(self):
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]


def report(tmp_path, records, **more):
    return Page(write_report(run_folder(tmp_path / "first run", records, **more)))


def test_summary_has_final_means_and_deviations(tmp_path):
    records = made(repetitions=3, sweep=(0.1, 1.0))
    page = report(tmp_path, records)
    head, *rows = page.rows
    assert head[:4] == ["local.lr", "rounds", "test accuracy", "test loss"]
    assert [row[0] for row in rows] == ["0.1", "1"]
    for row, point in zip(rows, (0.1, 1.0), strict=True):
        last = [r for r in records.to_dict("records") if r["local.lr"] == point and r["round"] == 50]
        accuracies = [100 * each["accuracy"] for each in last]
        assert row[2] == f"{statistics.mean(accuracies):.2f} ± {statistics.stdev(accuracies):.2f} %"
        assert row[head.index("training time")] == "12.5 s"
        sent = [each["uplink_bits"] / 1e6 for each in last]
        assert row[head.index("sent by all clients")] == (
            f"{statistics.mean(sent):.3g} ± {statistics.stdev(sent):.3g} Mbit"
        )
    for fact in ("159,010", "repetitions", "12"):
        assert fact in page.text


def test_every_curve_is_there_with_words_for_those_who_do_not_see_it(tmp_path):
    page = report(tmp_path, made())
    expected = [
        f"curve-{measure}-{against}"
        for measure in ("accuracy", "test_loss", "train_loss")
        for against in ("uplink_bits", "round")
    ]
    figures = [attributes["id"] for tag, attributes in page.tags if tag == "figure"]
    assert figures == ["chart", *expected, "curve-update_norm-round"]
    pictures = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert len(pictures) == len(figures) - 1, "the chart is drawn by the browser"
    assert all(each["role"] == "img" and each["aria-label"] for each in pictures)
    assert "test accuracy (%)" in page.text, "labels are text, not outlines"
    assert len(page.ids) == len(set(page.ids)), "an id stands once on a page"
    for name in expected:
        assert (tmp_path / "first run" / f"{name}.png").exists()


def test_the_page_needs_nothing_from_outside(tmp_path):
    page = report(tmp_path, slim(2), counts=np.full((100, 10), 5))
    for tag, attributes in page.tags:
        assert tag not in ("link", "iframe", "object", "embed")
        for name in ("src", "href", "xlink:href", "data", "srcset", "action"):
            assert str(attributes.get(name, "#")).startswith(("#", "data:image/")), (tag, attributes)
    outside = re.sub(r"<script.*?</script>", "", page.source, flags=re.DOTALL)
    assert "http://" not in outside
    assert "https://" not in outside
    assert "@import" not in page.source
    assert "prefers-color-scheme: dark" in page.source


def test_only_the_scripts_of_the_page_may_run(tmp_path):
    page = report(tmp_path, slim())
    scripts = re.findall(r"<script>(.*?)</script>", page.source, flags=re.DOTALL)
    assert len(scripts) == 2, "the library and our own, each once"
    digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts]
    policy = next(
        attributes["content"] for tag, attributes in page.tags if tag == "meta" and "http-equiv" in attributes
    )
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"].split() == [f"'sha256-{digest}'" for digest in digests]
    assert len(page.source) < 1_000_000


def test_references_inside_the_page_are_to_what_is_there(tmp_path):
    page = report(tmp_path, slim(2))
    used = [attributes["href"][1:] for tag, attributes in page.tags if tag == "use"]
    clips = [attributes["clip-path"][5:-1] for _, attributes in page.tags if "clip-path" in attributes]
    assert used
    assert clips
    assert set(used) | set(clips) <= set(page.ids)


def test_whatever_is_text_stays_text(tmp_path):
    evil = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>"
    settings = SETTINGS + f"\n[sweep]\n\"<b>\" = '''{evil}'''\n"
    records = made(sweep=(0.1,)).rename(columns={"local.lr": "local.<script>x</script>"})
    records["<i>loss</i>"] = 1.0
    folder = run_folder(tmp_path / "<u>run", records, "failed", evil, settings)
    page = Page(write_report(folder))
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"img", "b", "i", "u"}
    assert [tag for tag, _ in page.tags].count("script") == 3, "the data, the library, our own"
    assert "<script>alert" not in page.source
    assert evil in page.text
    assert "<script>alert('settings')</script>" in page.text


@pytest.mark.parametrize(
    ("status", "message", "said", "kind"),
    [
        ("finished", "", "Finished. 50 of 60 rounds.", "good"),
        ("interrupted", "interrupted after round 50 of 60", "Interrupted. interrupted after round 50 of 60.", "fair"),
        ("diverged", "every lane", "Diverged. every lane. The numbers below are those of an unfinished run.", "bad"),
        ("failed", "the disk is full", "Failed. the disk is full.", "bad"),
        ("running", "", "Still running when this page was written.", "note"),
    ],
)
def test_the_banner_says_plainly_how_it_ended(tmp_path, status, message, said, kind):
    page = report(tmp_path, slim(), status=status, message=message)
    assert said in page.text
    assert ("p", {"class": f"banner {kind}", "role": "status"}) in page.tags


@pytest.mark.parametrize("content", [None, "", "repetition,round,train_loss,uplink_bits,seconds\n"])
def test_a_run_without_an_evaluation_has_a_page_that_says_so(tmp_path, content):
    folder = run_folder(tmp_path / "run", None, "interrupted", "stopped early")
    if content is not None:
        (folder / "records.csv").write_text(content)
    page = Page(write_report(folder))
    assert "stopped before its first evaluation" in page.text
    assert "Interrupted. stopped early." in page.text
    assert "hush run settings.toml" in page.text
    assert "figure" not in {tag for tag, _ in page.tags}
    assert "data" not in page.ids


def test_half_a_line_is_not_read_and_rounds_run_twice_count_once(tmp_path):
    records = slim()
    again = records[records["round"] == 50].assign(accuracy=0.5)
    folder = run_folder(tmp_path / "run", pd.concat([records, again]))
    with (folder / "records.csv").open("a") as file:
        file.write("0,60,0.9")
    page = Page(write_report(folder))
    head, row = page.rows
    assert row[head.index("rounds")] == "50"
    assert row[head.index("test accuracy")] == "50.00 %"


def test_parquet_alone_is_enough(tmp_path):
    folder = run_folder(tmp_path / "run", None)
    slim().to_parquet(folder / "records.parquet", index=False)
    assert "curve-accuracy-round" in Page(write_report(folder)).ids


def test_lost_repetitions_are_counted_in_the_table(tmp_path):
    records = made(repetitions=3, sweep=(0.1, 9.0))
    records = records.drop(columns=["train_loss", "accuracy", "update_norm"])
    records.loc[(records["local.lr"] == 9.0) & (records["round"] > 20), "test_loss"] = np.inf
    records.loc[(records["local.lr"] == 0.1) & (records["repetition"] == 2), "test_loss"] = np.nan
    head, first, second = report(tmp_path, records).rows
    assert first[head.index("test loss")].endswith("(1 of 3 not finite)")
    assert second[head.index("test loss")] == "not finite"


def test_the_clients_data_are_pictured(tmp_path):
    counts = np.arange(24).reshape(8, 3)
    page = report(tmp_path, slim(), counts=counts)
    assert "class_counts" in page.ids
    assert f"8 clients hold {counts.sum()} examples of 3 classes, from 3 to 66 each." in page.text
    assert (tmp_path / "first run" / "class_counts.png").exists()
    assert "well" not in page.text


def test_the_classes_in_the_picture_have_their_names(tmp_path):
    page = report(tmp_path, slim(), counts=np.arange(24).reshape(8, 3), classes=("ill", "well", "<b>"))
    shown = page.text[page.text.index("Who holds what") :]
    assert all(name in shown for name in ("ill", "well", "<b>"))


def test_the_same_folder_gives_the_same_page_and_leaves_nothing_half_written(tmp_path):
    folder = run_folder(tmp_path / "run", slim(2))
    first = write_report(folder).read_bytes()
    assert write_report(folder).read_bytes() == first
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_a_page_that_cannot_be_written_leaves_the_earlier_one(tmp_path, monkeypatch):
    folder = run_folder(tmp_path / "run", slim())
    path = write_report(folder)
    before = path.read_bytes()
    (folder / "records.csv").write_text(slim(2).to_csv(index=False))

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_report(folder)
    assert path.read_bytes() == before


def test_a_folder_without_settings_is_no_run(tmp_path):
    with pytest.raises(ValueError, match=r"is not the folder of a run: it holds neither"):
        write_report(tmp_path)
    with pytest.raises(ValueError, match="there is no such folder"):
        write_report(tmp_path / "nowhere")

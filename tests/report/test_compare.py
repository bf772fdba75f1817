"""Runs side by side: labels, the table's numbers, and the page."""

import re

import numpy as np
import pytest
from report_samples import SETTINGS, made, run_folder, slim

from hush.report.compare import compare, load_records, table, write_comparison

OTHER = SETTINGS.replace("levels = 2", "levels = 8")
QUITE_OTHER = '[task]\nname = "digits"\n[local]\npiece = "gradient"\nstep = 1\n'


def names(figure):
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


@pytest.fixture
def pair(tmp_path):
    coarse = made(repetitions=2, bits=1_000_000)
    coarse["accuracy"] -= 0.1
    return [
        run_folder(tmp_path / "fine", made(repetitions=3), settings=OTHER),
        run_folder(tmp_path / "coarse", coarse),
    ]


def test_records_come_back_as_they_were(tmp_path):
    records = made(sweep=(0.1, 1.0))
    folder = run_folder(tmp_path / "run", records)
    found = load_records(folder)
    assert list(found.columns) == list(records.columns)
    assert np.allclose(found, records, rtol=1e-12)
    assert found["uplink_bits"].dtype == np.int64


def test_runs_are_named_by_the_settings_in_which_they_differ(pair):
    assert names(compare(pair)) == ["uplink.0.levels = 8", "uplink.0.levels = 2"]


def test_runs_that_differ_in_kind_or_not_at_all_are_named_by_their_folders(tmp_path):
    one = run_folder(tmp_path / "fedavg", made())
    two = run_folder(tmp_path / "dsgd", made(), settings=QUITE_OTHER)
    same = run_folder(tmp_path / "again", made())
    alike = run_folder(tmp_path / "elsewhere" / "fedavg", made())
    assert names(compare([one, two])) == ["fedavg", "dsgd"]
    assert names(compare([one, same])) == ["fedavg", "again"]
    assert names(compare([one, alike])) == [str(one), str(alike)]


def test_points_of_a_sweep_are_named_under_their_run(tmp_path):
    one = run_folder(tmp_path / "plain", made())
    two = run_folder(tmp_path / "swept", made(sweep=(0.1, 1.0)), settings=QUITE_OTHER)
    assert names(compare([one, two])) == ["plain", "swept: local.lr = 0.1", "swept: local.lr = 1"]
    found = table([one, two])
    assert found["run"].tolist() == ["plain", "swept", "swept"]
    assert np.isnan(found["local.lr"][0])
    assert found["local.lr"].tolist()[1:] == [0.1, 1.0]


def test_curves_are_those_of_the_records(pair):
    figure = compare(pair, "train_loss", "seconds")
    records = load_records(pair[1])
    expected = [records[records["round"] == done]["train_loss"].to_numpy().sum() / 2 for done in range(10, 51, 10)]
    x, y = figure.axes[0].get_lines()[1].get_data()
    assert y == pytest.approx(expected)
    assert x == pytest.approx([2.5, 5.0, 7.5, 10.0, 12.5])


def test_the_legend_stands_below_the_lines(pair):
    figure = compare(pair)
    figure.draw_without_rendering()
    ax = figure.axes[0]
    assert ax.get_legend().get_window_extent().y1 <= ax.get_window_extent().y0


def test_table_has_final_means_and_the_bits_to_the_worst_runs_accuracy(pair):
    found = table(pair)
    fine, coarse = (load_records(folder) for folder in pair)
    last = coarse[coarse["round"] == 50]
    assert found["accuracy"][1] == pytest.approx(last["accuracy"].sum() / 2)
    a, b = last["accuracy"]
    assert found["accuracy_deviation"][1] == pytest.approx(abs(a - b) / np.sqrt(2))
    assert found["uplink_bits"].tolist() == pytest.approx([50 * 4_001_000, 50 * 1_000_500])
    assert found["seconds"].tolist() == [12.5, 12.5]
    worst = min(found["accuracy"])
    assert found["target"].tolist() == [worst, worst]
    for done in range(10, 51, 10):  # the first evaluation of the better run that is as good
        if fine[fine["round"] == done]["accuracy"].sum() / 3 >= worst:
            break
    assert done < 50
    assert found["bits_to_target"][0] == pytest.approx(done * 4_001_000)
    assert found["bits_to_target"][1] == pytest.approx(50 * 1_000_500)


def test_without_accuracy_the_target_is_the_highest_final_loss(tmp_path):
    better, worse = (made(repetitions=1).drop(columns="accuracy") for _ in range(2))
    worse[["train_loss", "test_loss"]] += 0.3
    folders = [run_folder(tmp_path / name, each) for name, each in (("better", better), ("worse", worse))]
    found = table(folders)
    assert found["target"][0] == worse["test_loss"].iloc[-1]
    first = better[better["test_loss"] <= found["target"][0]].iloc[0]
    assert found["bits_to_target"][0] == first["uplink_bits"]


def test_a_diverged_run_reaches_nothing_and_sets_no_target(tmp_path):
    gone = slim()
    gone["accuracy"] = np.nan
    folders = [run_folder(tmp_path / "good", slim()), run_folder(tmp_path / "gone", gone)]
    found = table(folders)
    assert found["target"][0] == found["accuracy"][0]
    assert np.isnan(found["bits_to_target"][1])
    assert "not reached" in write_comparison(folders, tmp_path / "out").read_text()


def test_the_page_has_all_curves_bits_first(pair, tmp_path):
    path = write_comparison(pair, tmp_path / "out" / "deep")
    assert path == tmp_path / "out" / "deep" / "comparison.html"
    page = path.read_text()
    order = ["uplink_bits", "round", "iterations", "seconds"]
    places = [page.index(f'<figure id="compare-{measure}-{against}"')
              for measure in ("accuracy", "test_loss", "train_loss") for against in order[:2]]  # fmt: skip
    assert places == sorted(places)
    for against in order:
        assert (path.parent / f"compare-accuracy-{against}.png").read_bytes().startswith(b"\x89PNG")
    outside = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert "http://" not in outside
    assert "https://" not in outside


def test_names_of_folders_are_text_and_the_page_may_be_named(tmp_path):
    folders = [run_folder(tmp_path / name, slim()) for name in ("<script>a", "$b_{")]
    path = write_comparison(folders, tmp_path / "mine.html")
    assert path == tmp_path / "mine.html"
    page = path.read_text()
    assert page.count("<script") == 3, "the data, the library, our own"
    assert "&lt;script&gt;a" in page


def test_what_is_no_run_is_refused_by_what_it_lacks(tmp_path, pair):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(
        ValueError, match=r"empty is not the folder of a run: it holds neither manifest.txt nor settings.toml"
    ):
        compare([*pair, empty])
    with pytest.raises(ValueError, match="there is no such folder"):
        table([tmp_path / "nowhere"])
    with pytest.raises(ValueError, match="has neither settings nor records"):
        load_records(empty)
    with pytest.raises(ValueError, match="list of one or more run folders"):
        compare([])
    stopped = run_folder(tmp_path / "stopped", None)
    (stopped / "records.csv").write_text("")
    with pytest.raises(ValueError, match="stopped cannot be compared: its run stopped before the first evaluation"):
        compare([stopped])


def test_measures_must_be_had_by_all(tmp_path, pair):
    regression = run_folder(tmp_path / "regression", made().drop(columns=["accuracy"]), settings=QUITE_OTHER)
    assert compare([*pair, regression]).axes[0].get_ylabel() == "test loss"
    with pytest.raises(ValueError, match=r"regression: measure must be one of train_loss, test_loss"):
        compare([*pair, regression], "accuracy")

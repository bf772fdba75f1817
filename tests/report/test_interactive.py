"""What the chart of a page is given, and the tables of a comparison: read back and computed a second way."""

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
from report_samples import SETTINGS, made, run_folder, slim

from hush.report import assets
from hush.report.assets import OWN, data_block, scripts
from hush.report.compare import write_comparison
from hush.report.interactive import MOST_ROWS, Curve, First, chart_data, thinned
from hush.report.same_data import data_section, problem_of
from hush.report.side_by_side import algorithms, best_section, settings_section

FIRST = First("uplink_bits", "accuracy")
BUILD = Path(__file__).parents[2] / "tools" / "charting" / "build.sh"
HOSTILE = "</script><script>alert(1)</script><!-- \u2028 &amp;"


def cells(markup):
    """The rows of the only table: texts as they are shown."""
    return [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in re.findall(r"<tr>(.*?)</tr>", markup)]


def test_rows_are_those_of_the_records_and_what_is_not_finite_is_nothing():
    records = made(repetitions=2)
    records.loc[3, "test_loss"], records.loc[4, "test_loss"] = np.nan, np.inf
    (curve,) = chart_data("run", [Curve("", records)], FIRST)["curves"]
    assert curve["rows"]["uplink_bits"] == records["uplink_bits"].tolist()
    found = curve["rows"]["test_loss"]
    assert found[3] is found[4] is None
    rest = records["test_loss"].drop([3, 4])
    assert [value for value in found if value is not None] == pytest.approx(rest.tolist(), rel=1e-7)


def test_an_epsilon_is_not_rounded():
    records = slim().assign(epsilon=1.5200000001)
    (curve,) = chart_data("run", [Curve("", records)], FIRST)["curves"]
    assert set(curve["rows"]["epsilon"]) == {1.5200000001}


def test_every_column_of_numbers_can_be_chosen_and_says_what_it_is():
    records = made(sweep=(0.1, 1.0)).assign(macro_f1=0.5, remark="a text")
    columns = chart_data("run", [Curve("", records)], FIRST)["columns"]
    assert set(columns) == {*records.columns} - {"repetition", "local.lr", "remark"}
    assert columns["accuracy"]["units"] == [[0, 0.01, "%"]]
    assert columns["uplink_bits"]["role"] == "total"
    assert columns["macro_f1"]["role"] == "information"  # it stands after the totals


def test_settings_with_one_value_are_no_axis():
    settings = [{"local.lr": 0.1, "server.lr": 1.0}, {"local.lr": 0.3, "server.lr": 1.0}]
    curves = [Curve(str(number), slim(), settings=each) for number, each in enumerate(settings)]
    assert chart_data("run", curves, FIRST)["settings"] == ["local.lr"]


def test_colours_go_by_what_groups_the_curves():
    def by(*pairs):
        curves = [Curve(str(number), slim(), *pair) for number, pair in enumerate(pairs)]
        return chart_data("run", curves, FIRST)["colourBy"]

    assert by(("a", "x"), ("b", "y")) == ["curve"]
    assert by(("a", "x"), ("a", "x"), ("b", "y")) == ["curve", "algorithm"]
    assert by(("a", "x"), ("a", "x"), ("b", "x"), ("c", "y")) == ["curve", "run", "algorithm"]


def test_long_records_are_thinned_to_the_same_rounds_with_the_last_ones():
    records = made(repetitions=2, rounds=1000)
    records = records[(records["repetition"] == 0) | (records["round"] <= 770)]  # one was stopped
    found = thinned(records, 7)
    kept = {*range(10, 1001, 70), 770, 1000}
    for repetition, last in ((0, 1000), (1, 770)):
        assert set(found[found["repetition"] == repetition]["round"]) == {each for each in kept if each <= last}
    many = [Curve(str(number), records) for number in range(2 * MOST_ROWS // len(records))]
    data = chart_data("run", many, FIRST)
    assert data["thinned"] == 2
    assert sum(len(curve["rows"]["round"]) for curve in data["curves"]) < 0.6 * len(many) * len(records)


def test_no_text_ends_the_data():
    block = data_block("data", {HOSTILE: [HOSTILE, None, 1.5]})
    inner = block.removeprefix('<script type="application/json" id="data">').removesuffix("</script>")
    assert not set("<>&\u2028") & set(inner)
    assert json.loads(inner) == {HOSTILE: [HOSTILE, None, 1.5]}


def test_the_scripts_have_nothing_that_ends_them_and_none_is_left_out():
    library, own = scripts()
    assert len(library) < 700_000
    for script in (library, own):
        assert "</script" not in script.lower()
        assert "<!--" not in script
    assert own.count("\nfunction ") > 30
    assert len(set(OWN)) == len(OWN)


def test_the_library_is_the_one_that_was_vendored():
    folder = Path(assets.__file__).parent / "vendor"
    digest, name = (folder / "SHA256SUMS").read_text().split()
    assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    version = re.match(r"/\*! Apache ECharts (\S+),", scripts()[0]).group(1)
    assert f"ECHARTS={version}\n" in BUILD.read_text()
    assert {"LICENSE-echarts", "NOTICE-echarts", "LICENSE-zrender", "LICENSE-tslib"} <= {
        path.name for path in folder.iterdir()
    }


def test_algorithms_are_told_apart_by_their_pieces():
    plain = {"local.piece": "sgd", "server.piece": "add", "local.lr": 0.1}
    coarse = plain | {"uplink.0.piece": "qsgd", "uplink.0.levels": 2}
    fine = coarse | {"uplink.0.levels": 8}
    assert algorithms(["a", "b", "c"], [plain, coarse, fine]) == ["a", "sgd + qsgd", "sgd + qsgd"]
    assert algorithms(["a", "b"], [plain, plain | {"local.lr": 1.0}]) == ["sgd", "sgd"]


def test_algorithms_have_their_own_names_where_these_tell_them_apart():
    plain, quantised = {"local.piece": "sgd"}, {"local.piece": "sgd", "uplink.0.piece": "qsgd"}
    fedavg, fedpaq = plain | {"algorithm.called": "fedavg"}, quantised | {"algorithm.called": "fedpaq"}
    slow = fedavg | {"local.lr": 0.1}
    assert algorithms(["a", "b", "c"], [fedavg, fedpaq, slow]) == ["fedavg", "fedpaq", "fedavg"]
    mixed = [fedavg, fedpaq, quantised]  # the last is the same without a name
    assert algorithms(["a", "b", "c"], mixed) == ["fedavg", "sgd + qsgd", "sgd + qsgd"]
    wrong = quantised | {"algorithm.called": "fedavg"}
    assert algorithms(["a", "b", "c"], [fedavg, slow, wrong]) == ["sgd", "sgd", "c"]


def test_settings_stand_side_by_side_with_what_differs_marked():
    one = {"task.name": "digits", "run.seed": 3, "local.lr": 0.1}
    section = "".join(settings_section(["one", HOSTILE], [one, one | {"local.lr": 0.3, "uplink.0.levels": 2}]))
    assert "<script" not in section
    marked = re.findall(r'class="name differs">(.*?)<', section)
    assert marked == ["0.3", "2"]
    different, shared = section.split("<details>")
    assert [row[0] for row in cells(different)] == ["setting", "local.lr", "uplink.0.levels"]
    assert cells(shared) == [["setting", "all runs"], ["task.name", "digits"], ["run.seed", "3"]]
    assert "All settings are the same." in "".join(settings_section(["a", "b"], [one, one]))


def test_the_best_of_each_algorithm_is_the_one_that_ended_best(tmp_path):
    other = SETTINGS.replace("levels = 2", "levels = 8")
    plain = '[task]\nname = "digits"\n[local]\npiece = "gradient"\nstep = 1\n'
    worse = slim(2)
    worse["accuracy"] -= 0.2
    folders = [
        run_folder(tmp_path / "better", slim(2)),
        run_folder(tmp_path / "worse", worse, settings=other),
        run_folder(tmp_path / "swept", made(2, sweep=(0.1, 1.0)), settings=plain),
    ]
    page = write_comparison(folders, tmp_path / "out").read_text()
    table = page[page.index('<table id="best"') :]
    head, *rows = cells(table[: table.index("</table>")])
    assert [row[:3] for row in rows] == [["sgd + qsgd", "2", "better"], ["swept", "2", "swept: local.lr = 1"]]
    final = slim(2).query("round == 50")["accuracy"]
    assert rows[0][head.index("test accuracy")] == f"{100 * final.mean():.2f} ± {100 * final.std():.2f} %"


def test_without_several_of_an_algorithm_there_is_no_best(tmp_path):
    found = slim().tail(1).assign(run="one")
    assert best_section(found, {"one": "sgd"}, "accuracy") == []


def checkpoint(folder, **texts):
    named = {"problem.train.x": "uint8[9] digest a", "problem.index": "int32[9] digest b", "local.lr": "0.1"}
    np.savez(folder / "checkpoint.npz", fingerprint=np.array(json.dumps(named | texts)), model=np.zeros(3))
    return folder


class TestSameData:
    def warning(self, tmp_path, *others, tasks=("", "")):
        folders = [run_folder(tmp_path / str(number), None) for number in range(2)]
        for folder, texts in zip(folders, others, strict=False):
            checkpoint(folder, **texts)
        settings = [{"task": {"name": "digits", "note": task}} for task in tasks]
        return "".join(
            data_section([(folder.name, folder, each) for folder, each in zip(folders, settings, strict=True)])
        )

    def test_the_same_data_need_no_words(self, tmp_path):
        assert self.warning(tmp_path, {}, {"local.lr": "0.3", "problem.model.name": "lenet"}) == ""

    def test_other_examples(self, tmp_path):
        said = self.warning(tmp_path, {}, {"problem.train.x": "uint8[9] digest other"})
        assert "banner bad" in said
        assert "on different data" in said

    def test_other_clients(self, tmp_path):
        said = self.warning(tmp_path, {}, {"problem.index": "other"}, tasks=("one", "<two>"))
        assert "banner fair" in said
        assert "spread over the clients in different ways" in said
        assert "task.note = one (0), &lt;two&gt; (1)" in said

    def test_by_settings_where_a_checkpoint_is_not_to_be_had(self, tmp_path):
        assert "may be on different data" in self.warning(tmp_path, {}, tasks=("one", "two"))
        assert self.warning(tmp_path / "alike", {}) == ""

    def test_a_damaged_checkpoint_says_nothing(self, tmp_path):
        (tmp_path / "checkpoint.npz").write_bytes(b"PK but not really")
        assert problem_of(tmp_path) is None
        assert problem_of(tmp_path / "nowhere") is None

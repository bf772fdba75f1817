"""The FedPAQ paper: its experiments run through on the embedded digits, and its verdicts follow from its numbers."""

import pandas as pd
import pytest

import hush
from hush.app import paper
from hush.papers import PAPERS, Paper, Section, cells, claims_table, write
from hush.papers.fedpaq_dp.lab import DELTA, FedPAQLab, PrivateSetting, Setting
from hush.papers.fedpaq_dp.page import _loss_at
from hush.papers.fedpaq_dp.private import composed, nominal
from hush.papers.fedpaq_dp.steps_and_clients import rises
from hush.papers.keeping import Runs
from hush.papers.writing import judged, markdown_table, only_when
from hush.privacy import describe


@pytest.mark.slow
def test_the_whole_paper_quickly(tmp_path, capsys):
    paper.reproduce("fedpaq-dp", None, True, tmp_path, tmp_path / "kept")
    page = (tmp_path / "fedpaq-dp.md").read_text()
    headings = ("Claims and verdicts", "The authors' table", "Equal bits", "Figure 2", "Figure 3", "measured bits")
    for heading in (*headings, "Figure 4 (a)", "At the composed ε", "Figures 2 and 3 (b), private"):
        assert heading in page
    assert f"Made by `hush paper fedpaq-dp --quick --out {tmp_path}`" in page
    assert "a trial of the code" in page
    pictures = {path.stem for path in (tmp_path / "fedpaq-dp").glob("*.png")}
    private = {"figure-4a"} | {f"figure-{n}-private-{noise}" for n in ("2", "3b") for noise in ("step", "theirs")}
    assert pictures == {"figure-2a", "figure-2b", "figure-3a", "figure-3b", "measured-bits", "against-bits", *private}
    for name in pictures:
        assert f"(fedpaq-dp/{name}.png)" in page
    assert str(tmp_path / "fedpaq-dp.md") in capsys.readouterr().out


@pytest.mark.parametrize(
    ("figure", "shown"),
    [
        ("compressors", "| bfloat16 | 10432 |"),
        pytest.param("theory", "(fedpaq-dp/theorem-1.png)", marks=pytest.mark.slow),
    ],
)
def test_one_part_of_it(figure, shown, tmp_path):
    paper.reproduce("fedpaq-dp", figure, True, tmp_path, tmp_path / "kept")
    page = (tmp_path / "fedpaq-dp.md").read_text()
    assert shown in page
    assert "Figure 2" not in page


def test_what_is_not_there(tmp_path):
    with pytest.raises(ValueError, match="unknown figure of fedpaq-dp '7'; known: 2, 3"):
        paper.reproduce("fedpaq-dp", "7", True, tmp_path, tmp_path / "kept")
    with pytest.raises(ValueError, match="unknown paper 'fedpack'; did you mean 'fedpaq-dp'"):
        paper.reproduce("fedpack", None, True, tmp_path, tmp_path / "kept")


def test_the_settings_of_the_text():
    stated = Setting().algorithm()
    assert (stated.local.steps, stated.cohort.size, stated.uplink[0].levels) == (10, 10, 10)
    assert [float(stated.local.learning_rate({"round": k})) for k in (0, 10)] == pytest.approx([0.1, 0.05])
    assert Setting(levels=None).algorithm().uplink == ()


def test_a_run_is_made_once():
    said = []
    lab = FedPAQLab(quick=True, runs=Runs(say=said.append))
    setting = Setting(rounds=2, clients=2, steps=1)
    assert lab.records(setting) is lab.records(setting)
    assert [each.split(";")[0] for each in said] == ["E = 1 steps, M = 2, s = 10 (dense)"]
    assert lab.records(setting)["repetition"].nunique() == 2


def test_verdicts_follow_from_numbers():
    assert only_when("x", [True, True], ["a", "b"], "").verdict == "holds"
    assert only_when("x", [False, False], ["a", "b"], "").verdict == "does not hold"
    assert only_when("x", [True, False], ["a", "b"], "").verdict == "in 1 of 2: a"
    records = pd.DataFrame(
        {"repetition": [0, 1] * 3, "round": [5, 5, 10, 10, 15, 15], "train_loss": [3.0, 1.0, 2.0, 4.0, 2.5, 4.0]}
    )
    assert _loss_at(records, "round", 12) == pytest.approx(3.0)
    assert rises(records) == (0.5, pytest.approx((0.5 + 3) / 2))


def test_a_page_is_written_as_markdown(tmp_path):
    section = Section("One", "Text.", [("A table:", pd.DataFrame({"a|b": [0.123456], "c": ["x|y"]}))])
    told = Section("Two", "", claims=[judged("it is so", True, "1 of 1")])
    path = write(
        Paper("Title", "About.", {}, FedPAQLab), "name", [section, told], tmp_path, "hush paper name", "Settings."
    )
    text = path.read_text()
    assert "| it is so | holds | 1 of 1 |" in text
    assert "| 0.1235 | x\\|y |" in text
    assert claims_table([section, told])["verdict"].tolist() == ["holds"]
    assert markdown_table(pd.DataFrame({"a": [1]})).splitlines() == ["| a |", "| --- |", "| 1 |"]
    assert cells(pd.DataFrame({"a": [float("nan"), float("inf"), 2.0]})) == [["–"], ["∞"], ["2"]]


def test_every_paper_has_experiments():
    assert set(PAPERS) == {"fedpaq-dp", "clipping", "clipping-fair", "alignment", "fa-ld", "secure-sum"}
    assert list(PAPERS["fedpaq-dp"].experiments)[:4] == ["table", "facts", "equal-bits", "digits"]
    assert hush.fedpaq(steps=1).uplink[0].levels == 10


def test_private_settings_keep_the_epsilon_they_name():
    """Nominal: one round of noise at the steps is within ε. Composed: so are all rounds, for either kind of noise."""
    lab = FedPAQLab(quick=True, runs=Runs(say=str))
    step = nominal(lab, PrivateSetting("step", steps=4), 1.0)
    assert 0.95 < describe(step.algorithm(), lab.problem, 5).spent((1,), lab.examples, DELTA).epsilon <= 1.0
    for noise in ("step", "output"):
        setting = composed(lab, PrivateSetting(noise, steps=4), 3.0, participations=6)
        found = describe(setting.algorithm(), lab.problem, 10).spent((6,), lab.examples, DELTA)
        assert 2.9 < found.epsilon <= 3.0

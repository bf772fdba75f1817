"""The FedPAQ paper: its experiments run through on the embedded digits, and its verdicts follow from its numbers."""

import numpy as np
import pandas as pd
import pytest

import hush
from hush.app import paper
from hush.papers import PAPERS, Paper, Section, claims_table, write
from hush.papers.fedpaq_dp.lab import AUTHORS, DELTA, FedPAQLab, OneRoundLate, PrivateSetting, Setting
from hush.papers.fedpaq_dp.page import PUBLISHED, _loss_at, _near, _rises
from hush.papers.fedpaq_dp.private import composed, nominal
from hush.papers.writing import judged, markdown_table, only_when
from hush.privacy import describe


@pytest.mark.slow
def test_the_whole_paper_quickly(tmp_path, capsys):
    paper.reproduce("fedpaq-dp", None, True, tmp_path)
    page = (tmp_path / "fedpaq-dp.md").read_text()
    headings = ("Claims and verdicts", "The authors' table", "Equal bits", "Figure 2", "Figure 3", "measured bits")
    for heading in (*headings, "Figure 4 (a)", "At the composed ε", "Figures 2 and 3 (b), private"):
        assert heading in page
    assert "Made by `hush paper fedpaq-dp --quick`" in page
    assert "a trial of the code" in page
    pictures = {path.stem for path in (tmp_path / "fedpaq-dp").glob("*.png")}
    private = {"figure-4a", "figure-2-private", "figure-3b-private"}
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
    paper.reproduce("fedpaq-dp", figure, True, tmp_path)
    page = (tmp_path / "fedpaq-dp.md").read_text()
    assert shown in page
    assert "Figure 2" not in page


def test_what_is_not_there(tmp_path):
    with pytest.raises(ValueError, match="unknown figure of fedpaq-dp '7'; known: 2, 3"):
        paper.reproduce("fedpaq-dp", "7", True, tmp_path)
    with pytest.raises(ValueError, match="unknown paper 'fedpack'; did you mean 'fedpaq-dp'"):
        paper.reproduce("fedpack", None, True, tmp_path)


def test_the_authors_settings():
    """Epochs, batches of 64, weight decay 0.001, η_k = 0.1/(1 + kE) in epochs; and one round late."""
    local = AUTHORS.algorithm().local
    assert (local.epochs, local.steps, local.batches.size, local.direction[0].amount) == (10, None, 64, 1e-3)
    rates = [float(local.learning_rate({"round": k})) for k in range(3)]
    assert rates == pytest.approx([0.1, 0.1 / 11, 0.1 / 21])
    late = OneRoundLate(0.1, 1.0, 10)
    assert [float(late(np.int32(10 * k))) for k in range(4)] == pytest.approx([0.1, 0.1, 0.1 / 11, 0.1 / 21])
    stated = Setting().algorithm()
    assert (stated.local.steps, stated.cohort.size, stated.uplink[0].levels) == (10, 10, 10)
    assert [float(stated.local.learning_rate({"round": k})) for k in (0, 10)] == pytest.approx([0.1, 0.05])
    assert Setting(levels=None).algorithm().uplink == ()
    assert len(PUBLISHED) == 10


def test_a_run_is_made_once():
    said = []
    lab = FedPAQLab(quick=True, say=said.append)
    setting = Setting(rounds=2, clients=2, steps=1)
    assert lab.records(setting) is lab.records(setting)
    assert said == ["E = 1 steps, M = 2, s = 10 (dense)"]
    assert lab.records(setting)["repetition"].nunique() == 2


def test_verdicts_follow_from_numbers():
    losses = ["0.70 ± 0.02", "0.70 ± 0.01", "0.75 ± 0.025"]
    table = pd.DataFrame({"accuracy difference": [0.5, -1.2, 0], "loss difference": [0.01, 0, 0.05], "loss": losses})
    table["E"] = [10, 1, 10]
    found = _near(table, "as stated")
    assert found.verdict == "does not hold"
    assert found.evidence == "accuracy 2, loss 2, both 1 of 3 rows; the others are up to 2.0 deviations of a run away"
    assert _near(table.head(1), "as stated").verdict == "holds"
    assert _near(table.assign(E=[1, 10, 100]), "as stated").verdict == "only when E is at most 1 epochs"
    assert only_when("x", [True, True], ["a", "b"], "").verdict == "holds"
    assert only_when("x", [False, False], ["a", "b"], "").verdict == "does not hold"
    assert only_when("x", [True, False], ["a", "b"], "").verdict == "only when a"
    records = pd.DataFrame(
        {"repetition": [0, 1] * 3, "round": [5, 5, 10, 10, 15, 15], "train_loss": [3.0, 1.0, 2.0, 4.0, 2.5, 4.0]}
    )
    assert _loss_at(records, "round", 12) == pytest.approx(3.0)
    assert _rises(records) == (0.5, pytest.approx((0.5 + 3) / 2))


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


def test_every_paper_has_experiments():
    assert set(PAPERS) == {"fedpaq-dp", "clipping", "alignment", "fa-ld"}
    assert list(PAPERS["fedpaq-dp"].experiments)[:4] == ["table", "equal-bits", "2", "3"]
    assert hush.fedpaq(steps=1).uplink[0].levels == 10


def test_private_settings_keep_the_epsilon_they_name():
    """Nominal: one round of noise at the steps is within ε. Composed: so are all rounds, for either kind of noise."""
    lab = FedPAQLab(quick=True, say=str)
    step = nominal(lab, PrivateSetting("step", steps=4), 1.0)
    assert 0.95 < describe(step.algorithm(), lab.problem, 5).spent((1,), lab.examples, DELTA).epsilon <= 1.0
    for noise in ("step", "output"):
        setting = composed(lab, PrivateSetting(noise, steps=4), 3.0, participations=6)
        found = describe(setting.algorithm(), lab.problem, 10).spent((6,), lab.examples, DELTA)
        assert 2.9 < found.epsilon <= 3.0
    # Noise as in the figures is that of one example in one step, in units of the proved sensitivity.
    figures = PrivateSetting("figures", noise_multiplier=2.0, steps=4, rate=0.2, examples=100)
    assert figures.batch == 5
    assert figures.algorithm().local.noise_multiplier == pytest.approx(2.0 * (1 / 5) / (3 + 1 / 5))

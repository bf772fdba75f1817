"""The page on secure sums: quickly on the embedded digits; its noise by closed form, and verdicts that follow."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from hush.app import paper
from hush.papers.intervals import interval
from hush.papers.keeping import Runs
from hush.papers.secure_sum.lab import EVERYBODY, IDEAL, LOCAL, Setting, SumLab
from hush.papers.secure_sum.page import _claims, costs, noise_of
from hush.privacy import EqualClients, Unsampled, describe, noise_multiplier_for

SPREAD = np.array([-0.2, -0.1, 0.0, 0.1, 0.2])


@pytest.mark.slow
def test_the_page_quickly(tmp_path):
    paper.reproduce("secure-sum", None, True, tmp_path, tmp_path / "kept")
    page = (tmp_path / "secure-sum.md").read_text()
    for part in ("Fewer bits, softmax regression", "What trust in the sum is worth", "a trial of the code"):
        assert part in page
    assert {path.stem for path in (tmp_path / "secure-sum").glob("*.png")} == {"bits-softmax-10", "trust"}


class TestTheNoise:
    """Each client takes part in half of the ten rounds; a neighbour moves the sum by twice the bound."""

    lab = SumLab(quick=True, runs=Runs(say=str))
    TIMES = 5

    def needed(self):
        return 2 * noise_multiplier_for(10.0, 1e-5, self.TIMES, "replace", Unsampled())

    def test_of_everybody(self):
        """z · 2c of noise on a sum of 20, in their mean."""
        found = noise_of(self.lab, Setting(EVERYBODY, clip=0.3))
        assert found == pytest.approx(self.needed() / 20, rel=1e-3)

    def test_of_those_who_count(self):
        """14 must stay and two of 20 may collude: the noise of twelve is as much as that of everybody was."""
        assert (self.lab.threshold, self.lab.honest) == (14, 12)
        ideal, of_all = (noise_of(self.lab, Setting(way)) for way in (IDEAL, EVERYBODY))
        assert ideal == pytest.approx(of_all * sqrt(20 / 12), rel=1e-3)

    def test_of_each_alone(self):
        local, of_all = (noise_of(self.lab, Setting(way)) for way in (LOCAL, EVERYBODY))
        assert local == pytest.approx(of_all * sqrt(20), rel=1e-3)

    @pytest.mark.parametrize("way", ["skellam", "discrete_gaussian"])
    def test_in_whole_numbers_it_is_a_little_more(self, way):
        ideal = noise_of(self.lab, Setting(IDEAL))
        fine, coarse = (noise_of(self.lab, Setting(way, bits)) for bits in (20, 9))
        assert ideal < fine < 1.15 * ideal < coarse

    @pytest.mark.parametrize(
        ("setting", "trust"),
        [(Setting("skellam", 12), "sum"), (Setting(LOCAL, levels=4), "local"), (Setting(EVERYBODY), "assumed-sum")],
    )
    def test_it_keeps_its_epsilon(self, setting, trust):
        made = self.lab.algorithm(replace(setting, epsilon=4.0))
        found = describe(made, EqualClients(40), 10, trust=trust, dimension=650).most(1e-5)
        assert 3.9 < found <= 4.0


def test_an_interval_is_students():
    """Of five numbers: t = 2.776 at 95 %."""
    low, high = interval(3 + SPREAD)
    half = 2.776445 * SPREAD.std(ddof=1) / sqrt(5)
    np.testing.assert_allclose((low, high), (3 - half, 3 + half), rtol=1e-6)
    assert costs(0.5 + SPREAD)
    assert not costs(0.1 + SPREAD)
    assert not costs(-0.5 + SPREAD)


def test_verdicts_follow_from_numbers():
    ideal = 90 + SPREAD
    exactly = [(bits, 90 - drop - SPREAD) for bits, drop in ((8, 70.0), (12, 0.3), (16, 0.0))]
    better = [(bits, found + gain) for (bits, found), gain in zip(exactly, (0.0, 0.0, 2.0), strict=True)]
    near, where, again, nowhere, alike = _claims("here", {"Skellam": exactly, "discrete Gaussian": better}, ideal)
    said = "holds: 16 bits. does not hold: 8 bits. cannot be told: 12 bits"  # 0.3 points, give or take 0.39
    assert near.verdict == again.verdict == said
    assert where.verdict == "from 8 bits down"  # 0.3 points are within the deviation of these five
    assert nowhere.verdict == "from 8 bits down"
    assert alike.verdict == "holds: 8 bits; 12 bits. does not hold: 16 bits"

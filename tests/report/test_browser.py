"""The report in a real browser: the curves are in the page it makes, and their colours are on the screen."""

import shutil
import subprocess

import numpy as np
import pytest
from matplotlib.image import imread
from report_samples import made, run_folder

from hush.report.page import write_report
from hush.report.style import PALETTE

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no browser on this machine")
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "sweep & compare"
    counts = np.random.default_rng(0).integers(0, 40, (100, 10))
    return write_report(run_folder(folder, made(sweep=(0.3, 1.0)), counts=counts))


def browse(page, profile, *options):
    command = [BROWSER, *QUIET, f"--user-data-dir={profile}", *options, page.as_uri()]
    return subprocess.run(command, check=True, capture_output=True, timeout=1500, text=True).stdout


def near(image, colour):
    """How many dots of an image are of a colour, but for the softening of edges."""
    wanted = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return int((np.abs(image[:, :, :3] - wanted).max(-1) < 0.03).sum())


def test_the_curves_are_in_the_page(report, tmp_path):
    page = browse(report, tmp_path / "profile", "--dump-dom")
    for measure in ("accuracy", "test_loss", "train_loss"):
        for against in ("round", "uplink_bits", "seconds"):
            begin = page.index(f'<figure id="curve-{measure}-{against}"')
            inside = page[begin : page.index("</figure>", begin)]
            assert "<svg" in inside
            for colour in PALETTE[:2]:
                assert colour in inside
    assert "<script>" not in page
    assert "&lt;script&gt;alert('settings')&lt;/script&gt;" in page


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_curves_are_on_the_screen(report, tmp_path, mode):
    shot = tmp_path / "page.png"
    more = ["--force-dark-mode"] if mode == "dark" else []
    browse(report, tmp_path / "profile", f"--screenshot={shot}", "--window-size=1200,2400", *more)
    image = imread(shot)
    assert image.shape[:2] == (2400, 1200)
    assert (image[5, 5, :3].mean() < 0.2) == (mode == "dark")
    for colour in PALETTE[:2]:
        assert near(image, colour) > 500, f"the line of colour {colour} is not to be seen"
    assert near(image, PALETTE[4]) < 50, "a colour that no line has"

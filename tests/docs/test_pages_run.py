"""The Python on the pages of the documentation runs, as it stands there."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from run_page import DOCS, ROOT, blocks, run_page, shell

import hush

TUTORIALS = sorted(page.name for page in (DOCS / "tutorials").glob("*.md") if blocks(page.read_text(encoding="utf-8")))
QUICK = ("bits.md", "first_run.md")  # the others take their time


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=() if page in QUICK else pytest.mark.slow) for page in TUTORIALS]
)
@pytest.mark.usefixtures("unpainted")
def test_tutorials(page, tmp_path):
    run_page(f"tutorials/{page}", tmp_path)


def test_every_tutorial_but_that_of_the_shell_has_python():
    there = {page.name for page in (DOCS / "tutorials").glob("*.md")} - {"index.md"}
    assert there - set(TUTORIALS) == {"deploy_here.md"}


@pytest.mark.slow
@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize("page", ["index.md", "coming_from.md", "large_models.md"])
def test_pages_without_anything_to_bring(page, tmp_path):
    run_page(page, tmp_path)


@pytest.mark.slow
def test_the_page_on_compression(tmp_path):
    vector = np.linspace(-1, 1, 50, dtype=np.float32)
    names = {"hush": hush, "compressor": hush.uplink.QSGD(4), "vector": vector, "key": hush.keys.root(0)}
    run_page("compression.md", tmp_path, names)


# Of other pages, what needs neither a download nor anything that their words alone describe.
PARTS = {
    "privacy.md": ("import hush", "GridGaussian"),
    "bayesian.md": ("controlled =",),
    "over_the_air.md": ("class LogNormal",),
}


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] * (page == "privacy.md")) for page in PARTS]
)
def test_parts_of_pages(page, tmp_path):
    run_page(page, tmp_path, {"hush": hush}, PARTS[page])


@pytest.mark.slow
def test_the_tutorial_on_devices(tmp_path, monkeypatch):
    """Server and devices as on the page, another port apart; both ways come to the same model."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    script = shell("tutorials/deploy_here.md").replace("7443", "27443")
    with (tmp_path / "words.log").open("w") as words:
        started = subprocess.Popen(
            ["bash", "-c", script], cwd=tmp_path, stdout=words, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = started.wait(600)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)  # the server and the devices, where the page did not end them
    assert code == 0, "\n".join(log.read_text(encoding="utf-8") for log in tmp_path.glob("*.log"))
    field, simulated = (np.load(tmp_path / "runs" / name / "model.npz")["vector"] for name in ("field", "simulated"))
    # The same draws, added up in another order: as far apart as roundings of single precision go.
    np.testing.assert_allclose(field, simulated, atol=1e-4)

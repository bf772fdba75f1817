"""The Python on the pages of the documentation runs, as it stands there."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from run_page import DOCS, ROOT, blocks, run_page, shell

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
@pytest.mark.parametrize("page", ["index.md", "coming_from.md"])
def test_pages_without_anything_to_bring(page, tmp_path):
    run_page(page, tmp_path)


@pytest.mark.slow
def test_the_page_on_compression(tmp_path):
    import hush

    compressor, vector = hush.uplink.QSGD(4), np.linspace(-1, 1, 50, dtype=np.float32)
    run_page("compression.md", tmp_path, {"hush": hush, "compressor": compressor, "vector": vector, "key": KEY()})


@pytest.mark.slow
def test_the_page_on_privacy(tmp_path):
    run_page("privacy.md", tmp_path)


@pytest.mark.slow
def test_the_tutorial_on_devices(tmp_path, monkeypatch):
    """Server and devices as on the page, another port apart; both ways come to the same model."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    script = shell("tutorials/deploy_here.md").replace("7443", "27443")
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr + (tmp_path / "server.log").read_text(encoding="utf-8")
    field, simulated = (np.load(tmp_path / "runs" / name / "model.npz")["vector"] for name in ("field", "simulated"))
    # The same draws, added up in another order: as far apart as roundings of single precision go.
    np.testing.assert_allclose(field, simulated, atol=1e-4)


def KEY():  # noqa: N802
    import jax

    return jax.random.key(0)

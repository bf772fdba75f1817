"""The Python on the pages of the documentation runs, as it stands there."""

import ast
import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from run_page import DOCS, ROOT, blocks, fenced, run_page, shell
from typer.testing import CliRunner

import hush
from hush.app.main import app
from hush.settings import build

pytestmark = pytest.mark.slow

TUTORIALS = sorted(page.name for page in (DOCS / "tutorials").glob("*.md") if blocks(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", TUTORIALS)
@pytest.mark.usefixtures("unpainted")
def test_tutorials(page, tmp_path):
    run_page(f"tutorials/{page}", tmp_path)


def test_every_tutorial_but_that_of_the_shell_has_python():
    there = {page.name for page in (DOCS / "tutorials").glob("*.md")} - {"index.md"}
    assert there - set(TUTORIALS) == {"deploy_here.md"}


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize("page", ["index.md", "coming_from.md", "large_models.md"])
def test_pages_without_anything_to_bring(page, tmp_path):
    run_page(page, tmp_path)


def test_the_page_on_compression(tmp_path):
    vector = np.linspace(-1, 1, 50, dtype=np.float32)
    names = {"hush": hush, "compressor": hush.uplink.QSGD(4), "vector": vector, "key": hush.keys.root(0)}
    run_page("compression.md", tmp_path, names)


def test_the_page_on_large_populations(tmp_path, monkeypatch):
    """Its Python, what its remarks say, its settings, and its commands on files as they name them."""
    space = run_page("scale.md", tmp_path)
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "scale.md").read_text(encoding="utf-8")
    said = re.findall(r"^([a-z_.:\[\]0-9]+)  # (.+)$", text, re.MULTILINE)
    assert len(said) == 3
    for expression, value in said:
        assert eval(expression, space) == ast.literal_eval(value), expression
    (settings,) = fenced(text, "toml")
    assert build(tomllib.loads(settings)).problem().population.clients == 500
    frame = pd.DataFrame({"age": range(30), "hospital": ["a", "b", "c"] * 10, "outcome": [0, 1] * 15})
    frame.to_parquet("visits.parquet")
    frame.to_parquet("held-out.parquet")
    commands = [shlex.split(line, comments=True) for line in shell("scale.md").splitlines() if line.startswith("hush")]
    assert len(commands) == 3
    for _, *arguments in commands:
        assert CliRunner().invoke(app, arguments).exit_code == 0, arguments


# Of other pages, what needs neither a download nor anything that their words alone describe.
PARTS = {
    "privacy.md": ("import hush", "GridGaussian"),
    "bayesian.md": ("controlled =",),
    "over_the_air.md": ("class LogNormal",),
}


@pytest.mark.parametrize("page", PARTS)
def test_parts_of_pages(page, tmp_path):
    run_page(page, tmp_path, {"hush": hush}, PARTS[page])


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

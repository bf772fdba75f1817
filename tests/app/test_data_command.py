"""`hush data`: files packed and shown from the command line, and what is refused in one line."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import hush
from hush.app.failures import BAD_SETTINGS, NOT_READ
from hush.app.main import app
from hush.data.stores import Store

pytestmark = pytest.mark.usefixtures("unpainted")

DRAWS = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "age": DRAWS.integers(20, 90, 60),
        "dose": DRAWS.normal(size=60),
        "site": np.array(["Basel", "Chur", "Aarau"])[DRAWS.integers(0, 3, 60)],
        "outcome": np.array(["well", "ill"])[DRAWS.integers(0, 2, 60)],
    }
)


def asked(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["data", *map(str, arguments)])


def refused(code: int, sentence: str, *arguments: Any) -> None:
    result = asked(*arguments)
    assert result.exit_code == code, result.output
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    FRAME[:30].to_csv("a.csv", index=False)
    FRAME[30:].to_csv("b.csv", index=False)
    return tmp_path


COLUMNS = ("--target", "outcome", "--client", "site")


def test_packed_and_shown(files: Path) -> None:
    options = ("--features", "dose, age", "--classes", "well,ill", "--test", "a.csv")
    result = asked("pack", "a.csv", "b.csv", "store", *COLUMNS, *options)
    assert result.exit_code == 0, result.output
    for words in ("3: Aarau, Basel, Chur", "60", "float32 [2]", "2: well, ill", "2: dose, age"):
        assert words in result.stdout
    assert "found in the data" not in result.stdout
    problem = hush.tasks.stored("store")
    assert problem.classes == ("well", "ill")
    assert problem.test is not None
    shown = asked("show", "store", "--check")
    assert shown.exit_code == 0
    assert shown.stdout == result.stdout + "all examples are as they were written\n"
    assert Store("store").digest in shown.stdout


def test_quiet_and_force(files: Path) -> None:
    quiet = asked("pack", "a.csv", "store", *COLUMNS, "--quiet")
    assert (quiet.exit_code, quiet.output) == (0, "")
    refused(BAD_SETTINGS, "already holds a store; replace it (--force", "pack", "b.csv", "store", *COLUMNS)
    assert asked("pack", "a.csv", "b.csv", "store", *COLUMNS, "--force").exit_code == 0
    assert Store("store").facts.examples == 60
    assert "names of classes or categories" in asked("show", "store").stdout


def test_what_is_refused(files: Path) -> None:
    refused(BAD_SETTINGS, "no column 'outcom'; did you mean 'outcome'", "pack", "a.csv", "s", "--target", "outcom",
            "--client", "site")  # fmt: skip
    refused(BAD_SETTINGS, "target must name a column of the tables", "pack", "a.csv", "s")
    refused(BAD_SETTINGS, "--shape must be whole numbers", "pack", "a.csv", "s", *COLUMNS, "--shape", "28x28")
    refused(BAD_SETTINGS, "found 'nowhere'", "pack", "nowhere", "s", *COLUMNS)
    refused(BAD_SETTINGS, "must be a store, as hush data pack writes it", "show", files)
    assert not Path("s").exists()
    asked("pack", "a.csv", "store", *COLUMNS)
    os.truncate("store/examples-00000.arrow", 10)
    refused(NOT_READ, "store/examples-00000.arrow must have", "show", "store")


def test_help_teaches() -> None:
    for command, words in (("pack", "hush data pack visits.parquet visits-store"), ("show", "hush data show")):
        result = asked(command, "--help")
        assert result.exit_code == 0
        assert words in result.stdout

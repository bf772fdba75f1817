"""The page on one's own data: all of its code is run, and what its remarks say comes out."""

import ast
import re
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from hush.settings import build

PAGE = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
# What stands in blocks that can be left out: extras, and what the environment of the tests has no room for.
OPTIONAL = ("torch", "flwr_datasets", "datasets")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def lacking(code: str) -> bool:
    needed = {name for name in OPTIONAL if re.search(rf"^(import|from) {name}\b", code, re.MULTILINE)}
    return any(find_spec(name) is None for name in needed)


def check_remarks(code: str, names: dict[str, Any]) -> int:
    """Lines such as `problem.classes  # ('ill', 'well')` mean what they say."""
    said = re.findall(r"^([a-z_.]+)  # (\(.*\))$", code, re.MULTILINE)
    for expression, value in said:
        assert eval(expression, names) == ast.literal_eval(value), expression
    return len(said)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:flwr_datasets")
def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    found = blocks("python")
    assert len(found) == 7
    checked = 0
    for code in found:
        if not lacking(code):
            exec(code, names)
            checked += check_remarks(code, names)
    assert checked >= 3
    for text in blocks("toml"):
        assert build(tomllib.loads(text)).problem().features == ("age", "ward=emergency", "ward=surgery")

"""The page on how hush is built says what the code says."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import architecture  # noqa: E402


def test_the_page_has_every_package_as_it_is():
    assert architecture.table(architecture.imports()) in architecture.PAGE.read_text(encoding="utf-8"), (
        "docs/architecture.md is not of this code: run `make architecture`"
    )


def test_every_package_says_what_it_holds():
    assert all(said.endswith(".") for said in architecture.packages().values())


def test_arrows_that_others_imply_are_left_out():
    graph = {"a": {"b", "c"}, "b": {"c"}, "c": set()}
    assert architecture.needed(graph) == {"a": {"b"}, "b": {"c"}, "c": set()}
    assert architecture.heights(graph) == {"a": 2, "b": 1, "c": 0}


def test_the_five_files_to_read_first_are_there():
    listed = [line for line in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines() if line[:2] in FIVE]
    assert len(listed) == 5
    for line in listed:
        assert (ROOT / line.split("`")[1]).is_file()


FIVE = ("1.", "2.", "3.", "4.", "5.")

"""A page of the documentation, run: its blocks of Python in order, in one namespace, in a folder of its own."""

import contextlib
import io
import os
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT / "tools"))
from notebooks import blocks, fenced  # noqa: E402


def run_page(page, folder, names=None, holding=("",)):
    """Run a page, or of its blocks those that hold one of some texts; `names` are there from the start."""
    every = blocks((DOCS / page).read_text(encoding="utf-8"))
    found = [block for block in every if any(text in block for text in holding)]
    assert found, f"{page} has no such Python"
    space = {"__name__": "page", **(names or {})}
    before = Path.cwd()
    os.chdir(folder)
    try:
        for number, code in enumerate(found):
            with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
                exec(compile(code, f"{page}, block {number + 1}", "exec"), space)
    finally:
        os.chdir(before)
    return space


def shell(page):
    """The shell of a page as one script, which ends where a command fails."""
    return "set -e\n" + "\n".join(fenced((DOCS / page).read_text(encoding="utf-8"), "bash"))

"""A page as a notebook: its text in Markdown cells, its Python in code cells. And the Python of a page by itself."""

import re
from typing import Any

FENCE = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```[ \t]*$", flags=re.M | re.S)


def blocks(text: str) -> list[str]:
    """The blocks of a page that begin with ```python, in order; those in tabs are indented and count as well.

    >>> blocks("Say:\\n\\n```python\\nx = 1\\n```\\n\\n```bash\\nls\\n```\\n")
    ['x = 1\\n']
    """
    return fenced(text, "python")


def fenced(text: str, language: str) -> list[str]:
    """The blocks of a page in one language."""
    return [_flush(found[1], found[3]) for found in FENCE.finditer(text) if found[2].strip() == language]


def _flush(indent: str, code: str) -> str:
    return "".join(line.removeprefix(indent) for line in code.splitlines(keepends=True))


def notebook(text: str) -> dict[str, Any]:
    """A page in Jupyter's format, version 4.5."""
    cells: list[dict[str, Any]] = []
    end = 0
    for found in FENCE.finditer(text):
        if found[2].strip() != "python":
            continue
        cells += [_cell("markdown", text[end : found.start()]), _cell("code", _flush(found[1], found[3]))]
        end = found.end()
    cells.append(_cell("markdown", text[end:]))
    kept = [{**cell, "id": f"cell-{index}"} for index, cell in enumerate(cells) if cell["source"]]
    return {"cells": kept, "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 5}


_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def _cell(kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": text.strip("\n").splitlines(keepends=True)}
    return cell if kind == "markdown" else {**cell, "execution_count": None, "outputs": []}

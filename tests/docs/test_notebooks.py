"""Pages as notebooks: nothing of a page is lost, and Jupyter can read it."""

import sys

import pytest
from run_page import DOCS, ROOT, blocks

sys.path.insert(0, str(ROOT / "tools"))
import notebooks

PAGES = sorted((DOCS / "tutorials").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_notebook_has_the_page(page):
    text = page.read_text(encoding="utf-8")
    made = notebooks.notebook(text)
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    code = ["".join(cell["source"]) for cell in made["cells"] if cell["cell_type"] == "code"]
    assert code == [block.strip("\n") for block in blocks(text)]
    words = " ".join("".join(cell["source"]) for cell in made["cells"] if cell["cell_type"] == "markdown").split()
    assert words == notebooks_text(text).split()
    assert len({cell["id"] for cell in made["cells"]}) == len(made["cells"])


def notebooks_text(text):
    """A page without its Python, line by line."""
    kept, inside = [], False
    for line in text.splitlines():
        if line.strip() == "```python":
            inside = True
        elif inside:
            inside = line.strip() != "```"
        else:
            kept.append(line)
    return "\n".join(kept)


def test_blocks_in_tabs_lose_their_indentation():
    assert blocks('=== "one"\n\n    ```python\n    if True:\n        x = 1\n    ```\n') == ["if True:\n    x = 1\n"]


def test_only_python_is_taken():
    assert blocks("```python title='other'\nx\n```\n\n```toml\ny = 1\n```\n") == []

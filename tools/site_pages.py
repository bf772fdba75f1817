"""Hooks of MkDocs: pages that are made when the site is, and links that leave the folder of the documentation.

Made are the reference (`tools/reference.py`), the changelog and the page for contributors, a notebook of every
tutorial, and copies of the examples, so that the site is whole by itself.
"""

import json
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import notebooks  # noqa: E402
import reference  # noqa: E402

# Where the site has what lies beside the folder of the documentation.
ELSEWHERE = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add all that is made."""
    made: dict[str, str | bytes] = dict(reference.pages())
    made["changelog.md"] = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    made["contributing.md"] = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for page in tutorials():
        cells = notebooks.notebook(page.read_text(encoding="utf-8"))
        made[f"notebooks/{page.stem}.ipynb"] = json.dumps(cells, indent=1) + "\n"
    for example in sorted((ROOT / "examples").rglob("*")):
        if example.is_file() and "__pycache__" not in example.parts:
            made[example.relative_to(ROOT).as_posix()] = example.read_bytes()
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    return files


def tutorials() -> list[Path]:
    """The pages that are notebooks too: those with Python."""
    pages = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
    return [page for page in pages if notebooks.blocks(page.read_text(encoding="utf-8"))]


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links out of the folder lead to their copies in the site; a tutorial offers its notebook."""
    source = page.file.src_uri
    outside = source in ("changelog.md", "contributing.md")  # whose links count from the root of the repository
    markdown = LINK.sub(lambda found: f"]({_inside(found[1], source, outside)}{found[2] or ''})", markdown)
    name = Path(source)
    if (ROOT / "docs" / source) in tutorials():
        offer = f'[:material-notebook-outline: As a notebook](../notebooks/{name.stem}.ipynb "Download"){{ .notebook }}'
        title, _, rest = markdown.partition("\n")
        return f"{title}\n\n{offer}\n{rest}"
    return markdown


def _inside(target: str, source: str, outside: bool) -> str:
    """A link as the site needs it, relative to the page that has it."""
    here = posixpath.dirname(source)
    found = posixpath.normpath(posixpath.join("" if outside else posixpath.join("docs", here), target))
    if found.startswith("docs/"):
        return posixpath.relpath(found.removeprefix("docs/"), here or ".") if outside else target
    return posixpath.relpath(ELSEWHERE.get(found, found), here or ".")

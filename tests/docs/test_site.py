"""The site is built without a warning, and needs nothing from elsewhere: it works from a folder, off line."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from run_page import ROOT

pytest.importorskip("mkdocs", reason="the extra docs is not installed: make docs brings it")
pytestmark = pytest.mark.slow

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "use": "href"}
# What the theme loads only where a page asks for it, which none here does: diagrams, and facts about a repository.
ON_DEMAND = ("unpkg.com/mermaid", "unpkg.com/resize-observer-polyfill", "api.github.com", "/api/v4/projects")


class Links(HTMLParser):
    """What a page loads, what it links to, and the places in it that can be linked to."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.links, self.places = [], [], {""}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.places |= {named[name] for name in ("id", "name") if named.get(name)}
        if tag in LOADED and named.get(LOADED[tag]) and named.get("rel") not in ("prev", "next", "canonical"):
            self.loads.append(named[LOADED[tag]])
        if tag == "a" and named.get("href"):
            self.links.append(named["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path: Links(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def test_pages_load_nothing_from_elsewhere(pages):
    outside = {(page.name, load) for page, found in pages.items() for load in found.loads if urlsplit(load).netloc}
    assert not outside


def test_styles_and_scripts_load_nothing_from_elsewhere(site):
    for path in [*site.rglob("*.css"), *site.rglob("*.js")]:
        text = path.read_text(encoding="utf-8")
        fetched = re.findall(r"""(?:url\(|@import )["']?(?:https?:)?//[^)"']+""", text) if path.suffix == ".css" else []
        if path.parent.name == "javascripts":
            named = re.findall(r"https?://[^\s\"'`)]+", text)
            fetched += [url for url in named if not any(each in url for each in (*ON_DEMAND, *SAID_ONLY))]
        assert not fetched, path


SAID_ONLY = ("clipboardjs.com", "www.w3.org")  # a licence, and names of XML


def test_every_link_leads_somewhere(pages, site):
    lost = []
    for page, found in pages.items():
        if page.name == "404.html":
            continue
        for link in found.links + found.loads:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = page if not parts.path else Path(os.path.normpath(page.parent / unquote(parts.path)))
            inside = target.suffix != ".html" or unquote(parts.fragment) in pages[target].places | {"__tabbed"}
            if not target.is_file() or not inside:
                lost.append((page.name, link))
    assert not lost


def test_search_knows_the_reference_and_works_without_a_server(site):
    written = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert "hush.uplink.QSGD" in written
    assert (site / "assets" / "iframe-worker.js").is_file()


def test_tutorials_are_there_as_notebooks(site):
    names = {path.stem for path in (ROOT / "docs" / "tutorials").glob("*.md")} - {"index", "deploy_here"}
    assert {path.stem for path in (site / "notebooks").glob("*.ipynb")} == names

"""The few parts of HTML that our pages are made of. Whatever is not markup of our own goes through `text`."""

import base64
import html
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from hush.report import assets
from hush.report.style import svg
from hush.store import atomically

STYLE = """
:root { color-scheme: light dark; --page: #f5f6f8; --card: #fffffe; --ink: #1b2431; --soft: #5a6675; --line: #e2e6eb;
  --accent: #0072b2; --good: #0b7a55; --fair: #9a5b00; --bad: #b3261e; --good-back: #e3f4ec; --fair-back: #fdf1dc;
  --bad-back: #fce8e6; --note-back: #e3eff8; }
@media (prefers-color-scheme: dark) { :root { --page: #12161c; --card: #1b2129; --ink: #e8ecf1; --soft: #a3afbd;
  --line: #323b47; --accent: #6cb8ea; --good: #6fd3a8; --fair: #f0bd6a; --bad: #ff9a90; --good-back: #16332a;
  --fair-back: #3a2d14; --bad-back: #431f1c; --note-back: #152c3e; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); line-height: 1.5;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 28px 24px 64px; }
header p { margin: 0; color: var(--soft); }
h1 { font-size: 28px; line-height: 1.2; letter-spacing: -0.01em; margin: 2px 0 16px; overflow-wrap: anywhere; }
h2 { font-size: 19px; margin: 40px 0 12px; }
h2 small { font-weight: 400; font-size: 14px; color: var(--soft); margin-left: 8px; }
.banner { border-radius: 10px; padding: 11px 16px; margin: 0 0 20px; border-left: 5px solid; overflow-wrap: anywhere; }
.banner.good { background: var(--good-back); border-color: var(--good); }
.banner.fair { background: var(--fair-back); border-color: var(--fair); }
.banner.bad { background: var(--bad-back); border-color: var(--bad); }
.banner.note { background: var(--note-back); border-color: var(--accent); }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(144px, 1fr)); gap: 12px; margin: 0; }
.facts div, .card, figure { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.facts div { padding: 12px 16px; }
.facts dt { color: var(--soft); font-size: 13px; }
.facts dd { margin: 0; font-size: 20px; font-weight: 600; letter-spacing: -0.01em; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 10px; background: var(--card); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 8px 16px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { white-space: normal; vertical-align: bottom; font-weight: 600; font-size: 13px; color: var(--soft); }
tr:last-child td { border-bottom: 0; }
td.name, th.name { text-align: left; }
#privacy td + td { white-space: normal; }
.grid, .slots { display: grid; gap: 14px; align-items: start; }
.grid { grid-template-columns: repeat(auto-fill, minmax(min(330px, 100%), 1fr)); }
@media (min-width: 900px) { .grid.two { grid-template-columns: 1fr 1fr; } }
figure { margin: 0; padding: 12px 12px 10px; min-width: 0; }
figure.wide { max-width: 860px; }
figure svg { display: block; width: 100%; height: auto; }
figure svg * { stroke-linejoin: round; stroke-linecap: butt; }
figure svg text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif !important; }
figcaption { color: var(--soft); font-size: 13px; padding: 6px 4px 0; }
.slots { grid-template-columns: repeat(auto-fill, minmax(min(250px, 100%), 1fr)); }
.card { padding: 12px 16px; overflow-wrap: anywhere; }
.card h3 { margin: 0 0 6px; font-size: 14px; color: var(--accent); }
.card dl { display: grid; grid-template-columns: auto minmax(45%, 1fr); gap: 2px 12px; margin: 0; font-size: 13px; }
.card dt { color: var(--soft); }
.card dd { margin: 0; text-align: right; font-variant-numeric: tabular-nums; }
details { margin-top: 12px; }
summary { cursor: pointer; color: var(--accent); }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 12px 16px; overflow-x: auto;
  font: 13px/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; }
@media print { .grid { grid-template-columns: repeat(2, 1fr); } figure, .card { break-inside: avoid; } }
"""


def text(value: Any) -> str:
    """Anything as text that a browser shows and never obeys."""
    return html.escape(str(value), quote=True)


def document(title: str, kicker: str, body: Iterable[str], scripts: Sequence[str] = ()) -> str:
    """A page that needs nothing but itself; only these `scripts` run on it."""
    # The policy makes it so: even if something slipped in, the browser would neither run nor fetch it.
    style = STYLE + assets.style() if scripts else STYLE
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{assets.policy(scripts)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n"
        f"<header><p>{text(kicker)}</p><h1>{text(title)}</h1></header>\n"
        + "\n".join(body)
        + "\n</main>\n"
        + "".join(f"<script>{script}</script>\n" for script in scripts)
        + "</body>\n</html>\n"
    )


def banner(kind: str, strong: str, rest: str = "") -> str:
    """One thing to know before all else; `kind` is good, fair, bad or note."""
    return f'<p class="banner {kind}" role="status"><strong>{text(strong)}</strong> {text(rest)}</p>'


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """A few numbers, large."""
    return '<dl class="facts">' + "".join(f"<div>{_pair(*pair)}</div>" for pair in pairs) + "</dl>"


class Cell(NamedTuple):
    """A cell that says a number: what is shown, and what it is sorted by and downloaded as."""

    said: str
    value: float
    deviation: float | None = None


class Different(NamedTuple):
    """A cell that is marked as not the same as its neighbours."""

    said: str


class Head(NamedTuple):
    """A heading, and the name of its column in a file."""

    said: str
    name: str


def table(
    name: str, heads: Sequence[str | Head], rows: Iterable[Sequence[str | Cell | Different]], names: int = 1
) -> str:
    """A table; the first `names` columns say what a row is about."""

    def row(tag: str, cells: Sequence[str | Cell | Different | Head]) -> str:
        assert len(cells) == len(heads), f"a row of {len(cells)} cells under {len(heads)} headings"
        return f"<tr>{''.join(_cell(tag, cell, place < names) for place, cell in enumerate(cells))}</tr>"

    body = "\n".join(row("td", cells) for cells in rows)
    inner = f"<thead>{row('th', heads)}</thead>\n<tbody>{body}</tbody>"
    return f'<div class="scroll"><table id="{text(name)}">{inner}</table></div>'


def _cell(tag: str, cell: str | Cell | Different | Head, is_name: bool) -> str:
    kinds = " ".join(["name"] * is_name + ["differs"] * isinstance(cell, Different))
    mark = f' class="{kinds}"' if kinds else ""
    return f"<{tag}{mark}{_facts_of(cell)}>{text(cell if isinstance(cell, str) else cell.said)}</{tag}>"


def _facts_of(cell: str | Cell | Different | Head) -> str:
    """What scripts read of a cell or a heading."""
    if isinstance(cell, str | Different):
        return ""
    if isinstance(cell, Head):
        return f' data-name="{text(cell.name)}"'
    said = f' data-value="{float(cell.value)!r}"'
    if cell.deviation is None or not math.isfinite(cell.deviation):
        return said
    return f'{said} data-deviation="{float(cell.deviation)!r}"'


def figure(name: str, drawn: Figure, alternative: str, caption: str, kind: str = "") -> str:
    """A figure inside the page, described for those who do not see it."""
    mark = f' class="{kind}"' if kind else ""
    picture = svg(drawn, name).replace("<svg", f'<svg role="img" aria-label="{text(alternative)}"', 1)
    return f'<figure id="{text(name)}"{mark}>{picture}<figcaption>{text(caption)}</figcaption></figure>'


def image(name: str, path: Path, caption: str) -> str:
    """A picture file inside the page."""
    content = base64.b64encode(path.read_bytes()).decode()
    shown = f'<img alt="{text(caption)}" src="data:image/png;base64,{content}">'
    return f'<figure id="{text(name)}" class="wide">{shown}<figcaption>{text(caption)}</figcaption></figure>'


def sentences(said: Iterable[str]) -> str:
    """Each on a line of its own."""
    return f"<ul>{''.join(f'<li>{text(each)}</li>' for each in said)}</ul>"


def card(title: str, pairs: Iterable[tuple[str, str]]) -> str:
    """A few settings under a heading."""
    return f'<div class="card"><h3>{text(title)}</h3><dl>' + "".join(_pair(*pair) for pair in pairs) + "</dl></div>"


def _pair(name: str, value: str) -> str:
    return f"<dt>{text(name)}</dt><dd>{text(value)}</dd>"


def write(path: Path, content: str) -> Path:
    """The page as a file: there whole, or as it was before."""
    atomically(path, lambda file: file.write(content.encode()))
    return path

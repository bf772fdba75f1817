"""What a reproduced paper is made of, and how it is written down: sections with tables, figures and claims.

A claim is a sentence of the paper with a verdict that was computed, never typed in.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import Protocol

import pandas as pd
from matplotlib.figure import Figure

from hush.report.style import write_png
from hush.store import atomically

HOLDS, FAILS, UNTOLD = "holds", "does not hold", "cannot be told"


@dataclass(frozen=True)
class Claim:
    """What the paper says, whether it is so here, and the numbers that decide it."""

    text: str
    verdict: str
    evidence: str


def judged(text: str, holds: bool, evidence: str) -> Claim:
    """A claim that either holds or does not."""
    return Claim(text, HOLDS if holds else FAILS, evidence)


def only_when(text: str, where: Sequence[bool], places: Sequence[str], evidence: str) -> Claim:
    """A claim that may hold in some places only, which are then named."""
    true_in = [place for place, holds in zip(places, where, strict=True) if holds]
    if len(true_in) in (0, len(places)):
        return judged(text, bool(true_in), evidence)
    return Claim(text, f"in {len(true_in)} of {len(places)}: {'; '.join(true_in)}", evidence)


def place_by_place(text: str, verdicts: Mapping[str, str], evidence: str) -> Claim:
    """A claim with a verdict in every place: one for all, or each with where it is so.

    >>> place_by_place("x", {"a": HOLDS, "b": UNTOLD, "c": HOLDS}, "").verdict
    'holds: a; c. cannot be told: b'
    """
    kinds = {kind: [place for place, found in verdicts.items() if found == kind] for kind in (HOLDS, FAILS, UNTOLD)}
    said = {kind: places for kind, places in kinds.items() if places}
    if len(said) < 2:
        return Claim(text, next(iter(said), UNTOLD), evidence)
    return Claim(text, ". ".join(f"{kind}: {'; '.join(places)}" for kind, places in said.items()), evidence)


def together(verdicts: Iterable[str]) -> str:
    """Of a claim that has several parts: one that fails fails it, one that cannot be told leaves it open."""
    found = set(verdicts)
    return FAILS if FAILS in found else UNTOLD if UNTOLD in found else HOLDS


def within(low: float, high: float, least: float, most: float) -> str:
    """Whether what lies in an interval, low to high, lies from least to most.

    >>> [within(*ends, -1.0, 1.0) for ends in ((-0.5, 0.5), (1.5, 2.5), (0.5, 1.5))]
    ['holds', 'does not hold', 'cannot be told']
    """
    if least <= low and high <= most:
        return HOLDS
    return FAILS if high < least or low > most else UNTOLD


@dataclass(frozen=True)
class Picture:
    """A figure, and what it shows."""

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Section:
    """One experiment: what was done, what came out, and what follows for the paper's claims."""

    title: str
    text: str
    tables: Sequence[tuple[str, pd.DataFrame]] = ()
    pictures: Sequence[Picture] = ()
    claims: Sequence[Claim] = field(default_factory=tuple)


class Lab(Protocol):
    """Where the runs of a paper are made, each once however often it is asked for."""

    @property
    def words(self) -> str:
        """What the numbers were made with."""


@dataclass(frozen=True)
class Paper:
    """A paper by its experiments, numbered as `hush paper NAME --figure N` asks for them."""

    title: str
    about: str
    experiments: dict[str, Callable[..., Section]]
    lab: Callable[..., Lab]  # (quick, runs) -> where its runs are made
    not_quick: tuple[str, ...] = ()  # left out of a quick look at the whole


def claims_table(sections: Sequence[Section]) -> pd.DataFrame:
    """All verdicts together."""
    rows = [(claim.text, claim.verdict, claim.evidence) for section in sections for claim in section.claims]
    return pd.DataFrame(rows, columns=["claim", "verdict", "evidence"])


def cells(table: pd.DataFrame) -> list[list[str]]:
    """Every cell as text, numbers with four digits; a dash where there is no number."""
    return [[_cell(value) for value in row] for row in table.itertuples(index=False)]


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return "–" if isnan(value) else f"{value:.4g}".replace("inf", "∞")


def markdown_table(table: pd.DataFrame) -> str:
    """A table as Markdown."""
    heads = [str(name) for name in table.columns]
    lines = [heads, ["---"] * len(heads), *cells(table)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def write(paper: Paper, name: str, sections: Sequence[Section], out: Path, command: str, settings: str) -> Path:
    """The page `out/name.md`, with its figures in `out/name/`."""
    pictures = out / name
    pictures.mkdir(parents=True, exist_ok=True)
    parts = [f"# {paper.title}", paper.about, f"Made by `{command}`. {settings}", "## Claims and verdicts"]
    parts.append(markdown_table(claims_table(sections)))
    for section in sections:
        parts += [f"## {section.title}", section.text]
        for caption, table in section.tables:
            parts += [caption, markdown_table(table)] if caption else [markdown_table(table)]
        for picture in section.pictures:
            write_png(picture.figure, pictures / f"{picture.name}.png")
            parts.append(f"![{picture.caption}]({name}/{picture.name}.png)\n\n*{picture.caption}*")
    page = out / f"{name}.md"
    content = "\n\n".join(part for part in parts if part) + "\n"
    atomically(page, lambda file: file.write(content.encode()))
    return page

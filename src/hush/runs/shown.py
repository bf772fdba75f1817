"""A result as a notebook shows it: a summary that is complete in itself, in the colours of the page around it."""

import html
import zlib
from typing import Any

import pandas as pd

from hush.core.columns import SUMMARIES, TOTALS, column
from hush.extras import missing
from hush.privacy.shown import in_one_line
from hush.report import formatting
from hush.store.records import measures, points, repetitions, summary, swept

AGAINST = "uplink_bits"
SMALL = (4.6, 2.9)
MOST_POINTS = 20
# The page around it may be dark: what is drawn takes its colours from Jupyter's and VS Code's own, where these are.
COLOURS = {
    "--ink": "var(--jp-content-font-color1, var(--vscode-editor-foreground, #1b2431))",
    "--soft": "var(--jp-content-font-color2, var(--vscode-descriptionForeground, #5a6675))",
    "--line": "var(--jp-border-color2, var(--vscode-panel-border, #e2e6eb))",
    "--card": "var(--jp-layout-color0, var(--vscode-editor-background, #fffffe))",
}
CELL = "color: var(--ink); padding: 3px 10px; text-align: right; white-space: nowrap"


def as_html(records: pd.DataFrame, status: dict[str, Any], settings: dict[str, Any]) -> str:
    """How a run stands: its settings in a line, a row for each point of its sweep, its ε, and a curve."""
    colours = "; ".join(f"{name}: {value}" for name, value in COLOURS.items())
    parts = [
        f"<p><strong>{_text(_stands(status))}</strong> {_text(status.get('message') or '')}</p>",
        f'<p style="color: var(--soft)">{_text(_in_a_line(settings))}</p>',
        _table(records) if len(records) else "<p>There are no evaluations yet.</p>",
        f"<p>{_text(_private(status.get('privacy', {})))}</p>",
        _curve(records) if len(records) else "",
    ]
    return f'<div style="{colours}; color: var(--ink)">{"".join(parts)}</div>'


def _text(value: Any) -> str:
    return html.escape(str(value), quote=True)


def _stands(status: dict[str, Any]) -> str:
    return f"{status.get('status')} at round {status.get('round')} of {status.get('rounds')}."


def _in_a_line(settings: dict[str, Any]) -> str:
    """The pieces of each slot, the task and the seed."""
    phases = settings.get("phases", [settings])
    slots = [
        _pieces(phase.get(slot)) for phase in phases for slot in ("cohort", "local", "uplink", "channel", "server")
    ]
    task, run = settings.get("task", {}), settings.get("run", {})
    said = [" → ".join(filter(None, slots)), str(task.get("name", "")), f"seed {run.get('seed')}"]
    return " · ".join(filter(None, said))


def _pieces(slot: Any) -> str:
    parts = slot if isinstance(slot, list) else [slot]
    return ", ".join(str(part["piece"]) for part in parts if isinstance(part, dict) and "piece" in part)


def _table(records: pd.DataFrame) -> str:
    names = [*measures(records), *(name for name in TOTALS if column(name).shown_in <= SUMMARIES and name in records)]
    heads = [*swept(records), "rounds", *(column(name).label for name in names)]
    found = points(records)
    rows = [
        [
            *(f"{value:g}" for value in point.settings.values()),
            formatting.count(point.frame["round"].max()),
            *(formatting.with_spread(name, *summary(point.frame, name)) for name in names),
        ]
        for point in found[:MOST_POINTS]
    ]
    count = repetitions(records)
    note = f"mean ± standard deviation over {count} repetitions" if count > 1 else "one repetition"
    note += f"; {MOST_POINTS} of {len(found)} points" if len(found) > MOST_POINTS else ""
    body = "".join(_row("td", row) for row in rows)
    table = f"<table><thead>{_row('th', heads)}</thead><tbody>{body}</tbody></table>"
    return f'<div style="overflow-x: auto">{table}</div><p style="color: var(--soft)">{_text(note)}</p>'


def _row(tag: str, cells: list[str]) -> str:
    inner = (f'<{tag} style="{CELL}">{_text(cell)}</{tag}>' for cell in cells)
    return f"<tr>{''.join(inner)}</tr>"


def _private(privacy: dict[str, Any]) -> str:
    said = in_one_line(privacy)
    return f"{said}: {privacy['reason']}" if privacy.get("reason") else said


def _curve(records: pd.DataFrame) -> str:
    """The most telling measure against bits, where pictures can be drawn."""
    names = measures(records)
    if missing("matplotlib") or not names or AGAINST not in records.columns:
        return ""
    from hush.report.plots import chart, lines
    from hush.report.style import svg

    # Two results on one page must not share the names of their parts; the same result has the same again.
    name = f"hush-{zlib.crc32(records.to_csv().encode()):08x}"
    said = f"{column(names[0]).label} against {formatting.cost(AGAINST)}"
    drawn = svg(chart(lines(records), names[0], AGAINST, SMALL), name)
    drawn = drawn.replace("<svg", f'<svg role="img" aria-label="{_text(said)}" style="max-width: 30em"', 1)
    return f"<div>{drawn}</div>"

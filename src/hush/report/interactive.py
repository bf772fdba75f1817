"""One chart in which every column of the records can be drawn against any other: its data, and its place on a page."""

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import pandas as pd
from matplotlib.colors import to_hex

from hush.core.columns import column, in_order
from hush.report import formatting
from hush.report.assets import data_block
from hush.report.style import PALETTE
from hush.store.records import information, measures

MOST_ROWS = 20_000  # of all curves together: more would make a page of many megabytes
SHADES = 64
# Okabe and Ito's colours again: on a dark page, the two that are bright for the two that are not.
DARK = ("#56b4e9", "#d55e00", "#009e73", "#cc79a7", "#f0e442", "#e69f00", "#999999")
IDENTITY = ("repetition", "round")

# Filled by the scripts, and not to be seen without them.
PLACE = """\
<section id="chart-section" hidden aria-label="Chart">
<figure id="chart">
<div class="controls">
<span class="pair"><label>up <select id="chart-y"></select></label>
<label><input type="checkbox" id="chart-ylog"> log</label></span>
<span class="pair"><label>across <select id="chart-x"></select></label>
<label><input type="checkbox" id="chart-xlog"> log</label></span>
<label>band <select id="chart-band"></select></label>
<label>colour by <select id="chart-colour"></select></label>
<span class="end">
<button type="button" id="chart-box" aria-pressed="false" title="drag to draw a box, and zoom to it">Box</button>
<button type="button" id="chart-pan" aria-pressed="false" title="drag to move what is shown">Pan</button>
<button type="button" id="chart-in" aria-label="zoom in">+</button>
<button type="button" id="chart-out" aria-label="zoom out">−</button>
<button type="button" id="chart-reset" disabled>Reset zoom</button>
</span></div>
<div id="chart-place" role="img"></div>
<ul id="chart-legend" aria-label="Curves on and off"></ul>
<p id="chart-note" role="status"></p>
<div class="controls under">
<button type="button" class="plain" id="chart-all">all curves</button>
<button type="button" class="plain" id="chart-none">no curves</button>
<button type="button" class="plain" id="chart-csv" aria-label="download what is drawn as CSV">CSV</button>
<button type="button" class="plain" id="chart-svg" aria-label="download the chart as SVG">SVG</button>
<button type="button" class="plain" id="chart-png" aria-label="download the chart as PNG">PNG</button>
</div>
<p class="hint">Drag over the chart to zoom into a box, or turn the wheel with Ctrl held. The address of this page keeps
what you chose.</p>
</figure>
</section>"""


class Curve(NamedTuple):
    """A curve of the chart: the rows of one point of one run, and what it may be coloured or set against by."""

    label: str
    frame: pd.DataFrame
    run: str = ""
    algorithm: str = ""
    settings: dict[str, float] = {}  # noqa: RUF012  read only


class First(NamedTuple):
    """What the chart shows before anything is chosen."""

    x: str
    y: str
    xlog: bool = False
    ylog: bool = False


def chart_section(title: str, curves: Sequence[Curve], first: First, pictures: Sequence[str]) -> list[str]:
    """The chart, and the pictures that stand in its place where scripts do not run."""
    still = "\n".join(pictures)
    return [PLACE, data_block("data", chart_data(title, curves, first)), f'<div id="pictures">{still}</div>']


def chart_data(title: str, curves: Sequence[Curve], first: First) -> dict[str, Any]:
    """All that the scripts know."""
    names = _drawable(curves)
    step = max(1, math.ceil(sum(len(curve.frame) for curve in curves) / MOST_ROWS))
    runs, algorithms = ({getattr(curve, kind) for curve in curves} for kind in ("run", "algorithm"))
    grouped = {len(runs): "run", len(algorithms): "algorithm"}  # where both are as many, they are the same groups
    colour_by = [kind for count, kind in grouped.items() if 1 < count < len(curves)]
    return {
        "file": re.sub(r"[^\w.-]+", "_", title)[:60] or "hush",
        "columns": {name: _described(name, curves) for name in names},
        "settings": _varied(curves),
        "algorithms": len(algorithms),
        "colourBy": ["curve", *colour_by],
        "repeated": any(curve.frame["repetition"].nunique() > 1 for curve in curves),
        "palettes": {
            "light": {"few": PALETTE, "many": _shades(0.1, 0.85)},
            "dark": {"few": DARK, "many": _shades(0.35, 1.0)},
        },
        "first": first._asdict(),
        "thinned": step,
        "curves": [_plain(curve, [*IDENTITY, *(name for name in names if name != "round")], step) for curve in curves],
    }


def _drawable(curves: Sequence[Curve]) -> list[str]:
    """The columns of numbers that all curves have, those of hush in their order and then the others."""
    numeric = [set(map(str, curve.frame.select_dtypes(["number", "bool"]).columns)) for curve in curves]
    common = set.intersection(*numeric)
    return [name for name in in_order(map(str, curves[0].frame.columns)) if name in common and _is_column(name)]


def _is_column(name: str) -> bool:
    return name != "repetition" and "." not in name  # the names of swept settings are paths


def _described(name: str, curves: Sequence[Curve]) -> dict[str, Any]:
    known = column(name)
    # A column of one's own is what its place among the others says.
    own = information(curves[0].frame)
    role = "information" if name in own and name not in measures(curves[0].frame) else known.role
    units = [[least, unit.size, unit.name] for least, unit in formatting.units(name)]
    described = {"label": known.label, "meaning": known.meaning, "role": role, "unit": known.unit, "units": units}
    return described | {"aggregate": known.aggregate}


def _varied(curves: Sequence[Curve]) -> list[str]:
    """The settings that have more than one value, and so can be an axis."""
    names = dict.fromkeys(name for curve in curves for name in curve.settings)
    return [name for name in names if len({curve.settings.get(name) for curve in curves} - {None}) > 1]


def _shades(begin: float, end: float) -> list[str]:
    """A part of a scale for long sweeps: its dark end is lost on a dark page, its light end on a light one."""
    scale = mpl.colormaps["viridis"]
    return [to_hex(scale(begin + (end - begin) * number / (SHADES - 1))) for number in range(SHADES)]


def _plain(curve: Curve, names: Sequence[str], step: int) -> dict[str, Any]:
    frame = thinned(curve.frame, step)
    rows = {name: [_number(name, value) for value in frame[name].tolist()] for name in names}
    settings = {name: value for name, value in curve.settings.items() if math.isfinite(value)}
    return {"label": curve.label, "run": curve.run, "algorithm": curve.algorithm, "settings": settings, "rows": rows}


def thinned(frame: pd.DataFrame, step: int) -> pd.DataFrame:
    """One evaluation in `step`, the first and the last ones among them: the same for all repetitions."""
    rounds = sorted(frame["round"].unique())
    kept = {*rounds[::step], *frame.groupby("repetition")["round"].max()}
    return frame[frame["round"].isin(kept)] if step > 1 else frame


def _number(name: str, value: float) -> float | int | None:
    """Eight digits, which is more than is ever drawn; ε as it is, for it may not become less."""
    if isinstance(value, bool | int):
        return int(value)
    if not math.isfinite(value):
        return None
    return value if column(name).unit == "ε" else float(f"{value:.8g}")

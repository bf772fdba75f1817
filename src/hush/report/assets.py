"""What a page carries for the browser: the charting library, our own scripts, and the rules for what may run."""

import base64
import functools
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

LIBRARY = "vendor/echarts.min.js"
OWN = ("numbers", "curves", "view", "chart", "explore", "downloads", "tables", "start")


@functools.cache
def _read(name: str) -> str:
    return files("hush.report").joinpath(name).read_text(encoding="utf-8")


def style() -> str:
    """The looks of the chart and of what is clicked."""
    return _read("browser/chart.css")


def scripts() -> tuple[str, ...]:
    """The library and our own scripts, each once."""
    own = "\n".join(_read(f"browser/{name}.js") for name in OWN)
    return _read(LIBRARY), f'(() => {{\n"use strict";\n{own}}})();\n'


def policy(programs: Sequence[str]) -> str:
    """What the browser may do with a page: run these very scripts and no others, and fetch nothing from anywhere."""
    digests = (base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in programs)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    said = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    return f"{said}; script-src {allowed}" if allowed else said


def data_block(name: str, content: Any) -> str:
    """Data for the scripts, as JSON in which no tag can begin or end."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return f'<script type="application/json" id="{name}">{text}</script>'

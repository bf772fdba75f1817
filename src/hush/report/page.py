"""The report of one run: a page that opens anywhere, and the figures as files."""

import tomllib
import warnings
from pathlib import Path
from typing import Any

import pandas as pd

from hush.core.columns import EVERYWHERE, TOTALS, column
from hush.report import formatting, markup
from hush.report.assets import scripts
from hush.report.audit_section import audit_section
from hush.report.classes import Counts, picture
from hush.report.curves_page import curves_section, summary_section
from hush.report.devices_page import devices_section
from hush.report.own_data_page import own_data_section
from hush.report.posterior_page import calibration_section, posterior_section
from hush.report.privacy_page import privacy_section, updates_section
from hush.report.style import write_png
from hush.store import Unreadable, files, load_records, load_table
from hush.store.manifest import matches
from hush.store.reading import damaged, load_archive, load_or_warn, load_settings, load_status, require_run, was_killed
from hush.store.records import flat, measures, points, summary

BANNERS = {
    "finished": ("good", "Finished."),
    "interrupted": ("fair", "Interrupted."),
    "diverged": ("bad", "Diverged."),
    "failed": ("bad", "Failed."),
    "running": ("note", "Still running when this page was written."),
    "killed": (
        "fair",
        "Ended without a word, as if killed; hush resume (or hush serve) goes on from its checkpoint.",
    ),
}


def write_report(folder: Path) -> Path:
    """Write the report and the figures of a run folder, however its run ended."""
    folder = require_run(folder)
    load_settings(folder)  # refused here, by name, if it is no TOML
    records = load_records(folder)
    counts, classes = _counts(folder)
    status = load_status(folder)
    if was_killed(folder, status):
        status["status"] = "killed"
    settings = files.SETTINGS.path(folder).read_text(encoding="utf-8")
    body = [
        _banner(status, len(records)),
        *_damage(folder),
        *_numbers(records, status, counts, settings, _said(folder)),
        *curves_section(records, folder),
        *privacy_section(folder, status),
        *audit_section(folder),
        *devices_section(folder),
        *calibration_section(folder),
        *posterior_section(folder),
        *own_data_section(folder),
        *updates_section(folder),
        *_classes(counts, classes, folder),
        *_settings(settings),
        *_versions(load_or_warn(files.VERSIONS.path(folder), "what computed it"), status),
    ]
    title = folder.resolve().name
    return markup.write(files.REPORT.path(folder), markup.document(title, "hush, report of a run", body, scripts()))


def _damage(folder: Path) -> list[str]:
    """What is not as the run wrote it: whoever reads the numbers must know."""
    found = [name for name in damaged(folder) if name != files.REPORT.name and not name.endswith(".png")]
    said = []
    if found:
        text = f"Not as they were written, and not used here: {', '.join(found)}."
        if not {files.CHECKPOINT.name, files.SAMPLES.name} & set(found):
            text += " The checkpoint is whole: hush resume goes on from it and writes them anew."
        said.append(markup.banner("bad", "Damaged or missing files.", text))
    if matches(folder, files.SETTINGS.name) is False:
        text = f"{files.SETTINGS.name} is not as the run wrote it: the numbers below may not be of these settings."
        said.append(markup.banner("fair", "Edited settings.", text))
    return said


def _counts(folder: Path) -> tuple[Counts | None, list[str]]:
    """How many of each class each client holds, and what classes are called; folders of earlier versions lack names."""
    if not files.CLASS_COUNTS.path(folder).is_file():
        return None, []
    try:
        held = load_archive(folder, files.CLASS_COUNTS.name)
        return held["counts"], list(map(str, held.get("classes", ())))
    except (Unreadable, KeyError) as error:
        warnings.warn(f"who holds what is left out: {error}", RuntimeWarning, stacklevel=3)
        return None, []


def _banner(status: dict[str, Any], rows: int) -> str:
    kind, said = BANNERS.get(str(status.get("status")), ("note", "How this run ended is not known."))
    reached = f"{status['round']} of {status['rounds']} rounds." if {"round", "rounds"} <= set(status) else ""
    message = str(status.get("message") or "")
    message += "." if message and message[-1] not in ".!?" else ""
    unfinished = "The numbers below are those of an unfinished run." if kind in ("fair", "bad") and rows else ""
    return markup.banner(kind, said, " ".join(part for part in (message or reached, unfinished) if part))


def _said(folder: Path) -> list[tuple[str, str]]:
    """What one client has sent, for the median client and for the one that sent most."""
    table = load_table(folder, files.CLIENTS.name, ["uplink_bits"])
    if table is None:
        return []
    sent = table["uplink_bits"]
    return [
        ("sent by one client, median", formatting.bits(sent.median())),
        ("sent by one client, most", formatting.bits(sent.max())),
    ]


def _numbers(
    records: pd.DataFrame, status: dict[str, Any], counts: Counts | None, settings: str, said: list[tuple[str, str]]
) -> list[str]:
    pairs = [("rounds", formatting.count(status["round"]))] if "round" in status else []
    clients = len(counts) if counts is not None else _clients(settings)
    pairs += [("clients", formatting.count(clients))] if clients is not None else []
    pairs += [("parameters d", formatting.count(status["dimension"]))] if "dimension" in status else []
    if len(records) == 0:
        nothing = "There are no numbers to show: the run stopped before its first evaluation."
        return [markup.facts(pairs), f'<p id="no-records">{nothing}</p>']
    found = points(records)
    pairs += [("repetitions", formatting.count(records["repetition"].nunique()))]
    pairs += [("sweep points", formatting.count(len(found)))] if len(found) > 1 else []
    if len(found) == 1:
        first = [name for name in TOTALS if column(name).shown_in == EVERYWHERE and name in records.columns]
        shown = [*measures(records)[:1], *first]
        pairs += [(column(name).label, formatting.in_words(name, summary(records, name)[0])) for name in shown]
    pairs += said
    if "seconds" in records.columns:
        pairs += [(column("seconds").label, formatting.seconds(float(records["seconds"].max())))]
    if "compile_seconds" in status:
        pairs += [("time to compile", formatting.seconds(float(status["compile_seconds"])))]
    return [markup.facts(pairs), *summary_section(records, found)]


def _clients(settings: str) -> int | None:
    found = tomllib.loads(settings).get("task", {})
    clients = found.get("clients") if isinstance(found, dict) else None
    return clients if isinstance(clients, int) else None


def _classes(counts: Counts | None, names: list[str], folder: Path) -> list[str]:
    if counts is None:
        return []
    sizes = counts.sum(1)
    clients, examples, least, most = map(formatting.count, (len(counts), sizes.sum(), sizes.min(), sizes.max()))
    said = f"{clients} clients hold {examples} examples of {counts.shape[1]} classes, from {least} to {most} each."
    drawn = picture(counts, names)
    path = files.CLASS_COUNTS_PICTURE.path(folder)
    write_png(drawn, path)
    shown = markup.figure(path.stem, drawn, f"Who holds what. {said}", said, "wide")
    return ["<h2>Who holds what</h2>", shown]


def _settings(settings: str) -> list[str]:
    tables = tomllib.loads(settings)
    command = "hush serve" if "network" in tables else "hush run"
    loose = {name: value for name, value in tables.items() if not isinstance(value, dict | list)}
    cards = [markup.card("settings", _pairs(loose))] if loose else []
    for name, value in tables.items():
        if isinstance(value, dict):
            cards.append(markup.card(name, _pairs(value)))
        elif isinstance(value, list):
            cards += [markup.card(f"{name} {number + 1}", _pairs(part)) for number, part in enumerate(value)]
    return [
        "<h2>Settings<small>as resolved</small></h2>",
        f'<div class="slots" id="settings">{"".join(cards)}</div>',
        f"<details><summary>{files.SETTINGS.name}</summary><pre>{markup.text(settings)}</pre></details>",
        "<h2>To reproduce</h2>",
        f'<pre id="reproduce">{command} {files.SETTINGS.name}</pre>',
        f"<p>with the <code>{files.SETTINGS.name}</code> of this folder, which names the seed, and the versions below."
        "</p>",
    ]


def _pairs(settings: Any) -> list[tuple[str, str]]:
    return [(name, _value(value)) for name, value in flat(settings).items()]


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _versions(versions: dict[str, Any], status: dict[str, Any]) -> list[str]:
    layout = status.get("layout")
    cards = [markup.card("versions", _pairs(versions))] if versions else []
    cards += [markup.card("layout", _pairs(layout))] if isinstance(layout, dict) and layout else []
    return ["<h2>What computed it</h2>", f'<div class="slots" id="versions">{"".join(cards)}</div>'] if cards else []

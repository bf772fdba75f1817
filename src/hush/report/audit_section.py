"""What an audit of a run found, in that run's report."""

from pathlib import Path

from hush.report import markup
from hush.store import load_settings
from hush.store.audits import ANSWER, FOLDER, PAGE
from hush.store.reading import load_or_warn


def audit_section(folder: Path) -> list[str]:
    """The outcome and where its page is; nothing where there is no audit, or one of other settings than the run's."""
    found = load_or_warn(folder / FOLDER / ANSWER, "what an audit found")
    if not found or load_settings(folder / FOLDER) != load_settings(folder):
        return []
    kind = "bad" if found.get("refuted") else "note"
    link = f'<p><a href="{FOLDER}/{PAGE}">{FOLDER}/{PAGE}</a> has all that was found.</p>'
    said = f"{found.get('audited', '')}:"
    return [
        "<h2>Audit</h2>",
        f'<div id="audit">{markup.banner(kind, said, str(found.get("sentence", "")))}{link}</div>',
    ]

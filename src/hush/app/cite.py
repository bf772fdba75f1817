"""`hush cite`: the papers and data sets behind what is used, as BibTeX."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hush.app.bibliography import entries
from hush.app.citations import NUMBERS, USES
from hush.core.check import nearest
from hush.settings import SettingsError, read
from hush.store.files import SETTINGS


def bibtex(asked: Sequence[str]) -> str:
    """The entries behind names, run folders and settings files; all there are if nothing is asked for."""
    known = entries()
    names = [name for thing in asked for name in _names(thing)]
    keys = dict.fromkeys(key for name in names for key in USES[name]) if asked else dict.fromkeys(known)
    found = []
    for key in keys:
        users = [name for name, used in USES.items() if key in used and (not asked or name in names)]
        remark = f"% behind {', '.join(users)}\n" if users else ""
        remark += f"% paper {NUMBERS[key]}\n" if key in NUMBERS else ""
        found.append(f"{remark}{known[key]}")
    return "\n".join(found)


def _names(thing: str) -> list[str]:
    """The names to cite for one argument."""
    path = Path(thing)
    if thing in USES:
        return [thing]
    if path.exists() or path.suffix == ".toml":
        return [name for name in _mentioned(read(SETTINGS.path(path) if path.is_dir() else path)) if name in USES]
    raise SettingsError(
        "", f"neither a name to cite, nor a run's folder, nor a settings file: {thing!r}; {nearest(thing, USES)}"
    )


def _mentioned(value: Any) -> Iterable[str]:
    """Every name in tables: of pieces, algorithms, tasks and models, and of the kinds of partition."""
    if isinstance(value, dict):
        for name, entry in value.items():
            yield str(name)
            yield from _mentioned(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from _mentioned(entry)
    elif isinstance(value, str):
        yield value

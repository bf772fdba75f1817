"""The files of an audit's answer."""

import json
from dataclasses import replace as replaced
from math import isfinite
from pathlib import Path
from typing import Any

from hush.audits.answer import Audit, about
from hush.audits.folder import AuditFolder
from hush.extras import missing
from hush.store.audits import ANSWER, TABLE
from hush.store.fingerprint import Fingerprint
from hush.store.lock import locked
from hush.version import __version__


def write(answer: Audit, files: AuditFolder) -> Audit:
    """Everything that is worth keeping, in the audit's folder."""
    answer = replaced(answer, folder=files.path)
    files.write(TABLE, answer.table.to_csv(index=False))
    if not missing("matplotlib"):
        from hush.audits.page import write_page

        write_page(answer, files.path)
    files.write(ANSWER, json.dumps(summary(answer), indent=2, ensure_ascii=False))  # last: the rest is there then
    return answer


def save(answer: Audit, folder: str | Path, replace: bool = False) -> Audit:
    """Write an answer that was kept in no folder into one."""
    files = AuditFolder(folder)
    with locked(files.path):
        files.begin(Fingerprint({"saved": answer.what}, {}), replace=replace)
        return write(answer, files)


def summary(answer: Audit) -> dict[str, Any]:
    """The answer as plain names and values."""
    claim = answer.claim
    rows = answer.table.to_dict("records")
    return {
        "audited": answer.what,
        "rounds": answer.rounds,
        "refuted": answer.refuted,
        "complete": answer.complete,
        "sentence": answer.sentence,
        "claim": {
            "epsilon": _plain(claim.epsilon),
            "delta": claim.delta,
            "about": about(claim),
            **{name: getattr(claim, name) for name in ("unit", "relation", "trust")},
            "words": dict(claim.words),
        },
        "findings": [{str(name): _plain(value) for name, value in row.items()} for row in rows],
        "seconds": answer.seconds,
        "hush": __version__,
    }


def _plain(value: Any) -> Any:
    """JSON has no infinity, and no number that is none."""
    return None if isinstance(value, float) and not isfinite(value) else value

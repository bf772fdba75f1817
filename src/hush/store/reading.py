"""Reading a run folder, whatever happened to it: what is damaged is named, and replaced by what is whole."""

import json
import tomllib
import warnings
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hush.store import manifest
from hush.store.files import CHECKPOINT, MANIFEST, RECORDS, RECORDS_SO_FAR, SETTINGS, STATUS
from hush.store.lock import in_use
from hush.store.records import IDENTITY, swept

Array = np.ndarray[Any, Any]
IN_CHECKPOINT = "records/"  # how the names of the records' columns begin in a checkpoint


class Unreadable(ValueError):
    """A file of a run folder is missing, damaged, or not what it should be."""


def began(folder: Path) -> bool:
    """Whether hush began a run in this folder, however far it came."""
    return manifest.exists(folder) or all(file.path(folder).is_file() for file in (SETTINGS, STATUS))


def require_run(folder: str | Path) -> Path:
    """Refuse what is not the folder of a run, or of one that was ended before it had written its settings."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"{folder} is not the folder of a run: there is no such folder")
    if not began(folder) and not SETTINGS.path(folder).is_file():
        raise ValueError(f"{folder} is not the folder of a run: it holds neither {MANIFEST.name} nor {SETTINGS.name}")
    if not SETTINGS.path(folder).is_file():
        raise Unreadable(f"{folder} lacks {SETTINGS.name}: its run was ended too early; {_ANEW}")
    return folder


_ANEW = "start it anew with hush run … --force"


def damaged(folder: Path) -> list[str]:
    """The files that are missing or not as they were written; the settings may be edited, and are not judged here."""
    known = manifest.entries(folder)
    return [name for name in known if name != SETTINGS.name and manifest.matches(folder, name) is False]


def was_killed(folder: Path, status: dict[str, Any]) -> bool:
    """Whether a run that says it is running has nobody who runs it."""
    return status.get("status") == "running" and manifest.exists(folder) and not in_use(folder)


def load_settings(folder: Path) -> dict[str, Any]:
    """The settings of a run folder; nothing where there are none."""
    path = SETTINGS.path(folder)
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise Unreadable(f"{path} cannot be read: {error}") from error


def load_json(path: Path) -> dict[str, Any]:
    """A JSON file of a run folder; nothing where there is none."""
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise Unreadable(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise Unreadable(f"{path} should hold names and values, found {type(found).__name__}")
    return found


def load_or_warn(path: Path, left_out: str) -> dict[str, Any]:
    """A JSON file that can be done without: where it is damaged, nothing, and a warning says what is left out."""
    try:
        return load_json(path)
    except Unreadable as error:
        warnings.warn(f"{error}; left out is {left_out}", RuntimeWarning, stacklevel=3)
        return {}


NOT_YET = "what all has cost is worked out when the run ends; the curves of ε are what a lane has spent so far"


def load_status(folder: Path) -> dict[str, Any]:
    """How a run stands, as far as that can be read.

    What a run that has not ended wrote of itself is of its beginning, when it had done nothing and spent no privacy.
    """
    found = load_or_warn(STATUS.path(folder), "how the run ended")
    if found.get("status") != "running":
        return found
    records = load_records(folder)
    found |= {"round": int(records["round"].max())} if len(records) else {}
    if found.get("privacy", {}).get("guarantee", "none") != "none":
        found |= {"privacy": {"guarantee": "none", "reason": NOT_YET}}
    return found


def load_table(folder: Path, name: str, columns: list[str] | None = None) -> pd.DataFrame | None:
    """A Parquet file of a run folder; None where there is none, or where it is damaged, which a warning says."""
    path = folder / name
    if not path.is_file():
        return None
    try:
        if manifest.matches(folder, name) is False:
            raise ValueError("its checksum is not that of the manifest")
        return pd.read_parquet(path, columns=columns)
    except (OSError, ValueError, KeyError) as error:  # pyarrow's own errors are of these kinds
        warnings.warn(f"{path} is damaged and was left out: {error}", RuntimeWarning, stacklevel=2)
        return None


def load_archive(folder: Path, name: str) -> dict[str, Array]:
    """The arrays of an .npz file of a run folder."""
    path = folder / name
    if not path.is_file():
        raise Unreadable(f"{path} is missing")
    if manifest.matches(folder, name) is False:
        raise Unreadable(f"{path} is damaged: its checksum is not that of {MANIFEST.name}")
    try:
        with path.open("rb") as file, np.load(file) as archive:
            return dict(archive)
    except MemoryError as error:
        raise Unreadable(f"{path} cannot be read: it takes more memory than there is") from error
    except Exception as error:  # a damaged archive fails in many ways
        raise Unreadable(f"{path} is damaged: {error}") from error


def load_records(folder: str | Path) -> pd.DataFrame:
    """The records of a run folder, as far as they were written.

    From the CSV file, which is written as a run goes. Where that is damaged, from the Parquet file or from the
    checkpoint, whichever is whole, and a warning says so.
    """
    folder = Path(folder)
    if not any(file.path(folder).is_file() for file in (MANIFEST, SETTINGS, RECORDS_SO_FAR, RECORDS)):
        raise ValueError(f"{folder} is not the folder of a run: it has neither settings nor records")
    reason = "is missing"
    if RECORDS_SO_FAR.path(folder).is_file():
        try:
            if manifest.matches(folder, RECORDS_SO_FAR.name) is not False:
                return _parsed(RECORDS_SO_FAR.path(folder))
            reason = "is damaged"
        except Unreadable as error:
            reason = str(error)
    elif RECORDS_SO_FAR.name not in manifest.entries(folder) and not RECORDS.path(folder).is_file():
        return pd.DataFrame()  # none were written yet
    return _rebuilt(folder, reason)


def _rebuilt(folder: Path, reason: str) -> pd.DataFrame:
    found, source = load_table(folder, RECORDS.name), RECORDS
    if found is None and CHECKPOINT.path(folder).is_file():
        try:
            found, source = rows_of(load_archive(folder, CHECKPOINT.name)), CHECKPOINT
        except Unreadable as error:
            reason += f", and {error}"
    lost = RECORDS_SO_FAR
    if found is None:
        raise Unreadable(f"{folder} has no records that can be read: {lost.name} {reason}, and nothing else has them")
    if manifest.exists(folder):
        warnings.warn(f"{lost.path(folder)} {reason}; read {source.name} instead", RuntimeWarning, stacklevel=3)
    return found


def rows_of(state: dict[str, Array]) -> pd.DataFrame | None:
    """The records that a checkpoint holds; None for a checkpoint without any."""
    columns = {
        name.removeprefix(IN_CHECKPOINT): values for name, values in state.items() if name.startswith(IN_CHECKPOINT)
    }
    return pd.DataFrame(columns) if columns else None


def _parsed(path: Path) -> pd.DataFrame:
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise Unreadable(f"cannot be read: {error}") from error
    # A run that was killed may leave half a line, and half a number is a wrong number.
    whole = content[: content.rfind("\n") + 1]
    if not whole.strip():
        return pd.DataFrame()
    try:
        records = pd.read_csv(StringIO(whole))
        # A run that went on from a checkpoint may have written some rounds twice.
        return records.drop_duplicates([*IDENTITY, *swept(records)], keep="last", ignore_index=True)
    except (ValueError, KeyError) as error:
        raise Unreadable(f"is no table of records: {error}") from error

"""The folder of an audit: what was measured, kept as it comes, and the answer at the end."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hush.store import Unreadable, atomically
from hush.store.audits import IDENTITY, MEASURED, OWN
from hush.store.fingerprint import Fingerprint
from hush.store.reading import load_archive

Array = np.ndarray[Any, Any]

KEY = "key"  # under which a file of measurements says what it holds


class AuditFolder:
    """Files of one audit, which only who has it locked may write."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def begin(self, identity: Fingerprint, resume: bool = False, replace: bool = False) -> None:
        """Claim the folder; to go on, only with what it was begun with."""
        there = (self.path / IDENTITY).is_file()
        if there and resume:
            self._check(identity)
            return
        if there and not replace:
            raise ValueError(f"{self.path} already holds an audit; resume it, replace it, or choose another folder")
        others = [path.name for path in self.path.iterdir() if not self._is_own(path)]
        if others and not there:
            raise ValueError(f"{self.path} holds {others[0]}, which no audit wrote; choose another folder")
        if resume:
            raise ValueError(f"{self.path} holds no audit to resume")
        for path in [*self.path.glob(MEASURED), *(self.path / name for name in OWN)]:
            path.unlink(missing_ok=True)
        _write(self.path / IDENTITY, identity.state())

    def of(self, attack: str) -> "Measurements":
        """What one attack has measured."""
        return Measurements(self.path, attack)

    def write(self, name: str, text: str) -> Path:
        """A file of the answer, whole."""
        path = self.path / name
        atomically(path, lambda file: file.write(text.encode()))
        return path

    def _is_own(self, path: Path) -> bool:
        return path.name in OWN or path.match(MEASURED) or path.name.startswith(".")

    def _check(self, identity: Fingerprint) -> None:
        try:
            before = Fingerprint.restore(load_archive(self.path, IDENTITY))
        except (KeyError, ValueError) as error:
            raise Unreadable(f"{self.path / IDENTITY} is damaged: {error}") from error
        if different := before.differences(identity):
            raise ValueError(f"{self.path} holds another audit: different are {', '.join(different)}")


@dataclass(frozen=True)
class Measurements:
    """What one attack has measured: from when it is put here, it is there whole."""

    folder: Path
    attack: str  # by name, with all that its measurements depend on beside the audit's identity

    def get(self, key: str) -> dict[str, Array] | None:
        """What was measured under a key; None where nothing was."""
        path = self._path(key)
        if not path.is_file():
            return None
        found = load_archive(self.folder, path.name)
        if str(found.pop(KEY, "")) != f"{self.attack}: {key}":
            raise Unreadable(f"{path} holds another measurement than its name says")
        return found

    def put(self, key: str, arrays: Mapping[str, Array]) -> None:
        """Keep what was measured."""
        _write(self._path(key), {KEY: np.array(f"{self.attack}: {key}"), **arrays})

    def keep_only(self, key: str) -> None:
        """Forget all that led to what is kept under this key, which may be much."""
        for path in self.folder.glob(MEASURED.replace("*", f"{_short(self.attack)}-*")):
            if path != self._path(key):
                path.unlink()

    def _path(self, key: str) -> Path:
        return self.folder / MEASURED.replace("*", f"{_short(self.attack)}-{_short(key)}")


def _write(path: Path, arrays: Mapping[str, Array]) -> None:
    atomically(path, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]


def _short(name: str) -> str:
    return hashlib.blake2b(name.encode(), digest_size=6).hexdigest()

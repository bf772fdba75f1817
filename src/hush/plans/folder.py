"""The folder of a plan: what was measured, line by line as it comes, and the answer at the end."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hush.plans.bench import Measured
from hush.store import Unreadable, atomically

MEASUREMENTS, TRIALS, PAGE = "measurements.jsonl", "trials.csv", "plan.html"
SETTINGS, NETWORK = "plan.toml", "network.toml"
PICTURES = ("race.png", "front-bits.png", "front-epsilon.png")
OWN = (MEASUREMENTS, TRIALS, PAGE, SETTINGS, NETWORK, *PICTURES)


class PlanFolder:
    """Files of one plan, which only who has the folder locked may write."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def begin(self, identity: Mapping[str, str], resume: bool, replace: bool) -> dict[Any, Measured]:
        """Claim the folder; what an earlier call measured, where it is to go on."""
        measurements = self.path / MEASUREMENTS
        if measurements.is_file() and resume:
            return self._earlier(measurements, identity)
        if measurements.is_file() and not replace:
            raise ValueError(f"{self.path} already holds a plan; resume it, replace it, or choose another folder")
        others = [path.name for path in self.path.iterdir() if path.name not in OWN and not path.name.startswith(".")]
        if others and not measurements.is_file():
            raise ValueError(f"{self.path} holds {others[0]}, which no plan wrote; choose another folder")
        if resume:
            raise ValueError(f"{self.path} holds no plan to resume")
        for name in OWN:
            (self.path / name).unlink(missing_ok=True)
        self._append({"plan": dict(identity)})
        return {}

    def note(self, key: Any, measured: Measured) -> None:
        """One more measurement."""
        self._append({"key": key, "measured": measured._asdict()})

    def write(self, name: str, text: str) -> Path:
        """A file of the answer, whole."""
        path = self.path / name
        atomically(path, lambda file: file.write(text.encode()))
        return path

    def _append(self, line: Mapping[str, Any]) -> None:
        with (self.path / MEASUREMENTS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _earlier(self, path: Path, identity: Mapping[str, str]) -> dict[Any, Measured]:
        found, lines = {}, path.read_text(encoding="utf-8").splitlines()
        try:
            before = json.loads(lines[0])["plan"]
            for line in lines[1:]:
                if entry := _parsed(line):
                    found[_hashable(entry["key"])] = Measured(**entry["measured"])
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise Unreadable(f"{path} is damaged: {error}") from error
        different = [name for name in {**before, **identity} if before.get(name) != identity.get(name)]
        if different:
            raise ValueError(f"{self.path} holds another plan: different are {', '.join(sorted(different))}")
        return found


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:  # the last line of a process that was killed
        return None


def _hashable(key: Any) -> Any:
    return tuple(map(_hashable, key)) if isinstance(key, list) else key

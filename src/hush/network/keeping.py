"""What a device keeps between rounds, in one file that is replaced whole."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hush.core.contract import State
from hush.network.guard import Participations, Refused
from hush.store import atomically

Arrays = dict[str, np.ndarray[Any, Any]]


class Pending(NamedTuple):
    """An answer that was made, of which it is not known yet whether the server used it."""

    number: int
    told: bytes  # the digest of what it answers
    answer: bytes
    state: State  # what the client remembers if it was used


class Kept(NamedTuple):
    """All that a device must know to go on."""

    run: bytes
    agreement: bytes
    mechanism: list[str]
    spent: float | None  # ε so far; None where no privacy was promised
    ledger: Participations
    settled: tuple[int, ...]  # by phase, the last round in which the server used an answer
    sent_bits: int
    states: tuple[State, ...]
    pending: tuple[Pending | None, ...]
    left: tuple[bytes, ...] = ()  # the runs before this one


class Keeping:
    """The file of one device."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def write(self, kept: Kept) -> None:
        """Put it on the disk: when this returns, it lasts."""
        facts = {
            "run": kept.run.hex(),
            "agreement": kept.agreement.hex(),
            "mechanism": kept.mechanism,
            "spent": kept.spent,
            "taken": kept.ledger.taken,
            "last": kept.ledger.last,
            "before": kept.ledger.before,
            "settled": kept.settled,
            "sent_bits": kept.sent_bits,
            "pending": [None if each is None else [each.number, each.told.hex()] for each in kept.pending],
            "left": [run.hex() for run in kept.left],
        }
        arrays: Arrays = {"facts": np.array(json.dumps(facts))}
        for phase, state in enumerate(kept.states):
            arrays |= _named(f"state/{phase}", state)
        for phase, pending in enumerate(kept.pending):
            if pending is not None:
                arrays[f"answer/{phase}"] = np.frombuffer(pending.answer, np.uint8)
                arrays |= _named(f"pending/{phase}", pending.state)
        atomically(self.path, lambda file: np.savez(file, **arrays), 0o600)  # type: ignore[arg-type]

    def read(self, like: tuple[State, ...]) -> Kept | None:
        """What was written, in the shapes of these states; None where nothing was."""
        if not self.path.exists():
            return None
        try:
            arrays, facts = _read(self.path)
            states = tuple(_unnamed(f"state/{phase}", arrays, each) for phase, each in enumerate(like))
            pending = tuple(
                None if found is None else _pending(phase, found, arrays, like[phase])
                for phase, found in enumerate(facts["pending"])
            )
            taken, last = (tuple(int(number) for number in facts[name]) for name in ("taken", "last"))
            ledger = Participations(taken, last, int(facts["before"]))
            settled = tuple(int(number) for number in facts["settled"])
            run, agreement = bytes.fromhex(facts["run"]), bytes.fromhex(facts["agreement"])
            said = run, agreement, facts["mechanism"], facts["spent"], ledger, settled, int(facts["sent_bits"])
            return Kept(*said, states, pending, tuple(map(bytes.fromhex, facts.get("left", ()))))
        except Exception as error:  # whatever a damaged archive makes its reader say
            raise Refused(f"{self.path} cannot be read ({error}): what was spent is not known") from error


def facts_of(path: Path) -> dict[str, Any]:
    """What a device's file says in words and numbers, for its owner."""
    return _read(path)[1]


def _read(path: Path) -> tuple[Arrays, dict[str, Any]]:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        arrays = dict(archive)
    return arrays, json.loads(str(arrays["facts"]))


def _pending(phase: int, found: list[Any], arrays: Arrays, like: State) -> Pending:
    state = _unnamed(f"pending/{phase}", arrays, like)
    return Pending(int(found[0]), bytes.fromhex(found[1]), arrays[f"answer/{phase}"].tobytes(), state)


def _named(prefix: str, tree: Any) -> Arrays:
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {f"{prefix}{jax.tree_util.keystr(path)}": np.asarray(leaf) for path, leaf in leaves}


def _unnamed(prefix: str, arrays: Arrays, like: Any) -> Any:
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    found = []
    for path, leaf in leaves:
        array = arrays[f"{prefix}{jax.tree_util.keystr(path)}"]
        if array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise ValueError(f"{prefix} should have shape {leaf.shape}, found {array.shape}")
        found.append(jnp.asarray(array))
    return jax.tree.unflatten(structure, found)

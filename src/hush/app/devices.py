"""`hush devices`: who takes part in a federation, and what it has cost each; and what one's own device has spent."""

import time
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from hush.app.serve import state_folder
from hush.app.tables import print_table
from hush.network.agreement import Agreement, guarantee, in_words
from hush.network.joining import AGREEMENT, STATE
from hush.network.keeping import facts_of
from hush.privacy.shown import rounded_up
from hush.report.formatting import bits, seconds
from hush.settings import Experiment, build, read
from hush.store.files import CHECKPOINT, JOURNAL, SETTINGS
from hush.store.journal import Seen, roll
from hush.store.reading import load_archive, require_run

HEADINGS = ("device", "name", "last heard", "rounds", "answered", "sent", "ε", "declined or refused")


def devices(folder: Path) -> None:
    """The devices of a federation, from its folder: while it runs, or afterwards."""
    require_run(folder)
    if not JOURNAL.path(folder).is_file():
        raise ValueError(f"{folder} is no federation's: it has no {JOURNAL.name}")
    experiment = build(read(SETTINGS.path(folder)))
    state = load_archive(folder, CHECKPOINT.name)
    found, spent = roll(JOURNAL.path(folder)), _spent(experiment, state)
    taken = state["ledger/client_rounds"].max(0)[0]
    rows = []
    for client in range(len(taken)):
        seen = found.get(client, Seen())
        last = "never" if not seen.last else f"{seconds(max(time.time() - seen.last, 0))} ago"
        epsilon = "none" if spent is None else rounded_up(float(spent[client]))
        counts = [str(taken[client]), str(seen.answered), bits(seen.bits)]
        rows.append([str(client), seen.name, last, *counts, epsilon, seen.word])
    title = f"after {int(state['round'])} rounds; rounds are those a device was told of, which is what ε counts"
    print_table(HEADINGS, rows, title)


def _spent(experiment: Experiment, state: Any) -> np.ndarray[Any, Any] | None:
    problem, run = experiment.problem(), experiment.run
    found, _ = guarantee(experiment.algorithm, problem, run)
    if found is None:
        return None
    return found.epsilons(int(state["round"]), state["ledger/client_rounds"][:, 0], run.delta)


def mine(folder: Path | None) -> None:
    """What the devices of this machine have agreed to and spent, by their own ledgers."""
    places = sorted(state_folder("").glob("*")) if folder is None else [folder]
    places = [place for place in places if (place / AGREEMENT).is_file()]
    if not places:
        raise ValueError(f"no device has joined a federation in {folder or state_folder('')}")
    spent = []
    for place in places:
        agreement = Agreement((place / AGREEMENT).read_text(encoding="utf-8"))
        words = in_words(agreement, agreement.experiment.algorithm, agreement.experiment.problem())
        own, epsilon = _ledger(place / STATE)
        spent.append((epsilon, agreement.experiment.run.delta))
        print_table(("", ""), [[name, text] for name, text in (own | words).items()], str(place))
    if len(spent) > 1:
        epsilon, delta = (sum(each) for each in zip(*spent, strict=True))
        print(f"all of them together, if they have the same data: ε = {rounded_up(epsilon)} at most, at δ = {delta:g}")


def _ledger(path: Path) -> tuple[dict[str, str], float]:
    """What a device's own file says, and its ε so far."""
    if not path.is_file():
        return {"taken part in": "no round yet"}, 0.0
    facts = facts_of(path)
    epsilon = inf if facts["spent"] is None else float(facts["spent"])
    spent = "no privacy was promised" if facts["spent"] is None else rounded_up(epsilon)
    rounds = ", then ".join(map(str, facts["taken"]))
    return {"taken part in": f"{rounds} rounds", "sent": bits(facts["sent_bits"]), "ε spent": spent}, epsilon

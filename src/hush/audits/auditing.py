"""`audit`: does the ε hold? Attack what is trained, and put both sides of ε beside each other."""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

from hush.audits.accounted import WHY, accounted
from hush.audits.answer import Audit
from hush.audits.bounds import CONFIDENCE
from hush.audits.claims import ADVERSARIES, Claim, asserted
from hush.audits.findings import Finding
from hush.audits.folder import AuditFolder
from hush.audits.keeping import packed, unpacked
from hush.audits.methods import METHODS, Asked, Progress, check_fit
from hush.audits.timing import LEAST, lanes_within
from hush.audits.writing import write
from hush.core.algorithm import Algorithm, InTurn, name_of
from hush.core.check import flag, integer, known, positive
from hush.core.check import seed as check_seed
from hush.core.problem import Problem
from hush.privacy.releases import fraction
from hush.privacy.shown import rounded_up
from hush.runs.progress import Stages
from hush.stopping import Stopping, StopRequested, listening
from hush.store.fingerprint import Fingerprint, fingerprint
from hush.store.lock import locked
from hush.version import __version__

DELTA = 1e-5
ENDED = "the finding"


def audit(
    algorithm: Algorithm | InTurn,
    problem: Problem,
    rounds: int,
    *,
    epsilon: float | None = None,
    delta: float = DELTA,
    unit: str | None = None,
    trust: str | None = None,
    methods: Sequence[str] = ("pairs",),
    adversary: str | Sequence[str] | None = None,
    lanes: int | None = None,
    minutes: float | None = None,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    folder: str | Path | None = None,
    resume: bool = False,
    replace: bool = False,
    progress: bool = True,
) -> Audit:
    """Attack what `algorithm` trains, and hold the ε that is claimed to what the attacks prove.

    epsilon, delta      the claim: what the accountant says at this δ; with an `epsilon`, that this one holds
    unit, trust         of the claim, as in `hush.privacy.describe`
    methods             which attacks: pairs, canaries, membership, reconstruction, exposure
    adversary           what it sees, a name from `hush.audits.ADVERSARIES` or several; the strongest that the claim
                        covers if none is named. One that it does not cover refutes nothing
    lanes, minutes      how many runs an attack by pairs makes, or for about how long
    seed                from which its draws come
    confidence          with which all lower bounds of the audit hold together
    folder, resume      keep every measurement as it comes, and go on from those that are there
    progress            show which attack is at work
    """
    for name, value in (("resume", resume), ("replace", replace), ("progress", progress)):
        flag(name, value)
    integer("rounds", rounds)
    check_seed("seed", seed)
    if lanes is not None:
        integer("lanes", lanes, LEAST)
    if minutes is not None:
        positive("minutes", minutes)
        if lanes is not None:
            raise ValueError(f"lanes and minutes both say how many runs are made: say one, found {lanes} and {minutes}")
    if not 0.5 < confidence < 1:
        raise ValueError(f"confidence must be a number above 0.5 and below 1, found {confidence}")
    attacks = _attacks(methods, adversary)
    claim, proved = claim_for(algorithm, problem, rounds, epsilon=epsilon, delta=delta, unit=unit, trust=trust)
    # All bounds are to hold together, so the chance that one of them is wrong is shared out among them.
    share = 1 - (1 - confidence) / max(sum(METHODS[name].bounds for name, _ in attacks), 1)
    files = None if folder is None else AuditFolder(folder)
    asked = Asked(algorithm, problem, rounds, claim, None, share, seed, lanes, proved=proved)
    for name, each in attacks:
        check_fit(name, replaced(asked, adversary=each))
    with listening() as stopping, nullcontext() if files is None else locked(files.path):
        if files is not None:
            files.begin(_identity(asked, minutes), resume, replace)
        began = time.perf_counter()
        with Stages(len(attacks), enabled=progress) as stages:
            if minutes is not None and any(name == "pairs" for name, _ in attacks):
                here = None if files is None else files.of("how long it takes")
                asked = replaced(
                    asked, lanes=_lanes(replaced(asked, measured=here), minutes, attacks, stages, stopping)
                )
            results, stopped = _carried_out(attacks, asked, files, stages, stopping)
        answer = _answer(asked, results, time.perf_counter() - began, stopped is None)
        if files is not None:
            answer = write(answer, files)
        if stopped is not None:
            raise stopped
    return answer


def claim_for(
    algorithm: Algorithm | InTurn,
    problem: Problem,
    rounds: int,
    *,
    epsilon: float | None = None,
    delta: float = DELTA,
    unit: str | None = None,
    trust: str | None = None,
) -> tuple[Claim, bool]:
    """What an audit is held to: an `epsilon` that is asserted, or what the accountant says, or nothing.

    With it, whether the accountant says so.
    """
    fraction("delta", delta)
    found = accounted(algorithm, problem, rounds, delta, unit, trust)
    if epsilon is None:
        return found, WHY not in found.words
    claim = asserted(epsilon, delta, unit=found.unit, relation=found.relation, trust=found.trust)
    said = {} if WHY in found.words else {"what the accountant claims": f"ε = {rounded_up(found.epsilon)}"}
    return replaced(claim, words=dict(found.words) | dict(claim.words) | said), False


def _attacks(methods: Sequence[str], adversary: str | Sequence[str] | None) -> list[tuple[str, str | None]]:
    """Every attack with what its adversary sees."""
    names = [methods] if isinstance(methods, str) else list(dict.fromkeys(methods))
    if not names:
        raise ValueError(f"an audit needs a method, known: {', '.join(METHODS)}")
    for name in names:
        known("method", name, METHODS)
    seen = (adversary,) if adversary is None or isinstance(adversary, str) else tuple(dict.fromkeys(adversary))
    for each in seen:
        if each is not None:
            known("adversary", each, ADVERSARIES)
    return [(name, each) for name in names for each in (seen if METHODS[name].chooses else (None,))]


def _lanes(
    asked: Asked, minutes: float, attacks: Sequence[tuple[str, str | None]], stages: Stages, stopping: Stopping
) -> int:
    """How many lanes each attack by pairs may have, so that all of them end in about this time."""
    seen = [adversary for name, adversary in attacks if name == "pairs"]

    def show(done: float, words: str) -> None:
        stopping.check()
        stages.show(done, "pairs", words)

    return lanes_within(replaced(asked, adversary=seen[0]), minutes / len(seen), show)


def _carried_out(
    attacks: Sequence[tuple[str, str | None]],
    asked: Asked,
    files: AuditFolder | None,
    stages: Stages,
    stopping: Stopping,
) -> tuple[list[tuple[str, Any]], StopRequested | None]:
    """What each attack found; where it is told to stop, those that had come to an end."""
    results: list[tuple[str, Any]] = []
    try:
        for number, (name, adversary) in enumerate(attacks):

            def show(done: float, words: str, number: int = number, name: str = name) -> None:
                stopping.check()
                stages.show(number + done, name, words)

            show(0.0, METHODS[name].words)
            measured = None if files is None else files.of(f"{name} by {adversary}")
            results.append((name, _once(name, replaced(asked, adversary=adversary, measured=measured), show)))
    except StopRequested as request:
        if not results:
            raise
        return results, request
    return results, None


def _once(name: str, asked: Asked, show: Progress) -> Any:
    """What an attack found; the same again, without making it again, where it had come to its end."""
    if asked.measured is None:
        return METHODS[name].attack(asked, show)
    end = f"{ENDED} at confidence {asked.confidence!r} of {asked.claim.epsilon!r}"
    if (kept := asked.measured.get(end)) is not None:
        return unpacked(kept)
    result = METHODS[name].attack(asked, show)
    if isinstance(result, Finding):
        asked.measured.put(end, packed(result))
        asked.measured.keep_only(end)
    return result


def _answer(asked: Asked, results: Sequence[tuple[str, Any]], seconds: float, complete: bool) -> Audit:
    """The results as an answer. What has more to show than a bound may have found one, too."""
    clients = asked.problem.population.clients
    findings = [getattr(result, "finding", result) for _, result in results]
    return Audit(
        what=f"{name_of(asked.algorithm) or 'an algorithm'}, {asked.rounds} rounds, {clients:,} clients",
        rounds=asked.rounds,
        claim=asked.claim,
        findings=tuple(each for each in findings if isinstance(each, Finding)),
        others={name: result for name, result in results if not isinstance(result, Finding)},
        seconds=seconds,
        complete=complete,
    )


def _identity(asked: Asked, minutes: float | None) -> Fingerprint:
    """What measurements depend on: with anything else, they mean something else."""
    claim = asked.claim
    about = {name: getattr(claim, name) for name in ("delta", "unit", "relation", "trust")}
    run = {"rounds": asked.rounds, "seed": asked.seed, "lanes": asked.lanes, "minutes": minutes}
    return fingerprint(asked.algorithm, asked.problem, about | run | {"hush": __version__})

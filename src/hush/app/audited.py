"""From a settings file, or a run, to both sides of its ε on the terminal."""

import sys
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

import typer

from hush.app.failures import REFUTED
from hush.app.tables import print_table
from hush.audits.answer import Audit, about, verdict_of
from hush.audits.auditing import audit
from hush.audits.claims import ADVERSARIES
from hush.audits.findings import Finding
from hush.audits.telling import in_words
from hush.core.problem import Problem
from hush.extras import missing
from hush.privacy import NoGuarantee, describe
from hush.privacy.shown import rounded_down, rounded_up
from hush.report.formatting import seconds
from hush.settings import Experiment, SettingsError, build, dumps, override, read
from hush.settings.tables import Tables
from hush.stopping import StopRequested
from hush.store import atomically
from hush.store import audits as files
from hush.store.files import REPORT, SETTINGS
from hush.store.reading import load_status, require_run


def answer(
    settings: Path,
    changes: Sequence[str],
    given: Mapping[str, Any],
    adversary: str | None,
    methods: str,
    seed: int,
    out: Path | None,
    resume: bool,
    force: bool,
    quiet: bool,
) -> None:
    """Audit what a file or a run's folder holds, and print what was found."""
    run = require_run(settings) if settings.is_dir() else None
    tables, experiment = _read(settings, run, changes)
    problem = experiment.problem()
    folder = (Path(files.FOLDER) if run is None else run / files.FOLDER) if out is None else out
    if "rounds" not in given:
        done = experiment.run.rounds if run is None else load_status(run).get("round") or experiment.run.rounds
        given = dict(given) | {"rounds": _rounds(experiment, problem, done)}
    keywords = {name: given[name] for name in ("rounds", "lanes", "minutes", "confidence") if name in given}
    try:
        found = audit(
            experiment.algorithm,
            problem,
            methods=_listed(methods) or (),
            adversary=_listed(adversary),
            seed=seed,
            folder=folder,
            resume=resume,
            replace=force,
            progress=not quiet,
            **keywords,
            **_claimed(experiment, given),
        )
    except StopRequested:
        print(f"what had been measured is in {folder}: go on with --resume", file=sys.stderr)
        raise
    atomically(folder / files.SETTINGS, lambda file: file.write(dumps(tables).encode()))
    tell(found)
    if run is not None and REPORT.path(run).is_file() and out is None and not missing("matplotlib"):
        _add_to_report(run)
    if found.refuted:
        raise typer.Exit(REFUTED)


def _read(settings: Path, run: Path | None, changes: Sequence[str]) -> tuple[Tables, Experiment]:
    """What a settings file, or that of a run, asks for."""
    tables = read(settings if run is None else SETTINGS.path(run))
    for change in changes:
        tables = override(tables, change)
    experiment = build(tables, beside=settings.parent if run is None else run)
    if experiment.run.sweep is not None:
        raise SettingsError("sweep", "an audit is of one algorithm: take [sweep] out of the file, or a run without one")
    return tables, experiment


def _listed(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


def _claimed(experiment: Experiment, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Whom the claim is about: as the run says, and what options say over it. Its budget of ε is no claim."""
    said = {name: getattr(experiment.run, name) for name in ("delta", "unit", "trust")}
    return said | {name: asked[name] for name in (*said, "epsilon") if name in asked}


def _rounds(experiment: Experiment, problem: Problem, done: int | None) -> int:
    """For how many rounds to audit: those that one client may take part in, whose budget of ε may end first."""
    run = experiment.run
    if done is None:
        raise SettingsError("run.rounds", "a budget ends this run: say for how many rounds to audit it, with --rounds")
    if run.epsilon is None:
        return done
    try:
        described = describe(experiment.algorithm, problem, done, unit=run.unit, trust=run.trust)
    except NoGuarantee:
        return done
    paid = [described.rounds_within(run.epsilon, size, run.delta) // described.holders for size in described.different]
    return max(1, min(done, *paid))


def tell(found: Audit) -> None:
    """Both sides of ε, a row for each attack; the sentence; where it all lies."""
    claim = found.claim
    print(f"{found.what}: {about(claim)}; {seconds(found.seconds)}")
    if found.findings:
        headings = [
            "attack",
            "the adversary sees",
            f"claimed ε (δ {claim.delta:g})",
            "lower bound",
            "confidence",
            "verdict",
        ]
        print_table(headings, [_row(each) for each in found.findings])
    for name, other in found.others.items():
        print(f"{name}: {in_words(name, other)}")
    print(found.sentence)
    if found.folder is not None and (page := found.folder / files.PAGE).is_file():
        print(f"page: {page}")


def _row(finding: Finding) -> list[str]:
    claimed = finding.claim.epsilon
    return [
        f"{finding.method}, {finding.adversary}",
        ADVERSARIES[finding.adversary],
        rounded_up(claimed) if claimed < inf else "–",
        rounded_down(finding.bound),
        f"{finding.confidence:.4g}",
        verdict_of(finding),
    ]


def _add_to_report(run: Path) -> None:
    """The run's report, which says from now on what its audit found."""
    from hush.report.page import write_report

    print(f"report: {write_report(run)}")

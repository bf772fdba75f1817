"""The commands that compute: run, resume, report, compare."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from hush.app.tables import print_comparison, print_summary
from hush.execution import hosts
from hush.privacy.shown import in_one_line
from hush.runs.errors import Diverged, Interrupted
from hush.runs.result import Result
from hush.runs.run import run as run_algorithm
from hush.settings import Experiment, RunSettings, SettingsError, build, default_tables, override, read
from hush.settings.tables import OWN, Tables
from hush.store.files import JOURNAL, LOCK, REPORT, SETTINGS
from hush.store.reading import began, require_run


@hosts.together()
def run(
    settings: Path | None,
    changes: Sequence[str],
    changed: Mapping[str, Any],
    out: Path | None,
    force: bool,
    through_bytes: bool,
    track: str | None,
    quiet: bool,
) -> None:
    """Run a settings file with some settings changed."""
    tables = default_tables() if settings is None else read(settings)
    for change in changes:
        tables = override(tables, change)
    experiment = build(_how(tables, changed), beside=Path() if settings is None else settings.parent)
    if through_bytes and track is not None:
        raise SettingsError("", "--track is for simulations: it does not go with --through-bytes")
    if through_bytes and hosts.processes() > 1:
        raise SettingsError("", "--through-bytes is for one process: its messages are made one after the other")
    tracked = _tracked(track)
    problem = experiment.problem()
    folder = Path(hosts.agreed(str(_default_folder(experiment) if out is None else out)))
    hosts.first(lambda: _check_room(folder, force))
    places: dict[str, Any] = {"folder": folder, "replace": force}
    if experiment.made_by is not None and not through_bytes:  # which the problem itself does not know of
        places["settings"] = experiment.tables
    _run(experiment, problem, quiet, by_bytes if through_bytes else run_algorithm, **places, **tracked)


@hosts.together()
def resume(folder: Path, changed: Mapping[str, Any], track: str | None, quiet: bool) -> None:
    """Go on with an interrupted run, or with a finished one for more rounds."""
    tables = read(SETTINGS.path(require_run(folder)))
    if JOURNAL.path(folder).is_file():
        raise SettingsError(
            str(folder), "was run with devices: hush serve goes on with it, as it was begun; through bytes, begin anew"
        )
    tables = _how(tables, changed)
    experiment = build(tables, beside=folder)
    tracked = _tracked(track)
    _run(experiment, experiment.problem(), quiet, folder=folder, resume=True, settings=tables, **tracked)


def _tracked(track: str | None) -> dict[str, Any]:
    """Who is told of evaluations, if anybody is."""
    if track is None or not hosts.speaks():
        return {}
    from hush.trackers import tracker

    return {"on_evaluate": tracker(track)}


def _how(tables: Tables, changed: Mapping[str, Any]) -> Tables:
    """How it is run, with what options say in the place of what the file does."""
    for name, value in changed.items():
        if value is not None:
            tables = override(tables, f"run.{name}={value}")
    return tables


def report(folder: Path) -> None:
    """Write a report anew."""
    from hush.report.page import write_report

    print(write_report(folder))


def compare(folders: Sequence[Path], out: Path) -> None:
    """Put runs side by side."""
    from hush.report.compare import table, write_comparison

    if len(folders) < 2:
        raise SettingsError("", f"a comparison takes two or more runs, found {len(folders)}")
    print_comparison(table(folders))
    print(write_comparison(folders, out))


def by_bytes(algorithm: Any, problem: Any, progress: bool, folder: Path, replace: bool, **asked: Any) -> Result:
    """The same with every message made into bytes and back."""
    from hush.network import through_bytes

    return through_bytes(algorithm, problem, RunSettings(**asked), folder=folder, replace=replace, progress=progress)


def _run(
    experiment: Experiment, problem: Any, quiet: bool, runs: Callable[..., Result] = run_algorithm, **places: Any
) -> None:
    asked = experiment.run.keywords()
    told(quiet, lambda: runs(experiment.algorithm, problem, **asked, progress=not quiet, **places))


def told(quiet: bool, run: Callable[[], Result]) -> None:
    """Run, and tell how it ended, whether it ended well or not; of several processes, the first tells."""
    quiet = quiet or not hosts.speaks()
    try:
        result = run()
    except (Diverged, Interrupted) as end:
        if not quiet:
            tell(end.result)
        raise
    if not quiet:
        tell(result)


def tell(result: Result) -> None:
    """How a run ended, what it spent of privacy, and where it lies."""
    print_summary(result)
    private = result.status.get("privacy", {})
    if private.get("guarantee", "none") != "none":
        print(in_one_line(private))
    if result.folder is not None:
        print(f"folder: {result.folder}")
        if (page := REPORT.path(result.folder)).is_file():
            print(f"report: {page}")


def _default_folder(experiment: Experiment) -> Path:
    """A name that no other run has: two may begin in the same second."""
    task = experiment.task["name"] if experiment.task is not None else OWN
    names = "-".join(str(name).rpartition(":")[2] for name in (experiment.name, task))  # of one's own, without modules
    return Path("runs") / f"{names}-{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def _check_room(folder: Path, force: bool) -> None:
    """Refuse a folder that holds something else than a run that is to be replaced, before any work is done."""
    if not folder.exists() or (folder.is_dir() and not any(path.name != LOCK.name for path in folder.iterdir())):
        return
    if not force:
        raise SettingsError(str(folder), "is not empty; choose another --out, or replace a run with --force")
    if not folder.is_dir() or not began(folder):
        raise SettingsError(str(folder), "is not the folder of a run, and --force replaces nothing else")

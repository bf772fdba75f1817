"""From a plan's file to its answer on the terminal."""

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hush.app.tables import print_table
from hush.channel import OverTheAir
from hush.core.check import nearest
from hush.core.problem import Problem
from hush.plans.answer import Plan
from hush.plans.budgets import Budgets
from hush.plans.folder import SETTINGS
from hush.plans.planning import MINUTES, plan
from hush.plans.proxies import proxy_of
from hush.plans.tuning import tune
from hush.privacy.shown import rounded_up
from hush.report.formatting import bits as in_bits
from hush.settings import SettingsError, build, dumps, read
from hush.settings.schema import schema
from hush.settings.values import convert, fill
from hush.store import atomically

TABLES = ("task", "proxy", "channel", "plan")
BESIDE: dict[str, Any] = {"minutes": float, "seed": int, "algorithms": list[str]}  # what [plan] holds beside budgets


def answer(
    settings: Path,
    given: Mapping[str, Any],
    proxy: str | None,
    private_data: bool,
    out: Path,
    resume: bool,
    force: bool,
    quiet: bool,
) -> None:
    """Make the plan that a file and options ask for, and print what it found."""
    tables = read(settings)
    for name in tables:
        if name not in TABLES:
            raise SettingsError(name, f"unknown table of a plan's file; {nearest(name, TABLES)}")
    asked = _asked(tables.get("plan", {}), given)
    budgets = Budgets(**{name: value for name, value in asked.items() if name not in BESIDE})
    task = build({"algorithm": {"name": "fedavg"}, "task": tables.get("task", {})})
    if private_data:
        _check_alone(tables, given, proxy, resume)
        tuned(task.problem(), budgets, asked, out, force, quiet)
        return
    substitute, words = _proxy(task.task or {}, tables.get("proxy"), proxy, budgets)
    beside = {"minutes": MINUTES} | {name: value for name, value in asked.items() if name in BESIDE}
    found = plan(
        task.problem(),
        None if substitute is None else build({"algorithm": {"name": "fedavg"}, "task": substitute}).problem(),
        budgets=budgets,
        channel=_channel(tables.get("channel")),
        folder=out,
        resume=resume,
        replace=force,
        progress=not quiet,
        proxy_name=words,
        **beside,
    )
    tell(found)


def _asked(table: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What [plan] says, and what the command line says over it."""
    budgets = {name: value for name, value in table.items() if name not in BESIDE}
    checked = fill(Budgets, budgets, "plan", schema(Budgets))
    beside = {name: convert(value, BESIDE[name], f"plan.{name}") for name, value in table.items() if name in BESIDE}
    return checked | beside | dict(given)


def _proxy(
    task: Mapping[str, Any], table: Mapping[str, Any] | None, named: str | None, budgets: Budgets
) -> tuple[dict[str, Any] | None, str]:
    """The task to try candidates on, and what to call it; none where the task's own data will do."""
    if named is not None:
        table = {"use": named} if named == "set-aside" else {"name": named}
    if table is None and budgets.epsilon is None:
        return None, ""
    found = proxy_of(task, table)
    own = found["name"] == task["name"]
    return found, f"{found['name']}, " + (
        "the examples that no client gets" if own else "in place of the task's own data"
    )


def _check_alone(tables: Mapping[str, Any], given: Mapping[str, Any], proxy: str | None, resume: bool) -> None:
    """Refuse what tuning on the private data has no use for."""
    stray = [name for name in ("proxy", "channel") if name in tables] + (["--resume"] if resume else [])
    stray += (["--proxy"] if proxy is not None else []) + (["--minutes"] if "minutes" in given else [])
    if stray:
        raise SettingsError(stray[0], "goes with a plan on data that is not private, found it with --private-data")


def _channel(table: Any) -> OverTheAir | None:
    if table is None:
        return None
    made = build({"algorithm": {"name": "over_the_air"}, "channel": table}).algorithm.phases[0].channel
    if not isinstance(made, OverTheAir):
        raise SettingsError("channel", "a plan has use for a channel over the air: piece = 'over_the_air'")
    return made


def tuned(problem: Problem, budgets: Budgets, asked: Mapping[str, Any], out: Path, force: bool, quiet: bool) -> None:
    """Tune on the private data itself, and print what that costs."""
    settings = out / SETTINGS
    if settings.exists() and not force:
        raise SettingsError(str(settings), "is there already; choose another --out, or replace it with --force")
    if not quiet:  # a bar would tell how many there are, which is part of what keeps the data private
        words = "a secret number of private runs, none of which is shown: this takes some minutes"
        print(f"tuning on the private data: {words}", file=sys.stderr)
    found = tune(problem, budgets=budgets, algorithms=asked.get("algorithms"), seed=asked.get("seed", 0))
    total, alone, law = rounded_up(found.epsilon), rounded_up(found.alone), found.trials
    words = (
        f"ε = {total} at δ = {found.delta:g} covers the tuning on the private data (the best of a secret number of "
        f"runs, {law.law} with mean {law.mean:g}) and one run of these settings, which alone spends {alone}"
    )
    out.mkdir(parents=True, exist_ok=True)
    atomically(settings, lambda file: file.write(f"# {words}\n{dumps(found.tables())}".encode()))
    print(words)
    for name, text in found.description.table(found.delta).items():
        print(f"{name}: {text}")
    print(f"{found.choice.candidate.draft.family}: {found.choice.settings}; {found.score:.1%}")
    print(f"run it, once: hush run {settings}")


def tell(found: Plan) -> None:
    """The best few, what the first leaves over, and where it all lies."""
    print(f"made on {found.proxy}; {found.seconds:.0f} s, {found.trials['trial'].nunique()} candidates")
    headings = ["", "algorithm", "settings", "expected", "bits a client", "ε", "rounds"]
    print_table(headings, [_row(row, found.measure == "accuracy") for row in found.table.to_dict("records")])
    for name, had, spent in found.left_over():
        print(f"{name}: {spent:,.4g} of {had:,.4g}, {max(0.0, 1 - spent / had):.0%} left over")
    for reason, what in found.infeasible.items():
        print(f"not tried: {what}: {reason}")
    if not found.complete:
        print("interrupted: the answer so far; go on with --resume")
    if found.folder is not None:
        print(f"run it: hush run {found.folder / 'plan.toml'}")


def _row(row: Mapping[Any, Any], accuracy: bool) -> list[str]:
    score, low, high = row["score"], row["low"], row["high"]
    shown = f"{score:.1%}" if accuracy else f"loss {-score:.4g}"
    spread = "" if math.isinf(low) else f" ({low:.1%} to {high:.1%})" if accuracy else f" ({-high:.4g} to {-low:.4g})"
    private = "" if math.isnan(row["epsilon"]) else rounded_up(row["epsilon"])
    return [
        str(row["rank"]),
        row["algorithm"],
        row["settings"],
        shown + spread,
        in_bits(row["client_bits"]),
        private,
        str(row["rounds"]),
    ]

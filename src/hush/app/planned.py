"""From a plan's file to its answer on the terminal."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hush.app.tables import print_table
from hush.channel import OverTheAir
from hush.core.check import nearest
from hush.plan.answer import Plan
from hush.plan.budgets import Budgets
from hush.plan.planning import MINUTES, plan
from hush.plan.proxies import proxy_of
from hush.privacy.shown import rounded_up
from hush.report.formatting import bits as in_bits
from hush.settings import SettingsError, build, read
from hush.settings.schema import schema
from hush.settings.values import fill

TABLES = ("task", "proxy", "channel", "plan")
BESIDE = {"minutes": MINUTES, "seed": 0, "algorithms": None}  # what [plan] holds beside budgets


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
    substitute, words = _proxy(task.task or {}, tables.get("proxy"), proxy, budgets, private_data)
    found = plan(
        task.problem(),
        None if substitute is None else build({"algorithm": {"name": "fedavg"}, "task": substitute}).problem(),
        budgets=budgets,
        channel=_channel(tables.get("channel")),
        folder=out,
        resume=resume,
        replace=force,
        progress=not quiet,
        words={"proxy": words} if words else None,
        **{name: asked.get(name, value) for name, value in BESIDE.items()},
    )
    tell(found)


def _asked(table: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What [plan] says, and what the command line says over it."""
    budgets = {name: value for name, value in table.items() if name not in BESIDE}
    checked = fill(Budgets, budgets, "plan", schema(Budgets))
    return checked | {name: value for name, value in table.items() if name in BESIDE} | dict(given)


def _proxy(
    task: Mapping[str, Any], table: Mapping[str, Any] | None, named: str | None, budgets: Budgets, private_data: bool
) -> tuple[dict[str, Any] | None, str]:
    """The task to try candidates on, and what to call it; none where the task's own data will do."""
    if named is not None:
        table = {"use": named} if named == "set-aside" else {"name": named}
    if table is None and budgets.epsilon is None:
        return None, ""
    found = proxy_of(task, table)
    own = found["name"] == task["name"]
    return found, f"{found['name']}, " + ("the examples that no client gets" if own else "in place of the task's own data")


def _channel(table: Any) -> OverTheAir | None:
    if table is None:
        return None
    made = build({"algorithm": {"name": "over_the_air"}, "channel": table}).algorithm.phases[0].channel
    if not isinstance(made, OverTheAir):
        raise SettingsError("channel", "a plan has use for a channel over the air: piece = 'over_the_air'")
    return made


def tell(found: Plan) -> None:
    """The best few, what the first leaves over, and where it all lies."""
    print(f"made on {found.proxy}; {found.seconds:.0f} s, {found.trials['trial'].nunique()} candidates")
    headings = ["", "algorithm", "settings", "expected", "bits a client", "ε", "rounds"]
    print_table(headings, [_row(row) for row in found.table.to_dict("records")])
    for name, had, spent in found.left_over():
        print(f"{name}: {spent:,.4g} of {had:,.4g}, {max(0.0, 1 - spent / had):.0%} left over")
    for reason, what in found.infeasible.items():
        print(f"not tried: {what}: {reason}")
    if not found.complete:
        print("interrupted: the answer so far; go on with --resume")
    if found.folder is not None:
        print(f"run it: hush run {found.folder / 'plan.toml'}")


def _row(row: Mapping[Any, Any]) -> list[str]:
    score, low, high = row["score"], row["low"], row["high"]
    shown = f"{score:.1%}" if score > 0 else f"loss {-score:.4g}"
    spread = "" if math.isinf(low) else f" ({low:.1%} to {high:.1%})" if score > 0 else ""
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

"""Plans beside an exhaustive grid, the papers' own settings and a random search, on twenty problems.

    python benchmarks/planning.py --cache FOLDER                       everything (some hours on 2 cores)
    python benchmarks/planning.py --cache FOLDER --problems 1,2,5-8    only these
    python benchmarks/planning.py --cache FOLDER --only grid           only this part of: grid, defaults, plan, random
    python benchmarks/planning.py --cache FOLDER --json FILE           the numbers as well

A plan is made on data that is not the clients' (`planning_problems.py`). What it chose is run on the clients' own, with
as many rounds and as much noise as the same budgets allow there, and three fresh seeds; so is the best of the grid, the
papers' settings, and what the random search found. Each part of each problem is kept in a file of the folder as it goes
and is not made again: parts may be made elsewhere. Accuracies are in percent. Times are with nothing compiled before,
and mean something only if nothing else runs on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hush.cores import compile_quickly

compile_quickly()  # as the command does

import jax  # noqa: E402

from hush.compiled import use_cache  # noqa: E402
from hush.plans.bench import Bench  # noqa: E402
from planning_defaults import defaults_of  # noqa: E402
from planning_grid import LEAST_SETTINGS, LIMIT, MENUS, run_grid  # noqa: E402
from planning_problems import PROBLEMS, Asked  # noqa: E402
from planning_random import random_search  # noqa: E402
from planning_runs import JUDGED, SEARCHED, Kept, Setting, judge_all, judge_or_fail, judged_from  # noqa: E402

# The criteria.
WITHIN, ENOUGH_WITHIN = 1.5, 16  # points below the best of the grid, on so many problems at least
ENOUGH_BETTER = 18  # problems on which the plan beats the papers' settings
MOST_MINUTES = 3.0  # for a plan, on 2 cores
LONGER = 3.0  # times as long as the plan, a random search may go on to come to what the plan came to
Table = dict[str, Any]


def planned(asked: Asked, minutes: float) -> tuple[Setting, float]:
    """The plan's first choice, and the seconds that it took: the one place that knows the planner."""
    from hush.plans.planning import plan

    answer = plan(asked.real, proxy=asked.proxy, budgets=asked.budgets, minutes=minutes, seed=0, progress=False)
    if not answer.complete:
        raise KeyboardInterrupt("told to stop: half a plan is no plan")
    best = answer.best[0]
    draft = best.candidate.draft
    return Setting(draft.family, dict(draft.choices), dict(best.point), best.candidate.rounds), float(answer.seconds)


def grid_part(asked: Asked, kept: Kept, options: argparse.Namespace) -> None:
    """Every setting of the grid."""
    run_grid(asked.scene(), MENUS[asked.kind], kept, say, options.limit)


def defaults_part(asked: Asked, kept: Kept, options: argparse.Namespace) -> None:
    """The papers' settings; where there are two, the better one counts."""
    bench = kept.bench("judged", asked.scene(), JUDGED)
    best = judge_all(bench, defaults_of(asked, bench), lambda: kept.keep({"judged": bench}))
    kept.keep(best=[each.table() for each in best])


def plan_part(asked: Asked, kept: Kept, options: argparse.Namespace) -> None:
    """The plan, made on the proxy, and what it chose on the real task."""
    _ = asked.real, asked.proxy  # which are made before the time is taken
    forget()
    began, load = time.perf_counter(), os.getloadavg()[0]
    setting, seconds = planned(asked, options.minutes)
    took = max(seconds, time.perf_counter() - began)
    found = judge_or_fail(kept.bench("judged", asked.scene(), JUDGED), setting)
    kept.keep(best=[found.table()], seconds=took, minutes=options.minutes, load=load)


def random_part(asked: Asked, kept: Kept, options: argparse.Namespace) -> None:
    """What a random search finds in the plan's own time, and when it comes to what the plan came to, if ever."""
    plan = kept_of(options.cache, asked, "plan").found
    if "best" not in plan:
        raise SystemExit(f"problem {asked.number}: a random search is given the plan's own time; make the plan first")
    aim, seconds = judged_from(plan["best"][0]).score, plan["seconds"]
    judging, searching = Bench(asked.scene(), JUDGED), Bench(asked.stage(), SEARCHED)
    forget()
    best, reached = None, None
    for found in random_search(searching, options.longer * seconds, seed=asked.number):
        judged = judge_or_fail(judging, found.setting)
        if best is None or found.seconds <= seconds:
            best = judged.table() | {"tried": found.tried}
        if reached is None and judged.score >= aim:
            reached = found.seconds
        if reached is not None and found.seconds > seconds:
            break
    kept.keep(best=[] if best is None else [best], reached=reached, longest=options.longer * seconds)


PARTS = {"grid": grid_part, "defaults": defaults_part, "plan": plan_part, "random": random_part}


def forget() -> None:
    """Nothing is compiled yet: what ran before must not make anything that is timed look quick."""
    use_cache(False)
    jax.clear_caches()


def kept_of(folder: Path, asked: Asked, part: str) -> Kept:
    """The file of one part of one problem."""
    return Kept(folder / f"{asked.number:02d}-{part}.json", asked.marks)


def row_of(asked: Asked, folder: Path) -> Table:
    """All that is known of a problem, accuracies in percent."""
    found = {part: kept_of(folder, asked, part).found for part in PARTS}
    row: Table = {"number": asked.number, "problem": asked.words}
    for part, kept in found.items():
        row[part] = 100 * judged_from(kept["best"][0]).score if kept.get("best") else None
    row["settings"] = len(found["grid"].get("settings", ()))
    row["grid_seconds"], row["seconds"] = (found[part].get("seconds") for part in ("grid", "plan"))
    row["chosen"] = found["plan"]["best"][0] if row["plan"] is not None else None
    if row["random"] is not None and row["seconds"]:
        reached = found["random"]["reached"]
        row["ratio"] = (reached or found["random"]["longest"]) / row["seconds"]
        row["reached"] = reached is not None
    return row


def criteria(rows: Iterable[Table]) -> list[tuple[str, int, int, int]]:
    """Each criterion in words, on how many problems it is met, of how many, and on how many it has to be."""
    made = [row for row in rows if row["plan"] is not None]
    beside = {part: [row for row in made if row[part] is not None] for part in ("grid", "defaults")}
    near = sum(row["plan"] >= row["grid"] - WITHIN for row in beside["grid"])
    better = sum(row["plan"] > row["defaults"] for row in beside["defaults"])
    quick = sum(row["seconds"] <= 60 * MOST_MINUTES for row in made)
    full = [row for row in rows if row["grid"] is not None]
    large = sum(row["settings"] >= LEAST_SETTINGS for row in full)
    return [
        (f"within {WITHIN:g} points of the best of the grid", near, len(beside["grid"]), ENOUGH_WITHIN),
        ("better than the papers' settings", better, len(beside["defaults"]), ENOUGH_BETTER),
        (f"planned in {MOST_MINUTES:g} minutes at most", quick, len(made), len(PROBLEMS)),
        (f"{LEAST_SETTINGS} settings in the grid at least", large, len(full), len(PROBLEMS)),
    ]


def print_rows(rows: Iterable[Table]) -> None:
    """The table: what each came to, and how much longer a random search takes to come to as much."""
    print("| | problem | plan | grid | settings | papers | random | plan, s | random takes |\n" + "|---" * 9 + "|")
    for row in rows:
        plan, grid, papers, drawn = (
            "–" if row[part] is None else f"{row[part]:.1f}" for part in ("plan", "grid", "defaults", "random")
        )
        ratio = f"{'' if row['reached'] else '> '}{row['ratio']:.2g} ×" if "ratio" in row else "–"
        took = f"{row['seconds']:.0f}" if row["seconds"] else "–"
        cells = (row["number"], row["problem"], plan, grid, row["settings"], papers, drawn, took, ratio)
        print("| " + " | ".join(map(str, cells)) + " |")


def print_criteria(found: Iterable[tuple[str, int, int, int]]) -> None:
    for words, met, of, needed in found:
        verdict = "met" if met >= needed else "NOT MET" if of == len(PROBLEMS) else "open"
        print(f"{words}: {met} of {of}; {needed} of {len(PROBLEMS)} are asked for: {verdict}")


def keep(options: argparse.Namespace) -> None:
    """What was found, as a folder that `--cache` takes: of the grid's settings no more than their scores."""
    for number in options.problems:
        for part in PARTS:
            found = kept_of(options.cache, PROBLEMS[number], part).found
            if "best" in found:
                small = {name: value for name, value in found.items() if name not in ("searched", "judged")}
                if "settings" in small:
                    small["settings"] = [round(_score(each), 4) for each in small["settings"]]
                options.keep.mkdir(parents=True, exist_ok=True)
                (options.keep / f"{number:02d}-{part}.json").write_text(json.dumps(small, indent=1) + "\n")


def _score(setting: Any) -> float:
    return float(setting["score"] if isinstance(setting, dict) else setting)


def numbers(text: str) -> list[int]:
    """1,2,5-8 as numbers of problems."""
    ends = [part.partition("-") for part in text.split(",")]
    found = [number for low, _, high in ends for number in range(int(low), int(high or low) + 1)]
    if unknown := [number for number in found if number not in PROBLEMS]:
        raise ValueError(f"problems are numbered 1 to {len(PROBLEMS)}, found {unknown}")
    return found


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def asked_for() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=numbers, default=list(PROBLEMS), help="such as 1,2,5-8; all if not given")
    parser.add_argument("--cache", type=Path, help="the folder of what was made before; nothing is kept without it")
    parser.add_argument("--minutes", type=float, default=MOST_MINUTES, help="that a plan may take")
    parser.add_argument("--longer", type=float, default=LONGER, help="times as long, at most, a random search may take")
    parser.add_argument(
        "--limit", type=float, default=LIMIT, help="seconds of a grid's runs on 2 cores, beyond which it is thinned"
    )
    parser.add_argument("--only", choices=(*PARTS, "table"), help="only this part; or the table of what there is")
    parser.add_argument("--keep", type=Path, help="write what was found to this folder, without the measurements")
    parser.add_argument("--json", type=Path, help="write the rows to this file, too")
    return parser.parse_args()


def main() -> None:
    options = asked_for()
    with tempfile.TemporaryDirectory() as nowhere:
        options.cache = options.cache or Path(nowhere)
        for number in options.problems:
            for part in () if options.only == "table" else [options.only] if options.only else PARTS:
                kept = kept_of(options.cache, PROBLEMS[number], part)
                if "best" not in kept.found:
                    say(f"{number}: {part} …")
                    PARTS[part](PROBLEMS[number], kept, options)
            PROBLEMS[number].let_go()
        rows = [row_of(PROBLEMS[number], options.cache) for number in options.problems]
        if options.keep:
            keep(options)
    print_rows(rows)
    print()
    print_criteria(criteria(rows))
    print(
        f"\n{os.cpu_count()} cores, {platform.machine()}, {jax.default_backend()}, Python {platform.python_version()}"
    )
    if options.json:
        options.json.write_text(json.dumps({"rows": rows, "criteria": criteria(rows)}, indent=1))


if __name__ == "__main__":
    main()

"""Runs hush and its peers on the same workloads, one after another in turns, and prints one table of rates and ratios.

    python benchmarks/run.py                                # everything, the median of three runs
    python benchmarks/run.py --only hush,plain_torch        # some contenders
    python benchmarks/run.py --workloads W1,W3 --repeat 1   # some workloads, once
    python benchmarks/run.py --seconds-limit 10             # a quick look

Run it with the interpreter of hush's own environment. The peers' environments are made on first use (see
environments.py). A ratio above 1 means hush is faster. Accuracy is printed to show that all did the same
work; compare it only where the number of rounds is the same too. Nothing else should run on the machine
meanwhile. The results are also written to benchmarks/results/latest.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import environments
import workloads

HERE = Path(__file__).resolve().parent
LATEST = HERE / "results" / "latest.json"


@dataclass(frozen=True)
class Contender:
    name: str
    environment: str
    script: str
    supported: tuple[str, ...] = tuple(workloads.WORKLOADS)


CONTENDERS = (
    Contender("hush", "hush", "hush_workloads.py"),
    Contender("plain_torch", "pfl", "peers/plain_torch.py"),
    Contender("pfl", "pfl", "peers/pfl_peer.py"),
    Contender("fedjax", "fedjax", "peers/fedjax_peer.py"),
    Contender("whole_program_jax", "hush", "peers/whole_program_jax.py", supported=("W1",)),
)
MEASURED = ("rounds_per_second", "first_round_seconds", "peak_memory_mb", "accuracy")


def run_once(contender: Contender, workload: str, seconds_limit: float | None) -> dict:
    """One run in a process of its own: its JSON line, or a line with the reason why there is none."""
    try:
        python = environments.ensure(contender.environment)
    except environments.EnvironmentFailed as error:
        return failure(contender, workload, str(error))
    script = HERE / contender.script
    if not script.exists():
        return failure(contender, workload, f"no {contender.script}")
    command = [str(python), str(script), workload, "--json"]
    if seconds_limit is not None:
        command += ["--seconds-limit", str(seconds_limit)]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    if completed.returncode != 0:
        last = (completed.stderr.strip().splitlines() or ["no message"])[-1]
        return failure(contender, workload, f"failed: {last}")
    try:
        return json.loads(completed.stdout.strip().splitlines()[-1])
    except (IndexError, json.JSONDecodeError):
        return failure(contender, workload, "printed no JSON line")


def failure(contender: Contender, workload: str, reason: str) -> dict:
    return {"contender": contender.name, "workload": workload, "failed": True, "notes": reason}


def median(lines: list[dict]) -> dict:
    """The median of every measured number over the runs; a failed run stands for all of them."""
    failed = [line for line in lines if line.get("failed")]
    if failed:
        return failed[0]
    middle = {}
    for key in MEASURED:
        values = [line[key] for line in lines if line.get(key) is not None]
        middle[key] = statistics.median(values) if values else None
    return {**lines[-1], **middle, "runs": lines}


def with_ratios(lines: list[dict]) -> list[dict]:
    """Adds hush's rate over each peer's: the median of the ratios, each of two runs in the same turn."""

    def rates(line: dict) -> list[float | None]:
        return [run.get("rounds_per_second") for run in line.get("runs", [])]

    hush = {line["workload"]: rates(line) for line in lines if line["contender"] == "hush"}
    finished = []
    for line in lines:
        pairs = zip(hush.get(line["workload"], []), rates(line), strict=False)
        ratios = [ours / theirs for ours, theirs in pairs if ours and theirs]
        finished.append({**line, "hush_over_this": statistics.median(ratios) if ratios else None})
    return finished


def cells(line: dict) -> list[str]:
    def show(key: str, form: str) -> str:
        return format(line[key], form) if line.get(key) is not None else "–"

    return [
        line["workload"],
        line["contender"],
        show("rounds_per_second", ".3g"),
        show("hush_over_this", ".2f"),
        show("rounds", "d"),
        show("first_round_seconds", ".2f"),
        show("peak_memory_mb", ".0f"),
        show("accuracy", ".3f"),
        line.get("notes") or "",
    ]


HEADER = [
    "work",
    "contender",
    "rounds/s",
    "hush/this",
    "rounds",
    "first round, s",
    "memory, MB",
    "accuracy",
    "notes",
]


def print_table(lines: list[dict]) -> None:
    """With rich where it is installed, else in plain columns."""
    rows = [cells(line) for line in lines]
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        widths = [max(len(row[column]) for row in [HEADER, *rows]) for column in range(len(HEADER))]
        for row in [HEADER, *rows]:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        return
    table = Table(*HEADER[:2], title="rounds per second, median; hush/this above 1: hush is faster")
    for column in HEADER[2:-1]:
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column(HEADER[-1], overflow="fold")
    for position, row in enumerate(rows):
        last_of_workload = position + 1 == len(rows) or rows[position + 1][0] != row[0]
        table.add_row(*row, end_section=last_of_workload)
    # A file or a pipe has no width of its own, and the notes need room.
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def chosen(text: str | None, known: tuple[str, ...], what: str) -> tuple[str, ...]:
    """The names in a comma-separated list, in the order of ``known``; all of them without a list."""
    if text is None:
        return known
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        sys.exit(f"unknown {what} {', '.join(unknown) or '(none given)'}; choose from {', '.join(known)}")
    return tuple(name for name in known if name in names)


def parse_arguments() -> argparse.Namespace:
    names = ", ".join(contender.name for contender in CONTENDERS)
    titles = "\n".join(f"  {workload.name}  {workload.title}" for workload in workloads.WORKLOADS.values())
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=f"workloads:\n{titles}\n\ncontenders: {names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", metavar="A,B", help="contenders to run (default: all)")
    parser.add_argument("--workloads", metavar="W1,W2", help="workloads to run (default: all)")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each, of which the median counts (default: 3)")
    parser.add_argument("--seconds-limit", type=float, help="cut each run after about this many seconds")
    arguments = parser.parse_args()
    if arguments.repeat < 1:
        parser.error(f"--repeat must be at least 1, got {arguments.repeat}")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    names = chosen(arguments.only, tuple(contender.name for contender in CONTENDERS), "contender")
    lines = []
    for workload in chosen(arguments.workloads, tuple(workloads.WORKLOADS), "workload"):
        present = [each for each in CONTENDERS if each.name in names and workload in each.supported]
        # In turns, so that a machine that slows down for a while does so for all of them.
        runs: dict[str, list[dict]] = {contender.name: [] for contender in present}
        for turn in range(1, arguments.repeat + 1):
            for contender in present:
                print(f"{workload} {contender.name}, {turn} of {arguments.repeat} …", file=sys.stderr, flush=True)
                runs[contender.name].append(run_once(contender, workload, arguments.seconds_limit))
        lines += [median(found) for found in runs.values()]
    lines = with_ratios(lines)
    LATEST.parent.mkdir(exist_ok=True)
    machine = {"processor": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
    LATEST.write_text(json.dumps({"machine": machine, "repeat": arguments.repeat, "results": lines}, indent=1))
    print_table(lines)
    print(f"written to {LATEST.relative_to(HERE.parent)}", file=sys.stderr)


if __name__ == "__main__":
    main()

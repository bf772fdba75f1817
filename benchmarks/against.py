"""This tree beside another commit, in turns on one machine: does any workload run slower than it did?

    python benchmarks/against.py v0.1.0                          # all workloads, the median of five turns
    python benchmarks/against.py HEAD~5 --workloads W1,W3 --turns 9

Each run is a process of its own, on the other commit's files in a worktree that is taken away again. A ratio above 1
means that this tree is faster. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import workloads

ROOT = Path(__file__).resolve().parents[1]


def rate(tree: Path, workload: str, seconds_limit: float) -> float:
    """Rounds a second of one run of the workload by this tree's files."""
    command = [sys.executable, str(tree / "benchmarks" / "hush_workloads.py"), workload, "--json"]
    command += ["--seconds-limit", str(seconds_limit)]
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    run = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if run.returncode:
        raise SystemExit(f"{workload} of {tree} failed:\n{run.stderr}")
    return json.loads(run.stdout.strip().splitlines()[-1])["rounds_per_second"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--workloads", default=",".join(workloads.WORKLOADS))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds-limit", type=float, default=20.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        other = Path(place) / "other"
        subprocess.run(["git", "worktree", "add", "--detach", str(other), asked.commit], cwd=ROOT, check=True)
        try:
            print(f"{'workload':10} {'rounds/s here':>14} {'there':>10} {'ratio':>7} {'from':>7} {'to':>7}")
            for workload in asked.workloads.split(","):
                pairs = [
                    [rate(tree, workload, asked.seconds_limit) for tree in (ROOT, other)] for _ in range(asked.turns)
                ]
                ratios = sorted(here / there for here, there in pairs)
                here, there = (statistics.median(column) for column in zip(*pairs, strict=True))
                middle = statistics.median(ratios)
                print(
                    f"{workload:10} {here:14.2f} {there:10.2f} {middle:7.3f} {ratios[0]:7.3f} {ratios[-1]:7.3f}",
                    flush=True,
                )
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(other)], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()

"""What a second process costs: W2 in one process with two devices, against two processes with one device each.

    python benchmarks/hosts.py [TURNS] [ROUNDS] [WORKLOAD]

Both are started once, and then time so many rounds in turns: while one computes, the other waits to be told. Printed is
the speed of two processes over that of one, in each turn and the median; above 0.85 is the aim.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve()


def work() -> None:
    """A process that is told how many rounds to run, a line at a time, and says how long they took."""
    address, process, processes, name = sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    import hush

    if processes > 1:
        hush.distributed.start(address, process, processes)
    import time

    import workloads
    from hush_workloads import Hush

    workload = workloads.find(name)
    simulation = Hush(workload, workloads.generate(workload)).simulation
    simulation.advance(1)
    print("ready", flush=True)
    for line in sys.stdin:
        begin = time.perf_counter()
        for _ in range(int(line)):
            simulation.advance(1)
        print(time.perf_counter() - begin, flush=True)


class Contender:
    """One process or two, which compute when they are told to."""

    def __init__(self, processes: int, devices: int, workload: str) -> None:
        with socket.socket() as trial:
            trial.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{trial.getsockname()[1]}"
        environment = os.environ | {"JAX_NUM_CPU_DEVICES": str(devices)}
        self.children = [
            subprocess.Popen(
                [sys.executable, str(HERE), "work", address, str(index), str(processes), workload],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
            for index in range(processes)
        ]

    def answers(self) -> list[str]:
        """The next line of each process that is no line of a library's."""
        found = []
        for child in self.children:
            while (line := child.stdout.readline()).startswith("[Gloo]"):
                pass
            if not line:
                raise SystemExit(f"a process has ended with {child.wait()}")
            found.append(line.strip())
        return found

    def timed(self, rounds: int) -> float:
        """Seconds that so many rounds take, of the process that took longest."""
        for child in self.children:
            child.stdin.write(f"{rounds}\n")
            child.stdin.flush()
        return max(map(float, self.answers()))

    def end(self) -> None:
        for child in self.children:
            child.stdin.close()
        for child in self.children:
            try:
                child.wait(60)
            except subprocess.TimeoutExpired:
                child.kill()


def main() -> None:
    turns, rounds, name = (*sys.argv[1:], *("5", "10", "W2")[len(sys.argv) - 1 :])
    contenders = {"one process, two devices": Contender(1, 2, name), "two processes, one each": Contender(2, 1, name)}
    try:
        for contender in contenders.values():
            assert set(contender.answers()) == {"ready"}
        ratios = []
        for turn in range(int(turns)):
            one, two = (contender.timed(int(rounds)) / int(rounds) for contender in contenders.values())
            ratios.append(one / two)
            print(f"turn {turn}: one {one:.3f} s a round, two {two:.3f} s, ratio {ratios[-1]:.2f}", flush=True)
        print(f"{name}: two processes run at {statistics.median(ratios):.2f} of one process's speed")
    finally:
        for contender in contenders.values():
            contender.end()


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    work() if sys.argv[1:2] == ["work"] else main()

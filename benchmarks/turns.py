"""Rounds of several algorithms on one problem, timed in turns, and a table of them."""

from __future__ import annotations

import statistics
import time

from hush.execution.simulation import Simulation


def in_turns(algorithms: dict, problem, turns: int, rounds: int) -> dict[str, list[float]]:
    """Seconds a round, for each algorithm and turn; the turn that compiles does not count."""
    simulations = {name: Simulation(algorithm, problem) for name, algorithm in algorithms.items()}
    seconds: dict[str, list[float]] = {name: [] for name in algorithms}
    for turn in range(turns + 1):
        for name, simulation in simulations.items():
            begin = time.perf_counter()
            simulation.advance(rounds)
            if turn:
                seconds[name].append((time.perf_counter() - begin) / rounds)
    return seconds


def ratio(mine: list[float], other: list[float]) -> float:
    """The median of the ratios within a turn."""
    return statistics.median(a / b for a, b in zip(mine, other, strict=True))


def print_rounds(title: str, seconds: dict[str, list[float]], beside: str) -> None:
    """Milliseconds a round, and the ratio to one of them."""
    print(f"{title:32} {'ms':>9} {'ratio':>6}")
    for name, took in seconds.items():
        print(f"{name:32} {1000 * statistics.median(took):9.2f} {ratio(took, seconds[beside]):6.3f}")

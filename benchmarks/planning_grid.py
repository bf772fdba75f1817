"""The exhaustive grid of a problem: every combination of a few values of everything, each run to its end.

It is laid out by what a problem protects and by nothing that the planner's search knows. Values of floats are lanes of
one program. All are run with one seed; the best few of them again with fresh seeds, so that the best of many is not
flattered.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from hush.plans.bench import Bench
from hush.plans.budgets import Infeasible
from hush.plans.candidate import Candidate, Draft
from hush.plans.choices import DECAY, sizes, steps_and_batch, work
from hush.plans.scene import Scene
from planning_runs import JUDGED, SEARCHED, Judged, Kept, Setting, admit, excess, judge_all

LEAST_SETTINGS = 150
AGAIN = 5  # of the best, with fresh seeds
LIMIT = 200.0  # seconds that all runs may take by the reckoning below, before the costliest are thinned out
# Seconds on 2 cores: for a message, each of its numbers, a local step, an example of it, and a number of its gradient.
MESSAGE, NUMBER, STEP, EXAMPLE, OWN_GRADIENT = 30e-6, 5e-9, 12e-6, 0.5e-6, 0.2e-9
PLAIN_POINTS = {"lr": (0.03, 0.1, 0.3, 1.0), "decay": (DECAY.least, 5.0), "server_lr": (1.0,), "mu": (0.1,)}
CLIPPED_POINTS = {"lr": (0.1, 0.3, 1.0), "clip": (0.1, 0.3, 1.0), "server_lr": (1.0,), "decay": (DECAY.least, 5.0)}


@dataclass(frozen=True)
class Menu:
    """Values of everything, for one kind of problem; those of a problem are the nearest it has."""

    families: Mapping[str, Mapping[str, Sequence[Any]]]  # what a family has in place of the values below
    points: Mapping[str, Sequence[float]]
    local: Sequence[str]  # steps x batch
    shares: Sequence[float]  # of the clients
    codings: Sequence[str]
    rounds: Sequence[int | None] = (None,)
    bands: Sequence[int] = (4,)
    thinned: str = "decay"  # the coordinate of which the costliest programs have the first value alone

    def choices(self, family: str, scene: Scene) -> Iterator[dict[str, Any]]:
        """Every combination for this family."""
        own = {"local": self.local, "clients": self.shares, "coding": self.codings, "rounds": self.rounds}
        own = {**own, "bands": self.bands, **self.families[family]}
        if family.startswith("dp_fedavg") and not _bits_count(scene):
            own["coding"] = ("none",)
        own["local"] = unique(_nearest_work(wanted, work(scene)) for wanted in own["local"])
        own["clients"] = unique(_nearest_size(share, scene) for share in own["clients"])
        for values in itertools.product(*own.values()):
            yield dict(zip(own, values, strict=True))


MENUS = {
    "plain": Menu(
        families={
            "fedpaq": {},
            "fedavg": {"coding": ("none",), "clients": (0.05, 0.2)},
            "fedprox": {"coding": ("7/256 dense",), "clients": (0.1,), "local": ("5 x 20", "20 x 10")},
            "scaffold": {"coding": ("7/256 dense",), "clients": (0.1,), "local": ("5 x 20", "20 x 10")},
        },
        points=PLAIN_POINTS,
        local=("2 x 20", "5 x 20", "20 x 10"),
        shares=(0.05, 0.2, 0.5),
        codings=("1 elias", "4 elias", "7/256 dense"),
    ),
    "client": Menu(
        families={
            "dp_fedavg": {},
            "dp_fedavg adaptive": {"coding": ("none",), "clients": (0.2,), "rounds": (40, None)},
            "dp_fedavg correlated": {"clients": (0.2,), "rounds": (40, None), "coding": ("none", "7/256 dense")},
        },
        points=CLIPPED_POINTS,
        local=("2 x 20", "10 x 20"),
        shares=(0.1, 0.5),
        codings=("none", "7/256 dense"),
        rounds=(20, 60, None),
    ),
    "example": Menu(
        families={"private_fedpaq": {}},
        points=CLIPPED_POINTS,
        local=("1 x 50", "5 x 20", "10 x 10"),
        shares=(0.1, 0.5),
        codings=("1/256 dense", "7/256 dense", "none"),
        rounds=(20, 60, None),
    ),
}


@dataclass
class Block:
    """Settings that differ in floats only: lanes of one program, with one number of rounds."""

    candidate: Candidate
    points: list[dict[str, float]]
    few: list[dict[str, float]]  # for when there is no time for all
    each: float  # seconds that one of them takes, about

    @property
    def seconds(self) -> float:
        """About how long all take."""
        return len(self.points) * self.each


def reckoned(scene: Scene, candidate: Candidate) -> float:
    """Seconds of one run on 2 cores, about: so long for a message, for a step and for each example of its batch."""
    draft, dimension = candidate.draft, scene.dimension
    batch = steps_and_batch(draft.choices["local"])[1] or scene.population.examples / scene.clients
    example = EXAMPLE + (OWN_GRADIENT * dimension if draft.family == "private_fedpaq" else 0.0)
    client = MESSAGE + NUMBER * dimension + draft.steps * (STEP + example * batch)
    return candidate.rounds * draft.clients * client


def blocks_of(bench: Bench, menu: Menu, limit: float = LIMIT) -> list[Block]:
    """All that the budgets can pay for: no two alike, and the costliest with fewer points if all take too long."""
    found: dict[Any, Block] = {}
    for family in menu.families:
        for choices in menu.choices(family, bench.scene):
            draft = Setting(family, choices, {}).draft(bench.scene)
            try:
                candidate = admit(bench, draft)
            except Infeasible:
                continue
            # As many rounds as were asked for, and as many as can be paid for, may be the same.
            same = family, candidate.rounds, *(value for name, value in draft.choices.items() if name != "rounds")
            points = points_of(draft, menu.points)
            few = [point for point in points if point[menu.thinned] == menu.points[menu.thinned][0]]
            found.setdefault(same, Block(candidate, points, few, reckoned(bench.scene, candidate)))
    return thinned(list(found.values()), limit)


def points_of(draft: Draft, values: Mapping[str, Sequence[float]]) -> list[dict[str, float]]:
    """Every combination of values of the coordinates that a draft has; an adaptive clip only begins somewhere."""
    names = [each.name for each in draft.coordinates]
    begins = {"clip"} if "adaptive" in draft.family else set()
    own = [(values[name][len(values[name]) // 2],) if name in begins else values[name] for name in names]
    return [dict(zip(names, combination, strict=True)) for combination in itertools.product(*own)]


def thinned(blocks: list[Block], limit: float = LIMIT) -> list[Block]:
    """The costliest lose points until all are within the limit, or too few settings would be left."""
    total, settings = sum(block.seconds for block in blocks), sum(len(block.points) for block in blocks)
    for block in sorted(blocks, key=lambda each: -each.each):
        fewer = len(block.points) - len(block.few)
        if total <= limit or settings - fewer < LEAST_SETTINGS:
            break
        total, settings, block.points = total - fewer * block.each, settings - fewer, block.few
    return blocks


def unique(values: Any) -> list[Any]:
    """Without what came before."""
    return list(dict.fromkeys(values))


def _nearest_work(wanted: str, options: Sequence[str]) -> str:
    """The work of the menu with the nearest number of steps, and of these the nearest batch."""
    steps, batch = steps_and_batch(wanted)

    def apart(option: str) -> tuple[float, float]:
        own_steps, own_batch = steps_and_batch(option)
        return abs(own_steps - steps), abs((own_batch or 10**6) - (batch or 10**6))

    return min(options, key=apart)


def _bits_count(scene: Scene) -> bool:
    """Whether a shorter message buys anything."""
    return scene.budgets.client_bits is not None or scene.budgets.uplink < inf


def _nearest_size(share: float, scene: Scene) -> int:
    return min(sizes(scene), key=lambda size: abs(size - share * scene.clients))


def run_grid(
    scene: Scene, menu: Menu, kept: Kept, say: Any = print, limit: float = LIMIT
) -> tuple[Judged, list[dict[str, Any]]]:
    """The best setting of the grid as judged with fresh seeds, and all of them with their scores."""
    began = time.perf_counter() - kept.found.get("seconds", 0.0)
    benches = {"searched": kept.bench("searched", scene, SEARCHED), "judged": kept.bench("judged", scene, JUDGED)}

    def keep() -> None:
        kept.keep(benches, seconds=time.perf_counter() - began)

    blocks, rows = blocks_of(benches["searched"], menu, limit), []
    keep()
    say(f"{len(blocks)} blocks, {sum(len(each.points) for each in blocks)} settings, "
        f"about {sum(each.seconds for each in blocks):.0f} s of runs")  # fmt: skip
    for block in sorted(blocks, key=lambda each: each.candidate.name):
        rows += _scored(benches["searched"], block)
        keep()
    rows.sort(key=lambda row: -row["score"])
    best = judge_all(benches["judged"], [_setting(row) for row in rows[:AGAIN]], keep)
    kept.keep(benches, settings=rows, best=[each.table() for each in best], seconds=time.perf_counter() - began)
    return best[0], rows


def _scored(bench: Bench, block: Block) -> list[dict[str, Any]]:
    """Every setting of a block that kept the budgets, with its score."""
    candidate = block.candidate
    made = {"family": candidate.draft.family, "choices": dict(candidate.draft.choices), "rounds": candidate.rounds}
    found = [each[0] for each in bench.measure(candidate, block.points, candidate.rounds)]
    return [
        made | {"point": point, "noise": candidate.noise, "score": measured.score, "client_bits": measured.most_bits}
        for point, measured in zip(block.points, found, strict=True)
        if candidate.bits_known or excess(bench.scene, candidate, measured) <= 1
    ]


def _setting(row: Mapping[str, Any]) -> Setting:
    return Setting(row["family"], row["choices"], row["point"], row["rounds"])

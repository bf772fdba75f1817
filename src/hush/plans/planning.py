"""`plan`: under these budgets, what should I run?"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hush.algorithms import fedavg
from hush.channel import OverTheAir
from hush.core.check import flag, positive
from hush.core.check import seed as check_seed
from hush.core.flat import dimension
from hush.core.problem import Problem
from hush.extras import require
from hush.plans.answer import Plan, choice_of
from hush.plans.bench import Bench
from hush.plans.budgets import Budgets
from hush.plans.families import families_for
from hush.plans.feasible import check_feasible
from hush.plans.folder import PlanFolder
from hush.plans.proxies import CHOICES
from hush.plans.scene import Scene
from hush.plans.writing import write
from hush.runs.progress import Stages
from hush.stopping import listening
from hush.store.fingerprint import fingerprint
from hush.store.lock import locked

MINUTES = 3.0
IN_FRONTS = 2  # of the best
NOT_PRIVATE = "the task's own data: no ε was asked for, so that nothing is claimed to be private"


def plan(
    problem: Problem,
    proxy: Problem | None = None,
    *,
    budgets: Budgets | None = None,
    algorithms: Sequence[str] | None = None,
    channel: OverTheAir | None = None,
    minutes: float = MINUTES,
    seed: int = 0,
    folder: str | Path | None = None,
    resume: bool = False,
    replace: bool = False,
    progress: bool = True,
    proxy_name: str = "another problem, given as the proxy",
    **limits: Any,
) -> Plan:
    """What to run on `problem` under budgets of bits, privacy, time, energy and work, found by simulation on a proxy.

    problem, proxy      what is planned for, and what candidates are tried on: data that is not private, of the same
                        sizes. Without an ε the problem itself will do; with one, a proxy must be given, unless
                        `hush.plans.tune` is to pay for looking at the private data
    budgets, limits     a `Budgets`, or its fields by name: client_bits, bits, epsilon, delta, unit, trust, seconds and
                        capacity, energy, client_steps, rounds
    algorithms          only these; all that fit if none are named
    channel             where messages may meet in the air
    minutes, seed       how long to search, and from which seed
    folder, resume      keep every measurement as it comes, and go on from those that are there
    progress            show the best so far
    """
    require("optuna")
    from hush.plans.fronts import fronts
    from hush.plans.search import Search
    from hush.plans.showing import told

    for name, value in (("resume", resume), ("replace", replace), ("progress", progress)):
        flag(name, value)
    positive("minutes", minutes)
    check_seed("seed", seed)
    asked = Budgets(**limits) if budgets is None else budgets
    tried = _proxy(problem, proxy, asked)
    scene = Scene(tried, problem.population, asked, channel)
    families = families_for(scene, algorithms)
    check_feasible(scene, families)
    files = None if folder is None else PlanFolder(folder)
    with listening() as stopping, nullcontext() if files is None else locked(files.path):
        known = {} if files is None else files.begin(_identity(scene, families, seed), resume, replace)
        bench = Bench(scene, seed, known, (lambda key, measured: None) if files is None else files.note)
        with Stages(60 * minutes, "compiling", enabled=progress) as stages:
            stopping.check()
            stopping.finishing = True
            try:
                search = Search(scene, bench, families, 60 * minutes, seed, lambda: bool(stopping), told(stages))
                arms = search.run()
                found = fronts(search, arms[:IN_FRONTS])
            finally:
                stopping.finishing = False
        if not arms:
            stopping.check()
            raise ValueError("no candidate could be tried: " + "; ".join(search.infeasible))
        answer = Plan(
            scene=scene,
            target=problem,
            best=tuple(choice_of(scene, arm, problem) for arm in arms),
            trials=search.trials.table(),
            fronts=found,
            infeasible=search.infeasible,
            proxy=NOT_PRIVATE if proxy is None else proxy_name,
            seconds=search.used,
            complete=not stopping,
            folder=None if files is None else files.path,
        )
        return answer if files is None else write(answer, files)


def _proxy(problem: Problem, proxy: Problem | None, budgets: Budgets) -> Problem:
    """What candidates are tried on."""
    if proxy is None:
        if budgets.epsilon is not None:
            raise ValueError(CHOICES)
        return problem
    if proxy is problem and budgets.epsilon is not None:
        raise ValueError(f"the proxy is the private problem itself\n{CHOICES}")
    if dimension(proxy) != dimension(problem):
        raise ValueError(
            f"a proxy trains a model as large as the one it stands for, {dimension(problem):,} parameters, "
            f"found {dimension(proxy):,}"
        )
    return proxy


def _identity(scene: Scene, families: Mapping[str, Any], seed: int) -> dict[str, str]:
    """What a plan depends on: with anything else, its measurements mean something else."""
    run = {name: str(value) for name, value in asdict(scene.budgets).items()}
    about = {"families": " ".join(families), "seed": str(seed), "channel": repr(scene.channel)}
    return fingerprint(fedavg(steps=1), scene.problem, run | about).texts

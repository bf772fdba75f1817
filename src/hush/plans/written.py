"""A choice as a settings file: for `hush run`, and with noise on a grid for devices."""

from dataclasses import replace
from math import inf
from typing import Any

from hush.channel import Noisy
from hush.core.algorithm import Algorithm
from hush.core.grid import Grid
from hush.core.problem import Problem
from hush.local import ClippedPerExample
from hush.plans.answer import EVALUATIONS, Choice
from hush.plans.private import GRID_BITS
from hush.plans.scene import Scene
from hush.privacy import NoGuarantee, calibrate
from hush.privacy.clients import numbers
from hush.settings import RunSettings, tables_of
from hush.settings.network import NetworkSettings
from hush.settings.tables import Tables, plain
from hush.uplink import GridGaussian, Modular


def run_settings(scene: Scene, choice: Choice) -> RunSettings:
    """How the choice is run: for its rounds, within every budget, which are kept as it goes."""
    budgets, candidate = scene.budgets, choice.candidate
    at_random = candidate.draft.at_random
    asked: dict[str, Any] = {"rounds": candidate.rounds, "evaluate_every": max(1, candidate.rounds // EVALUATIONS)}
    if budgets.client_bits is not None and candidate.bits:
        asked |= {"client_bit_budget": budgets.client_bits, "when_spent": "retire" if at_random else "stop"}
    if budgets.uplink < inf and candidate.bits and not at_random:  # else its end would tell who took part
        asked["bit_budget"] = budgets.uplink
    if budgets.capacity is not None:
        asked["capacity"] = budgets.capacity
    if budgets.epsilon is not None:
        asked |= {"epsilon": budgets.epsilon, "delta": budgets.delta, "unit": budgets.unit}
        asked |= {} if budgets.trust is None else {"trust": budgets.trust}
    return RunSettings(**asked)


def run_tables(scene: Scene, choice: Choice, target: Problem) -> Tables:
    """The settings file for `hush run`."""
    return tables_of(choice.algorithm, target, run_settings(scene, choice))


def network_tables(scene: Scene, choice: Choice, target: Problem) -> Tables:
    """The same for real devices: noise is discrete there, on a grid, and a little more of it for that."""
    algorithm = choice.algorithm
    whole = any(type(stage) is Modular for phase in algorithm.phases for stage in phase.uplink)  # numbers already
    if scene.private and not whole:
        algorithm = _on_grid(scene, choice)
    run = replace(run_settings(scene, choice), evaluate_every=1)
    waits = NetworkSettings(begin_with=choice.candidate.draft.clients)
    return tables_of(algorithm, target, run) | {"network": plain(vars(waits))}


def _on_grid(scene: Scene, choice: Choice) -> Any:
    """The algorithm with its noise on a grid, as much of it as the budget then asks for."""
    candidate, budgets, grid = choice.candidate, scene.budgets, Grid(GRID_BITS)
    draft, rounds = candidate.draft, candidate.rounds

    def made(noise: float) -> Algorithm:
        return _gridded(draft.build(choice.point, rounds, noise), grid)

    received = numbers(made(1.0).local, scene.dimension)
    noise = calibrate(
        made,
        scene.target,
        candidate.turns(scene.clients) if budgets.unit == "example" else rounds,
        budgets.epsilon or 0.0,
        budgets.delta,
        unit=budgets.unit,
        trust=budgets.trust,
        dimension=scene.dimension,
        high=grid.most_noise(received),
    )
    return replace(choice, candidate=replace(candidate, draft=replace(draft, build=lambda *_: made(noise)))).algorithm


def _gridded(algorithm: Any, grid: Grid) -> Any:
    if any(type(stage) is GridGaussian for stage in algorithm.uplink):
        return algorithm  # it is on one already
    if type(algorithm.channel) is Noisy:
        return replace(algorithm, channel=replace(algorithm.channel, grid=grid))
    oracle = getattr(algorithm.local, "oracle", None)
    if type(oracle) is ClippedPerExample:
        return replace(algorithm, local=replace(algorithm.local, oracle=replace(oracle, grid=grid)))
    raise NoGuarantee("its noise has no form on a grid, as devices and servers in the field need it")

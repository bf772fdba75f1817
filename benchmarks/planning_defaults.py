"""What the papers say to run, within the same budgets: their settings, and not one of ours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hush.algorithms import fedavg
from hush.core.problem import Problem
from hush.execution.simulation import Simulation
from hush.plans.bench import Bench
from hush.plans.budgets import Infeasible
from hush.plans.choices import DECAY
from hush.plans.scene import Scene
from planning_problems import Asked
from planning_runs import Setting, admit

# Paper fedpaq-dp, section VI: E, M, s, γ, C, K, and η = 0.1/(1 + kE/100).
STEPS, CLIENTS, LEVELS, RATE, BOUND, ROUNDS, LR, SCALE = 10, 10, 10, 0.2, 1.0, 100, 0.1, 100.0
BATCH = 12  # γn/E of its clients, who hold 600 examples
# Paper clipping, section 4: Q, b, P of N, c over the mean length of an update. T and η are not given: as its page here.
LOCAL_STEPS, LOCAL_BATCH, SHARE, HALF, ALL_ROUNDS = 32, 64, 80 / 1920, 0.5, 100
LOCAL_LR = {"softmax": 0.3, "mlp": 0.1}


def defaults_of(asked: Asked, bench: Bench) -> list[Setting]:
    """The papers' settings for this kind of problem, where the budgets pay for a round of them."""
    made = {"plain": _fedpaq, "client": _dp_fedavg, "example": _private_fedpaq}[asked.kind]
    found = []
    for setting in made(asked, bench.scene):
        try:
            found.append(_shrinking(setting, bench) if "decay" not in setting.point else setting)
        except Infeasible:
            continue
    return found


def _shrinking(setting: Setting, bench: Bench) -> Setting:
    """With η0/(1 + kE/100), in the words of a plan: by how much the step size is less after all rounds."""
    draft = setting.draft(bench.scene)
    rounds = admit(bench, draft).rounds
    return replace(setting, point=dict(setting.point) | {"decay": rounds * draft.steps / SCALE})


def _fedpaq(asked: Asked, scene: Scene) -> Iterator[Setting]:
    """FedPAQ, and FedAvg with plain messages, for as long as the bits last."""
    local = f"{STEPS} x {min(BATCH, scene.target.smallest)}"
    for family, coding in (("fedpaq", f"{LEVELS} dense"), ("fedavg", "none")):
        choices = {"local": local, "clients": min(CLIENTS, scene.clients), "coding": coding}
        yield Setting(family, choices, {"lr": LR, "server_lr": 1.0})


def _private_fedpaq(asked: Asked, scene: Scene) -> Iterator[Setting]:
    """Private FedPAQ: γ of a client's examples in a round, in E batches; noise at every step, which hurts least."""
    batch = max(1, round(RATE * scene.target.smallest / STEPS))
    clients = min(CLIENTS, scene.clients)
    choices = {"local": f"{STEPS} x {batch}", "clients": clients, "coding": f"{LEVELS} dense", "rounds": ROUNDS}
    yield Setting("private_fedpaq", choices, {"lr": LR, "clip": BOUND, "server_lr": 1.0})


def _dp_fedavg(asked: Asked, scene: Scene) -> Iterator[Setting]:
    """DP-FedAvg with plain messages and a fixed clip: half the mean length of an update that is not clipped."""
    lr = LOCAL_LR[asked.task["model"]]
    batch = min(LOCAL_BATCH, asked.proxy.population.smallest, scene.target.smallest)
    clients = max(1, round(SHARE * scene.clients))
    choices = {"local": f"{LOCAL_STEPS} x {batch}", "clients": clients, "coding": "none", "rounds": ALL_ROUNDS}
    clip = HALF * mean_length(asked.proxy, clients, lr, batch)
    yield Setting("dp_fedavg", choices, {"lr": lr, "clip": clip, "server_lr": 1.0, "decay": DECAY.least})


def mean_length(proxy: Problem, clients: int, lr: float, batch: int) -> float:
    """Of an update, on data that is not private: the paper looks at its clients' own, which no ε covers."""
    simulation = Simulation(fedavg(clients, steps=LOCAL_STEPS, batch=batch, lr=lr), proxy, watch=True)
    while simulation.round < ALL_ROUNDS:
        simulation.advance(min(ALL_ROUNDS - simulation.round, simulation.layout.rounds_at_once))
    return float(simulation.seen["local_norm"].mean())

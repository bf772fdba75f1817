"""Each algorithm's first five rounds on a small quadratic against a NumPy loop in double precision.

The loops are written from the papers' equations, with a cohort read off the engine where one is drawn.
"""

import numpy as np
import pytest
from jax import random

import hush
from hush.core.keys import at, root
from hush.core.noise import normal
from hush.execution.simulation import Simulation

ROUNDS, STEPS, LR = 5, 3, 0.05


def models(algorithm, problem, rounds=ROUNDS):
    """The model after each of the first rounds, by the engine."""
    simulation = Simulation(algorithm, problem)
    found = []
    for _ in range(rounds):
        simulation.advance(1)
        found.append(simulation.models[0])
    return np.array(found)


def cohorts(algorithm, problem, rounds=ROUNDS, phase=0):
    """Who the engine draws in each round: the address of its draw, by hand."""
    keys = [at(root(0), "repetition", 0, "round", number, "phase", phase, "cohort") for number in range(rounds)]
    return [np.asarray(algorithm.phases[phase].cohort(key, problem.population).ids) for key in keys]


def gradient(matrices, i, x):
    A, b = matrices
    return A[i].T @ (A[i] @ x - b[i])


def local_steps(matrices, i, x, lr=LR, direction=lambda g, y: g):
    y = x.copy()
    for _ in range(STEPS):
        y = y - lr * direction(gradient(matrices, i, y), y)
    return y - x


def check(found, expected):
    np.testing.assert_allclose(found, np.array(expected), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("clients", [None, 2])
def test_distributed_sgd(matrices, quadratic, clients):
    algorithm = hush.distributed_sgd(clients=clients, lr=LR)
    x, expected = np.zeros(3), []
    for chosen in cohorts(algorithm, quadratic):
        x = x - LR * np.mean([gradient(matrices, i, x) for i in chosen], 0)
        expected.append(x)
    check(models(algorithm, quadratic), expected)


@pytest.mark.parametrize("clients", [None, 2, 1])
def test_fedavg_with_server_step(matrices, quadratic, clients):
    algorithm = hush.fedavg(clients=clients, steps=STEPS, lr=LR, server_lr=0.7, weight_decay=0.01)
    x, expected = np.zeros(3), []
    for chosen in cohorts(algorithm, quadratic):
        decayed = [local_steps(matrices, i, x, direction=lambda g, y: g + 0.01 * y) for i in chosen]
        x = x + 0.7 * np.mean(decayed, 0)
        expected.append(x)
    check(models(algorithm, quadratic), expected)


def test_fedavg_with_decreasing_step(matrices, quadratic):
    """η_k = η0/(1 + kE/a), paper fedpaq-dp."""
    algorithm = hush.fedavg(steps=STEPS, lr=hush.schedules.InverseTime(0.1, 5.0))
    x, expected = np.zeros(3), []
    for k in range(ROUNDS):
        lr = 0.1 / (1 + k * STEPS / 5)
        x = x + np.mean([local_steps(matrices, i, x, lr) for i in range(6)], 0)
        expected.append(x)
    check(models(algorithm, quadratic), expected)


def test_fedprox(matrices, quadratic):
    algorithm = hush.fedprox(clients=2, mu=0.5, steps=STEPS, lr=LR)
    x, expected = np.zeros(3), []
    for chosen in cohorts(algorithm, quadratic):
        x = x + np.mean([local_steps(matrices, i, x, direction=lambda g, y, x=x: g + 0.5 * (y - x)) for i in chosen], 0)
        expected.append(x)
    check(models(algorithm, quadratic), expected)


def test_fedpaq(matrices, quadratic):
    """Paper fedpaq-dp, eqs 6 and 20: each update rounded to ‖v‖ϑ/s, up where its address' uniform number is below."""
    algorithm = hush.fedpaq(clients=2, steps=STEPS, lr=LR, levels=3)
    x, expected = np.zeros(3), []
    for k, chosen in enumerate(cohorts(algorithm, quadratic)):
        sent = []
        for i in chosen:
            v = local_steps(matrices, i, x)
            key = at(root(0), "repetition", 0, "round", k, "phase", 0, "client", int(i), "uplink", "update", 0)
            ratio = 3 * np.abs(v) / np.linalg.norm(v)
            up = np.asarray(random.uniform(key, (1, 3)))[0] >= 1 - (ratio - np.floor(ratio))
            sent.append(np.linalg.norm(v) * np.sign(v) * (np.floor(ratio) + up) / 3)
        x = x + np.mean(sent, 0)
        expected.append(x)
    check(models(algorithm, quadratic), expected)


def test_scaffold(matrices, quadratic):
    """Paper fedpaq-dp, eqs 7 to 9."""
    algorithm = hush.scaffold(clients=2, steps=STEPS, lr=LR, server_lr=0.7)
    x, c, own, expected = np.zeros(3), np.zeros(3), np.zeros((6, 3)), []
    for chosen in cohorts(algorithm, quadratic):
        updates, changes = [], []
        for i in chosen:
            update = local_steps(matrices, i, x, direction=lambda g, y: g - own[i] + c)  # noqa: B023
            new = own[i] - c - update / (STEPS * LR)
            changes.append(new - own[i])
            own[i] = new
            updates.append(update)
        x = x + 0.7 * np.mean(updates, 0)
        c = c + np.sum(changes, 0) / 6
        expected.append(x)
    check(models(algorithm, quadratic), expected)


@pytest.mark.parametrize("clients", [None, 2])
def test_feddane(matrices, quadratic, clients):
    """Li et al. 2019, algorithm 2: one cohort gives the gradient, another solves."""
    algorithm = hush.feddane(clients=clients, mu=0.5, steps=STEPS, lr=LR)
    x, expected = np.zeros(3), []
    for asked, solving in zip(cohorts(algorithm, quadratic), cohorts(algorithm, quadratic, phase=1), strict=True):
        g = np.mean([gradient(matrices, i, x) for i in asked], 0)
        updates = [
            local_steps(
                matrices,
                i,
                x,
                direction=lambda own, y: own - gradient(matrices, i, x) + g + 0.5 * (y - x),  # noqa: B023
            )
            for i in solving
        ]
        x = x + np.mean(updates, 0)
        expected.append(x)
    check(models(algorithm, quadratic), expected)


def test_fedadam(matrices, quadratic):
    """Adam with bias correction on the mean update (Kingma & Ba, algorithm 1; Reddi et al. 2021)."""
    algorithm = hush.fedadam(steps=STEPS, lr=LR, server_lr=0.1, b1=0.9, b2=0.99, eps=1e-3)
    x, m, v, expected = np.zeros(3), np.zeros(3), np.zeros(3), []
    for t in range(1, ROUNDS + 1):
        update = np.mean([local_steps(matrices, i, x) for i in range(6)], 0)
        m, v = 0.9 * m + 0.1 * update, 0.99 * v + 0.01 * update**2
        x = x + 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-3)
        expected.append(x)
    check(models(algorithm, quadratic), expected)


def test_fedavgm(matrices, quadratic):
    """Server momentum: m ← βm + Δ, x ← x + ηm, any optax optimiser by its name."""
    from dataclasses import replace

    server = hush.server.Optimiser("sgd", {"learning_rate": 0.5, "momentum": 0.9})
    algorithm = replace(hush.fedavg(steps=STEPS, lr=LR), server=server)
    x, m, expected = np.zeros(3), np.zeros(3), []
    for _ in range(ROUNDS):
        m = 0.9 * m + np.mean([local_steps(matrices, i, x) for i in range(6)], 0)
        x = x + 0.5 * m
        expected.append(x)
    check(models(algorithm, quadratic), expected)


def langevin_noise(number, client, steps, common):
    """The noise of each step by its address: a client's own, or the one that all clients share."""
    at_round = at(root(0), "repetition", 0, "round", number, "phase", 0)
    key = at(at_round, "common") if common else at(at_round, "client", client, "local", "direction", 0)
    return [np.asarray(normal(key, t, (3,)), float) for t in range(steps)]


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "per_round"), [("all", None), ("I", 4), ("II", 2)])
@pytest.mark.parametrize("unbiased", [False, True])
def test_fa_ld(matrices, quadratic, scheme, per_round, unbiased):
    """Paper fa-ld eq 7 with a prior and η_k = η0/(1 + k/a) step by step; six clients of four examples, p = 1/6."""
    schedule, tau, rho, prior = hush.schedules.InverseTime(0.002, 5.0), 0.3, 0.6, 0.5
    algorithm = hush.fa_ld(
        STEPS, schedule, tau, rho, scheme=scheme, per_round=per_round, prior=prior, unbiased=unbiased
    )
    chosen = cohorts(algorithm, quadratic)
    # E Σ_c w_c², by hand: all of six; four draws of six (a client may come twice); two of six, each weighing a half.
    squares = {"all": 1 / 6, "I": (5 / 6) / 4 + 1 / 6, "II": 1 / 2}[scheme]
    spread = squares**-0.5 if unbiased else 6**0.5
    x, expected = np.zeros(3), []
    for k in range(ROUNDS):
        shared, ends = langevin_noise(k, 0, STEPS, common=True), []
        for i in chosen[k]:
            y, own = x.copy(), langevin_noise(k, int(i), STEPS, common=False)
            for t in range(STEPS):
                lr = 0.002 / (1 + (k * STEPS + t) / 5)
                noise = rho * shared[t] + np.sqrt(1 - rho**2) * spread * own[t]
                y = y - lr * (24 * gradient(matrices, i, y) + prior * y) + np.sqrt(2 * lr * tau) * noise
            ends.append(y)
        x = np.mean(ends, 0)
        expected.append(x)
    check(models(algorithm, quadratic), expected)

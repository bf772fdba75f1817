"""FedNova, FedDyn, Ditto and personal layers, and local Adam: their papers' equations as NumPy loops in float64."""

import numpy as np
import pytest
from test_first_rounds import LR, ROUNDS, STEPS, check, cohorts, gradient, local_steps, models

import hush
from hush.core.algorithm import Algorithm
from hush.execution.simulation import Simulation
from hush.local import Full, LocalSGD, Normalised
from hush.server import AddNormalised
from hush.tasks.analytic import Linear
from hush.tasks.measures import regression
from hush.tasks.problem import supervised

pytestmark = pytest.mark.slow


class AsManyAsExamples(Full):
    """All data in every step, and as many steps an epoch as the client has examples."""

    def steps_per_epoch(self, size):
        return size


@pytest.mark.parametrize("clients", [None, 3])
def test_fednova(clients):
    """Wang et al. 2020, eqs 10 and 11: x ← x + τ_eff Σ p_i Δ_i/τ_i, with 1, 4, 2 and 3 steps."""
    sizes, draws = [1, 4, 2, 3], np.random.default_rng(5)
    a, b = draws.normal(size=(10, 3)), draws.normal(size=10)
    owner = np.repeat(np.arange(4), sizes)
    rows = [np.flatnonzero(owner == i) for i in range(4)]
    problem = supervised((a.astype(np.float32), b.astype(np.float32)), rows, Linear(3), regression)
    plain = hush.fedavg(clients)
    local = Normalised(LocalSGD(LR, epochs=1, batches=AsManyAsExamples()))
    algorithm = Algorithm(plain.cohort, local, server=AddNormalised(0.7))
    x, expected = np.zeros(3), []
    for chosen in cohorts(algorithm, problem):
        p = np.array([sizes[i] for i in chosen]) / sum(sizes[i] for i in chosen)
        directions = []
        for i in chosen:
            A, y, end = a[owner == i], b[owner == i], x.copy()
            for _ in range(sizes[i]):
                end = end - LR * A.T @ (A @ end - y) / sizes[i]
            directions.append((end - x) / sizes[i])
        effective = p @ [sizes[i] for i in chosen]
        x = x + 0.7 * effective * (p @ np.array(directions))
        expected.append(x)
    check(models(algorithm, problem), expected)


def test_fednova_of_equal_steps_is_fedavg(quadratic):
    nova, plain = (make(3, steps=STEPS, lr=LR) for make in (hush.fednova, hush.fedavg))
    np.testing.assert_allclose(models(nova, quadratic), models(plain, quadratic), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("clients", [None, 2])
def test_feddyn(matrices, quadratic, clients):
    """Acar et al. 2021, Algorithm 1, with SGD for the argmin."""
    alpha = 0.3
    algorithm = hush.feddyn(clients, alpha=alpha, steps=STEPS, lr=LR)
    x, h, own, expected = np.zeros(3), np.zeros(3), np.zeros((6, 3)), []
    for chosen in cohorts(algorithm, quadratic):
        ends = []
        for i in chosen:
            moved = local_steps(matrices, i, x, direction=lambda g, y, i=i, x=x: g - own[i] + alpha * (y - x))
            own[i] = own[i] - alpha * moved
            ends.append(x + moved)
        h = h - alpha / 6 * np.sum([end - x for end in ends], 0)
        x = np.mean(ends, 0) - h / alpha
        expected.append(x)
    check(models(algorithm, quadratic), expected)


@pytest.mark.parametrize("clients", [None, 2])
def test_ditto(matrices, quadratic, clients):
    """Li et al. 2021, Algorithm 1: v ← v − η(∇f_i(v) + λ(v − x)), x the model that was sent; x as in FedAvg."""
    pull = 0.5
    algorithm = hush.ditto(clients, pull=pull, steps=STEPS, lr=LR)
    x, own = np.zeros(3), np.zeros((6, 3))
    for chosen in cohorts(algorithm, quadratic):
        for i in chosen:
            own[i] += local_steps(matrices, i, own[i], direction=lambda g, v, x=x: g + pull * (v - x))
        x = x + np.mean([local_steps(matrices, i, x) for i in chosen], 0)
    simulation = Simulation(algorithm, quadratic)
    simulation.advance(ROUNDS)
    check(simulation.models[0], x)
    check(simulation.clients[0]["local"]["personal"][0], own)
    plain = Simulation(hush.fedavg(clients, steps=STEPS, lr=LR), quadratic)
    plain.advance(ROUNDS)
    np.testing.assert_allclose(simulation.models, plain.models, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("clients", [None, 2])
def test_personal_layers(matrices, quadratic, clients):
    """Arivazhagan et al. 2019: the second number stays with its client; only the others are sent, told and counted."""
    algorithm = hush.fedper([(1, 2)], clients, steps=STEPS, lr=LR)
    shared, own = np.zeros(2), np.zeros(6)
    for chosen in cohorts(algorithm, quadratic):
        moves = []
        for i in chosen:
            moved = local_steps(matrices, i, np.array([shared[0], own[i], shared[1]]))
            own[i] += moved[1]
            moves.append(moved[[0, 2]])
        shared = shared + np.mean(moves, 0)
    simulation = Simulation(algorithm, quadratic)
    simulation.advance(ROUNDS)
    check(simulation.models[0], [shared[0], 0, shared[1]])
    check(simulation.clients[0]["local"]["own"][0, :, 0], own)
    taken = simulation.ledger.client_rounds[0, 0]
    np.testing.assert_array_equal(simulation.ledger.client_uplink_bits[0], 32 * 2 * taken)
    np.testing.assert_array_equal(simulation.ledger.client_downlink_bits[0], 32 * 2 * taken)


def test_local_adam(matrices, quadratic):
    """Kingma & Ba, Algorithm 1, within a round; moments begin anew in the next."""
    algorithm = hush.fedavg(steps=STEPS, lr=LR, optimiser=hush.local.LocalOptimiser("adam", {"b1": 0.8, "b2": 0.9}))
    x, expected = np.zeros(3), []
    for _ in range(ROUNDS):
        ends = []
        for i in range(6):
            y, m, v = x.copy(), np.zeros(3), np.zeros(3)
            for t in range(1, STEPS + 1):
                g = gradient(matrices, i, y)
                m, v = 0.8 * m + 0.2 * g, 0.9 * v + 0.1 * g**2
                y = y - LR * (m / (1 - 0.8**t)) / (np.sqrt(v / (1 - 0.9**t)) + 1e-8)
            ends.append(y)
        x = np.mean(ends, 0)
        expected.append(x)
    check(models(algorithm, quadratic), expected)


def test_local_sgd_by_optax_is_plain_sgd(quadratic):
    plain, optax = (hush.fedavg(3, steps=STEPS, lr=LR, optimiser=by) for by in (None, "sgd"))
    np.testing.assert_allclose(models(plain, quadratic), models(optax, quadratic), rtol=1e-6, atol=1e-7)


def test_rules_that_rely_on_plain_steps_refuse_an_optimiser():
    for make in (hush.scaffold, hush.fednova):
        with pytest.raises(ValueError, match="reckons with plain steps of SGD, found the optimiser 'adam'"):
            make(steps=2, optimiser="adam")
    with pytest.raises(ValueError, match="unknown optax optimiser 'adm'; did you mean 'adam'"):
        hush.fedavg(optimiser="adm")
    with pytest.raises(ValueError, match="lbfgs does not step along a gradient alone"):
        hush.fedavg(optimiser="lbfgs")
    with pytest.raises(ValueError, match="the step size of a local optimiser is the local rule's lr"):
        hush.local.LocalOptimiser("adam", {"learning_rate": 0.1})


@pytest.mark.parametrize(
    ("personal", "sentence"),
    [
        ([(0, 3)], "are the whole model of 3 numbers: nothing is left to share"),
        ([(0, 4)], "the model has 3 numbers, found ranges up to 4"),
        ([(2, 1)], r"ranges must be pairs \(first, end\)"),
        ([(0, 2), (1, 3)], r"ranges must be pairs \(first, end\)"),
        ([], r"ranges must be pairs \(first, end\)"),
        ("x", r"ranges must be pairs \(first, end\)"),
    ],
)
def test_ranges_that_are_none(quadratic, personal, sentence):
    with pytest.raises(ValueError, match=sentence):
        Simulation(hush.fedper(personal), quadratic)


def test_parameters_are_found_by_their_names():
    problem = hush.tasks.digits(clients=2, model="mlp")
    named = hush.parameters(problem)
    assert [end - first for first, end in named.values()] == [64 * 200, 200, 200 * 10, 10]
    last = hush.ranges_of(problem, ["*layers[3]*"])
    assert last == ((13_000, 15_010),)  # weights and biases, which are neighbours
    assert hush.ranges_of(problem, ["*bias"]) == ((12_800, 13_000), (15_000, 15_010))
    with pytest.raises(ValueError, match=r"no parameter is called 'norm\*'; there are"):
        hush.ranges_of(problem, ["norm*"])
    with pytest.raises(ValueError, match="nothing would be left to share"):
        hush.ranges_of(problem, ["*"])


def test_a_rule_with_memory_keeps_it_when_its_update_is_clipped(quadratic):
    """With a clip that never bites, FedDyn clipped to what the server says is FedDyn, memories and all."""
    plain = hush.feddyn(alpha=0.3, steps=STEPS, lr=LR)
    server = hush.server.AdaptingClip(plain.server, 100.0, lr=1e-6)
    clipped = Algorithm(plain.cohort, hush.local.ClippedToBroadcast(plain.local), server=server)
    np.testing.assert_allclose(models(clipped, quadratic), models(plain, quadratic), rtol=1e-3, atol=1e-4)

"""The authors' program of the FedPAQ paper: its draws, its rounds by a plain loop, its noise; criteria of verdicts."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import hush
from hush.data.datasets import load
from hush.papers.fedpaq_dp import authors
from hush.papers.fedpaq_dp.grids import interact, worse_with_steps
from hush.papers.fedpaq_dp.lab import AUTHORS, FedPAQLab, TheirPrivateSetting
from hush.papers.fedpaq_dp.private import falls_with
from hush.papers.fedpaq_dp.sensitivity import moved, their_epsilon, unsampled_epsilon
from hush.papers.fedpaq_dp.steps_and_clients import rise_a_round
from hush.papers.fedpaq_dp.table import PUBLISHED, near, table_claims
from hush.papers.keeping import Runs

CLIENTS, ROUNDS, EPOCHS, COHORT = 10, 4, 3, 4


@pytest.mark.slow
def test_the_start_is_pytorchs():
    torch = pytest.importorskip("torch")
    torch.manual_seed(12)
    layer = torch.nn.Linear(784, 10)
    weight, bias = authors.start(784, 10)
    np.testing.assert_allclose(weight, layer.weight.detach().numpy(), atol=5e-9)
    np.testing.assert_allclose(bias, layer.bias.detach().numpy(), atol=5e-9)


def test_the_start_by_hand():
    """The first outputs of a Mersenne twister seeded with 12, their low 24 bits spread over ±1/28."""
    first = np.random.MT19937()
    first._legacy_seeding(12)
    weight, bias = authors.start(784, 10)
    drawn = (np.array([first.random_raw() for _ in range(3)]) % 2**24) / 2**24
    np.testing.assert_allclose(weight[0, :3], (2 * drawn - 1) / 28, atol=5e-9)
    assert (weight.shape, bias.shape, np.abs(bias).max() < 1 / 28) == ((10, 784), (10,), True)


def test_split_and_clients_by_numpys_own_state():
    """The same by `numpy.random.seed`, as the program has it, and every example in one client."""
    before, labels = np.random.get_state(), np.random.default_rng(0).integers(0, 10, 3000)
    try:
        np.random.seed(6)
        left = dict.fromkeys(range(10), 4)
        digits = []
        for _ in range(20):
            chosen = np.random.choice([digit for digit in range(10) if left[digit]], 2, replace=False)
            digits.append(set(chosen.tolist()))
            for digit in chosen:
                left[int(digit)] -= 1
        np.random.seed(3)
        third = np.random.choice(100, 10, replace=False)
    finally:
        np.random.set_state(before)
    held = authors.split(labels, 20, 2)
    assert [set(labels[rows].tolist()) for rows in held] == digits
    assert sorted(np.concatenate(held).tolist()) == list(range(3000))
    np.testing.assert_array_equal(authors.clients_of_rounds(5, 100, 10)[3], third)


def plain_program(data, held, listed):
    """FedAvg by a loop in NumPy, all of a client's examples in one batch."""
    x, y = data.train_x.reshape(len(data.train_y), -1) / 255.0, np.asarray(data.train_y)
    weight, bias = (value.astype(float) for value in authors.start(x.shape[1], 10))
    rate = 0.1
    for number, chosen in enumerate(listed):
        ends = []
        for client in chosen:
            w, b, inputs, targets = weight.copy(), bias.copy(), x[held[client]], y[held[client]]
            for _ in range(EPOCHS):
                odds = np.exp(inputs @ w.T + b)
                wrong = odds / odds.sum(1, keepdims=True) - np.eye(10)[targets]
                w, b = w - rate * (wrong.T @ inputs / len(targets) + 1e-3 * w), b - rate * (wrong.mean(0) + 1e-3 * b)
            ends.append((w, b))
        weight, bias = (np.mean([end[part] for end in ends], axis=0) for part in (0, 1))
        rate = 0.1 / (1 + number * EPOCHS)  # set after aggregation
    return weight, bias


def test_rounds_of_the_program_by_a_plain_loop():
    data = load("digits")
    setting = replace(AUTHORS, steps=EPOCHS, clients=COHORT, rounds=ROUNDS, levels=None, batch=1000, population=CLIENTS)
    found = hush.run(setting.algorithm(), authors.problem(data, CLIENTS, 2), ROUNDS, progress=False)
    weight, bias = plain_program(
        data,
        authors.split(np.asarray(data.train_y), CLIENTS, 2),
        authors.clients_of_rounds(ROUNDS, CLIENTS, COHORT),
    )
    layer = found.model().layers[-1]
    np.testing.assert_allclose(layer.weight, weight, atol=2e-6)
    np.testing.assert_allclose(layer.bias, bias, atol=2e-6)


def test_a_part_of_the_examples_in_passes():
    """Of 25 examples 40 % are 10; batches of 4 make three a pass; each pass has all ten, the same in both passes."""
    problem = hush.tasks.arrays(np.zeros((25, 2)), np.arange(25) % 2, np.zeros(25, int), model="softmax")
    rows, weights = jax.jit(lambda key: authors.PartOfThem(0.4, 4)(key, 6, problem.client(0)))(hush.keys.root(0))
    assert authors.PartOfThem(0.4, 4).steps_per_epoch(25) == 3
    np.testing.assert_allclose(weights.sum(1), 1)
    passes = [rows[part][weights[part] > 0].tolist() for part in (slice(0, 3), slice(3, 6))]
    assert sorted(passes[0]) == sorted(passes[1])
    assert passes[0] != passes[1]
    assert len(set(passes[0])) == 10


def test_the_noise_and_what_it_hides():
    """σ by hand; a mean gradient is clipped as a whole; ε of what is proved by the divergence of two Gaussians."""
    setting = TheirPrivateSetting(epsilon=0.5, rate=0.2, clip=2.0, examples=600)
    assert setting.std == pytest.approx(np.sqrt(8 * 0.04 * np.log(250)) * 2 / 300)
    gradient = {"a": jnp.array([3.0, 0.0]), "b": jnp.array([4.0])}
    cut = authors.ClippedMean(2.0)(None, gradient, gradient, ())
    np.testing.assert_allclose(jnp.concatenate(jax.tree.leaves(cut)), [1.2, 0, 1.6], rtol=1e-6)
    assert setting.sensitivity(0) == pytest.approx(2 * 0.1 * 2 * 20)  # two batches a pass, ten passes
    # α-Rényi of a shift of µ deviations is αµ²/2; ε = min_α αρ + ln(1/δ)/(α − 1), found on a grid.
    rho, orders = 0.5 * (3.0**2 + 1.0**2), np.linspace(1.01, 50, 200_000)
    assert unsampled_epsilon([3.0, 1.0]) == pytest.approx((orders * rho + np.log(1e4) / (orders - 1)).min(), rel=1e-6)
    assert their_epsilon(setting) > 1000


@pytest.mark.slow
def test_what_an_example_moves_is_less_than_is_proved():
    lab = FedPAQLab(quick=True, runs=Runs(say=str))
    found = moved(lab.problem, TheirPrivateSetting(examples=lab.examples, batch=8))
    assert found.assumed < found.measured < found.proved
    assert found.epsilon(found.assumed) < found.epsilon(found.measured) <= found.epsilon(found.proved)


def test_criteria_of_the_table():
    row = {"E": 10, "M": 10, "s": "–", "loss": 0.8, "± loss": 0.0001, "accuracy %": 85.0, "± %": 0.01}
    same = pd.Series(row | {"paper": 0.8019, "paper %": 85.19})
    assert near(same)
    assert not near(pd.Series(row | {"paper": 0.8021, "paper %": 85.0}))
    assert not near(pd.Series(row | {"paper": 0.8, "paper %": 85.3}))
    drawn = row | {"s": 1, "± loss": 0.01, "± %": 0.5, "paper": 0.819, "paper %": 84.1}
    assert near(pd.Series(drawn))
    assert not near(pd.Series(drawn | {"paper %": 83.9}))
    plain, quantised = table_claims(pd.DataFrame([dict(same), drawn, drawn | {"paper %": 83.9, "E": 100}]))
    assert plain.verdict == "holds"
    assert quantised.verdict == "in 1 of 2: E = 10, M = 10, s = 1"
    assert len(PUBLISHED) == 10


def given(means, deviation):
    """Losses of four repetitions: their differences vary by about twice the deviation, and their means are these."""
    draws = np.random.default_rng(0).normal(size=(*np.shape(means), 4))
    centred = draws - draws.mean(-1, keepdims=True)
    return np.array(means)[..., None] + deviation * centred / centred.std(-1, ddof=1, keepdims=True)


def test_criteria_of_the_grids():
    crossed = [[1.0, 1.2], [1.3, 1.0]]
    assert interact(given(crossed, 0.02)) == "holds"
    assert interact(given(crossed, 0.4)) == "cannot be told"
    assert interact(given([[1.0, 1.2], [1.0, 1.3]], 0.01)) == "does not hold"
    assert interact(given([[1.0, 1.2], [1.0, 1.001]], 0.01)) == "cannot be told"
    assert worse_with_steps(given([[1.0, 1.0, 1.0], [0.9, 1.0, 1.2]], 0.001)) == "holds"
    assert worse_with_steps(given([[1.0, 1.0, 1.0], [0.9, 1.0, 1.2]], 0.5)) == "cannot be told"
    assert worse_with_steps(given([[1.0, 1.0, 1.0], [0.9, 1.2, 1.1]], 0.001)) == "does not hold"
    gains_less = [[1.0, 1.0, 1.0], [0.7, 0.8, 0.9]]  # it gains everywhere, if less and less
    assert worse_with_steps(given(gains_less, 0.001)) == "does not hold"


def test_how_far_a_loss_rises_in_an_average_round():
    """By hand: +0.5, −1, +3 and −0.2, 0, +0.4."""
    losses = {0: [1.0, 1.5, 0.5, 3.5], 1: [1.0, 0.8, 0.8, 1.2]}
    rows = [(each, number, loss) for each, run in losses.items() for number, loss in enumerate(run)]
    records = pd.DataFrame(rows, columns=["repetition", "round", "train_loss"]).sample(frac=1.0, random_state=0)
    assert rise_a_round(records) == pytest.approx([3.5 / 3, 0.4 / 3])


def test_criterion_of_a_smaller_epsilon():
    """From the largest to the smallest by two standard errors, and nowhere surely the other way round."""
    part = pd.DataFrame({"accuracy %": [80.0, 88.2, 88.1, 88.3], "deviation": [1.0, 0.2, 0.2, 0.2], "runs": 5})
    assert falls_with(part)
    assert not falls_with(part.assign(**{"accuracy %": [80.0, 88.9, 88.1, 88.3]}))  # 0.8 with an error of 0.13
    assert not falls_with(part.assign(**{"accuracy %": [88.0, 88.2, 88.1, 88.3]}))  # 0.3 with an error of 0.46


def test_the_authors_settings():
    """Epochs, batches of 64, weight decay 0.001; 0.1 twice, and then 0.1/(1 + (k − 1)E)."""
    local = AUTHORS.algorithm().local
    assert (local.epochs, local.steps, local.batches.size, local.direction[0].amount) == (10, None, 64, 1e-3)
    rates = [float(local.learning_rate({"round": k})) for k in range(4)]
    assert rates == pytest.approx([0.1, 0.1, 0.1 / 11, 0.1 / 21])

"""NUTS against posteriors that are known in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.core.problem import Population, Problem
from hush.posterior import energy, reference_posterior, wasserstein
from hush.posterior.quiet import arviz
from hush.tasks.problem import supervised

# Each test makes at most 12 comparisons of seeded numbers: at 5.5 standard errors, one seed in two million fails.
ERRORS = 5.5


def closed_form(problem, temperature, prior):
    """exp(−(½‖y − Xθ‖² + ½λ‖θ‖²)/τ) is N(H⁻¹Xᵀy, τH⁻¹), H = XᵀX + λI, with an example as often as it is held."""
    held = np.asarray(problem.index)
    x, y = np.asarray(problem.train.x, float)[held], np.asarray(problem.train.y, float)[held]
    covariance = np.linalg.inv(x.T @ x + prior * np.eye(x.shape[1]))
    return covariance @ x.T @ y, temperature * covariance


@pytest.mark.slow
@pytest.mark.parametrize(("temperature", "prior"), [(1.0, 2.0), pytest.param(0.05, 0.0, marks=pytest.mark.slow)])
def test_linear_regression_has_its_gaussian_posterior(temperature, prior):
    problem = hush.tasks.linear_regression(clients=4, examples=15, dimension=3, noise=1.0)
    found = reference_posterior(problem, temperature=temperature, prior=prior, draws=1000, warm_up=400)
    mean, covariance = closed_form(problem, temperature, prior)
    package = arviz()
    for number in range(3):
        draws = found.values[:, :, number].T.astype(float)
        squares = (draws - mean[number]) ** 2
        for seen, truth in ((draws, mean[number]), (squares, covariance[number, number])):
            error = seen.std() / np.sqrt(float(package.ess(seen)))
            assert abs(seen.mean() - truth) < ERRORS * error
    few = int(found.worst()["ess_bulk"])
    assert few > 1000
    assert found.wasserstein(mean, covariance) < 3 * wasserstein.floor(covariance, few)


def test_energy_counts_every_clients_examples(unequal):
    vector = np.random.default_rng(0).normal(size=18).astype(np.float32)
    weight, bias = vector[:15].reshape(3, 5), vector[15:]
    total = 0.0
    for client in range(7):
        data = unequal.client(client)
        for row in range(int(data.size)):
            inputs, label = data.examples(jnp.array(row))
            logits = weight @ np.ravel(inputs) + bias
            total += np.log(np.exp(logits).sum()) - logits[int(label)]
    assert float(energy(unequal, jnp.asarray(vector))) == pytest.approx(total, rel=1e-5)
    prior = 0.5 * 0.7 * float(vector @ vector)
    assert float(energy(unequal, jnp.asarray(vector), 0.7)) == pytest.approx(total + prior, rel=1e-5)


def test_an_example_that_two_clients_hold_counts_twice():
    draws = np.random.default_rng(1)
    x, y = draws.normal(size=(3, 2)).astype(np.float32), draws.normal(size=3).astype(np.float32)
    linear = hush.tasks.linear_regression(clients=1, examples=2, dimension=2)
    problem = supervised((x, y), [np.array([0, 1]), np.array([1, 2])], linear.model, linear.measures)
    theta = np.array([0.3, -1.0], np.float32)
    expected = sum(0.5 * (y[row] - x[row] @ theta) ** 2 for row in (0, 1, 1, 2))
    assert float(energy(problem, jnp.asarray(theta))) == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_logistic_regression_has_the_mean_that_integration_finds():
    problem = hush.tasks.logistic_regression(clients=5, examples=12, dimension=2)
    found = reference_posterior(problem, prior=1.0, draws=1000, warm_up=400)
    axis = np.linspace(-4, 5, 301)
    places = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    heights = -np.asarray(
        jax.lax.map(lambda place: energy(problem, place, 1.0), jnp.asarray(places, jnp.float32), batch_size=1000)
    )
    masses = np.exp(heights.astype(float) - heights.max())
    masses /= masses.sum()
    assert masses.reshape(301, 301)[[0, -1]].sum() + masses.reshape(301, 301)[:, [0, -1]].sum() < 1e-6
    for number in range(2):
        draws = found.values[:, :, number].T.astype(float)
        error = draws.std() / np.sqrt(float(arviz().ess(draws)))
        assert abs(draws.mean() - masses @ places[:, number]) < ERRORS * error


@pytest.mark.slow
def test_the_same_seed_gives_the_same_samples_and_chains_differ():
    problem = hush.tasks.linear_regression(clients=2, examples=10, dimension=2, noise=1.0)
    first, again, other = (
        reference_posterior(problem, prior=1.0, draws=1000, warm_up=200, seed=seed) for seed in (3, 3, 4)
    )
    assert (first.values == again.values).all()
    assert not (first.values == other.values).any()
    assert not (first.values[:, 0] == first.values[:, 1]).any()
    assert [lane["repetition"] for lane in first.lanes] == [0, 1, 2, 3]
    assert first.settings["sampler"] == "NUTS"


@pytest.mark.slow
def test_a_run_that_has_not_converged_is_refused():
    problem = hush.tasks.linear_regression(clients=2, examples=10, dimension=2)
    with pytest.raises(RuntimeError, match=r"R-hat is .*, allowed is below 1.01; .*more warm_up and draws"):
        reference_posterior(problem, draws=6, warm_up=20, chains=2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": 0.0}, "temperature must be a positive number, found 0.0"),
        ({"prior": -1.0}, "prior must be a number of at least 0, found -1.0"),
        ({"chains": 1}, "chains must be a whole number of at least 2, found 1"),
        ({"draws": 3}, "draws must be a whole number of at least 4, found 3"),
        ({"warm_up": 0}, "warm_up must be a whole number of at least 20, found 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0, found -1"),
    ],
)
def test_settings_out_of_range_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        reference_posterior(hush.tasks.linear_regression(clients=1, examples=2, dimension=1), **options)


class Other(Problem):
    """Neither examples nor potentials."""

    population: Population

    def init(self, key):
        return jnp.zeros(2)

    def client(self, index):
        raise NotImplementedError

    def evaluate(self, params, batch):
        return {}


def test_only_known_problems_have_a_reference():
    with pytest.raises(ValueError, match="needs examples in memory and a loss, or potentials, found Other"):
        reference_posterior(Other(Population(np.ones(2, int))))


@pytest.mark.slow
def test_potentials_have_a_reference_too():
    """A Gaussian target with a prior: N((A + λ)⁻¹Am, τ(A + λ)⁻¹), and W2 within three times perfect samples'."""
    target = hush.tasks.gaussian_potentials([[1.0, 0.0], [0.0, 2.0]], [np.diag([4.0, 1.0]), np.diag([2.0, 5.0])])
    found = reference_posterior(target, temperature=0.5, prior=1.0, draws=1000, warm_up=400)
    covariance = np.diag([1 / 7, 1 / 7])
    few = int(found.worst()["ess_bulk"])
    mean = covariance @ np.array([4.0, 10.0])
    assert found.wasserstein(mean, 0.5 * covariance) < 3 * wasserstein.floor(0.5 * covariance, few)

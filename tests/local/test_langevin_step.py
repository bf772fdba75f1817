"""Langevin steps: what shares do to them, and what is refused."""

import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.cohort import SchemeII
from hush.core.keys import at, root
from hush.core.noise import normal
from hush.execution.simulation import Simulation
from hush.local import Langevin, LocalSGD


@pytest.fixture(scope="module")
def target():
    """Three clients of 10, 30 and 60 examples, each with its own quadratic in two dimensions."""
    draws = np.random.default_rng(0)
    factors = draws.normal(size=(3, 2, 2))
    precisions = 20 * (np.einsum("cij,ckj->cik", factors, factors) + np.eye(2))
    return hush.tasks.gaussian_potentials(draws.normal(size=(3, 2)), precisions, [10, 30, 60])


def test_noise_and_gradient_go_with_one_over_the_share(target):
    """One step of client c from x: x − η A_c(x − m_c)/p_c + √(2ητ/p_c) ξ, with p = 0.1, 0.3, 0.6."""
    rule = LocalSGD(1e-3, steps=1, direction=(Langevin(2.0),))
    x = np.array([0.5, -1.0])
    told = {"model": jnp.asarray(x, jnp.float32), "round": jnp.int32(0), "common": root(9)}
    for c, share in enumerate([0.1, 0.3, 0.6]):
        key = at(root(1), c)
        sent, _, _ = rule(key, told, {}, target.client(c))
        A, m = (np.asarray(target.data[name][c], float) for name in ("precision", "mean"))
        noise = np.asarray(normal(at(key, "direction", 0), 0, (2,)), float)
        expected = -1e-3 * A @ (x - m) / share + np.sqrt(2 * 1e-3 * 2.0 / share) * noise
        np.testing.assert_allclose(sent["update"], expected, rtol=1e-4, atol=1e-6)


def test_the_posterior_of_a_gaussian_is_that_of_all_examples(target):
    """Σ_c A_c and its pull, by hand."""
    A, m = (np.asarray(target.data[name], float) for name in ("precision", "mean"))
    np.testing.assert_allclose(target.covariance, np.linalg.inv(A[0] + A[1] + A[2]))
    np.testing.assert_allclose(target.precision @ target.mean, A[0] @ m[0] + A[1] @ m[1] + A[2] @ m[2])


@pytest.mark.slow
def test_potentials_and_their_twin_in_examples_move_alike():
    """A linear regression as examples and as one potential a client: the same chain."""
    problem = hush.tasks.linear_regression(clients=4, examples=12, dimension=3, heterogeneity=1.0)
    rows = np.asarray(problem.index).reshape(4, -1)
    data = {"x": np.asarray(problem.train.x)[rows], "y": np.asarray(problem.train.y)[rows]}

    def potential(theta, client):
        return 0.5 * jnp.sum((client["x"] @ theta - client["y"]) ** 2)

    twin = hush.tasks.potentials(potential, data, jnp.zeros(3), sizes=[rows.shape[1]] * 4)
    found = []
    for each in (problem, twin):
        simulation = Simulation(hush.fa_ld(steps=4, lr=1e-3, prior=0.3, correlation=0.5), each)
        simulation.advance(5)
        found.append((simulation.models, simulation.evaluate()["train_loss"]))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-4)


def test_layout_and_number_of_chains_change_nothing(target):
    """The second of three chains alone, a client at a time, over four devices: the same samples."""
    algorithm = hush.fa_ld(steps=5, lr=1e-4, correlation=0.4)
    many = Simulation(algorithm, target, repetitions=3, devices=1)
    one = Simulation(algorithm, target, repetitions=[1], clients_at_once=1, devices=4)
    for simulation in (many, one):
        simulation.advance(10)
    np.testing.assert_allclose(many.models[1:2], one.models, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: hush.fa_ld(scheme="III", per_round=2), "unknown scheme 'III'"),
        (lambda _: hush.fa_ld(scheme="II"), "schemes I and II take per_round"),
        (lambda _: hush.fa_ld(per_round=2), "schemes I and II take per_round"),
        (lambda target: Simulation(hush.fa_ld(batch=5), target).advance(1), "a potential has no batches"),
        (lambda target: Simulation(hush.fa_ld(clip=1.0), target).advance(1), "no examples whose gradients"),
        (lambda _: hush.tasks.potentials(lambda t, d: t, np.ones(3), jnp.zeros(2)), r"one number, found shape \(2,\)"),
        (lambda _: hush.tasks.potentials(sum, [np.ones(3), np.ones(2)], 0.0), r"found lengths \[2, 3\]"),
        (lambda _: hush.tasks.potentials(sum, np.ones(3), 0.0, sizes=[1]), "one number for each of 3 clients"),
        (lambda _: hush.tasks.gaussian_posterior(covariance=[[1.0, 2.0], [2.0, 1.0]]), "positive definite"),
        (lambda _: hush.tasks.gaussian_posterior(dimension=3, covariance=np.eye(2)), "symmetric 3 × 3 matrix"),
        (lambda _: hush.tasks.gaussian_potentials(np.ones((2, 2)), np.ones((2, 2))), r"precisions \[N, d, d\]"),
    ],
)
def test_what_is_refused(target, make, message):
    with pytest.raises(ValueError, match=message):
        make(target)


def test_a_client_must_be_told_the_common_key(target):
    algorithm = hush.fa_ld()
    state = hush.init_server(algorithm, jnp.zeros(2))
    with pytest.raises(ValueError, match=r"broadcast\(…, common=key\)"):
        hush.client_step(
            algorithm,
            root(0),
            hush.broadcast(algorithm, state),
            hush.init_client(algorithm, jnp.zeros(2)),
            target.client(0),
        )


def test_unbiased_noise_is_a_settings_file_away(target):
    """The cohort inside the direction survives the way to plain tables and back."""
    from hush.settings import tables_of

    tables = tables_of(hush.fa_ld(scheme="II", per_round=2, unbiased=True))
    assert tables["local"]["direction"][0]["unbiased_for"] == {"piece": "scheme_ii", "size": 2}
    assert isinstance(hush.fa_ld(scheme="II", per_round=2, unbiased=True).local.direction[0].unbiased_for, SchemeII)

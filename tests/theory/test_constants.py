"""Estimated constants against closed forms on quadratics, and against NumPy on logistic and softmax regression."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

import hush
from hush.theory import estimate

pytestmark = pytest.mark.slow


def moments(gradients, weight_decay, x):
    """Of example gradients [N, n, d]: ‖∇f_i‖² [N], the mean of ‖∇f_i − ∇f‖², the variance within clients [N], ∇f."""
    own = gradients.mean(1) + weight_decay * x
    spread = np.mean(np.sum((gradients - gradients.mean(1, keepdims=True)) ** 2, axis=2), axis=1)
    return np.sum(own**2, 1), np.mean(np.sum((own - own.mean(0)) ** 2, 1)), spread, own.mean(0)


def expected(gradients_at, points, batch, weight_decay, convexity):
    """What `estimate` should find at these models, the first of which is the start."""
    found = [moments(gradients_at(x), weight_decay, x) for x in points]
    reach = [
        np.linalg.norm(x - points[0]) + np.linalg.norm(f[3]) / convexity for x, f in zip(points, found, strict=True)
    ]
    return {
        "gradient": np.sqrt(max((f[0] + (f[2] / batch if batch else 0)).max() for f in found)),
        "heterogeneity": np.sqrt(max(f[1] for f in found)),
        "noise": np.sqrt(max(f[2].max() for f in found)),
        "distance": min(reach),
    }


def check(constants, **values):
    for name, value in values.items():
        assert getattr(constants, name) == pytest.approx(value, rel=2e-4), name


@pytest.mark.parametrize(("batch", "weight_decay"), [(None, 0.0), (2, 0.0), (2, 0.3)])
def test_a_quadratic_exactly(matrices, quadratic, batch, weight_decay):
    A, b = matrices
    _, rows, d = A.shape
    H = np.einsum("nij,nik->njk", A, A)
    eigenvalues = np.linalg.eigvalsh(H) + weight_decay
    best = np.linalg.solve(H.mean(0) + weight_decay * np.eye(d), np.einsum("nij,ni->nj", A, b).mean(0))

    def gradients_at(x):  # an example is √m (a, b), so that their mean is the client's
        return rows * A * (A @ x - b)[:, :, None]

    given = np.array([0.3, -1.0, 2.0])
    found = estimate(quadratic, batch, given, weight_decay)
    check(found, smoothness=eigenvalues.max(), convexity=eigenvalues.min())
    check(found, **expected(gradients_at, [np.zeros(d), given], batch, weight_decay, eigenvalues.min()))
    assert found.dimension == d
    assert "same for every x" in found.methods["convexity"]
    assert set(found.methods) == set(vars(found)) - {"methods"}
    # Left to itself it finds the optimum, and with it the distance.
    alone = estimate(quadratic, batch, weight_decay=weight_decay)
    check(alone, smoothness=eigenvalues.max(), convexity=eigenvalues.min(), distance=np.linalg.norm(best))
    assert alone.gradient**2 >= moments(gradients_at(best), weight_decay, best)[0].max() * (1 - 1e-4)


def test_clients_alike_have_no_heterogeneity_and_equal_rows_no_noise():
    row = np.array([[1.0, 0.0], [0.0, 2.0]])
    alike = estimate(hush.tasks.quadratic(np.stack([row] * 3), np.ones((3, 2))), 1)
    check(alike, smoothness=4, convexity=1, distance=np.hypot(1, 0.5))
    assert alike.heterogeneity == pytest.approx(0, abs=1e-5)
    assert alike.noise > 0
    single = estimate(hush.tasks.quadratic(np.full((2, 1, 1), 2.0), np.array([[0.0], [4.0]])), 1)
    assert single.noise == pytest.approx(0, abs=1e-5)
    check(single, smoothness=4, convexity=4, heterogeneity=4, distance=1)  # minima 0 and 2, ∇f_i = 4x − 2b


def test_logistic_regression_against_numpy():
    problem = hush.tasks.logistic_regression(clients=4, examples=25, dimension=3, heterogeneity=1.0, seed=1)
    x = np.asarray(problem.train.x, float).reshape(4, 20, 3)
    y = np.asarray(problem.train.y, float).reshape(4, 20)
    decay, given = 0.1, np.array([1.0, -0.5, 0.25])

    def chance(model):
        return 1 / (1 + np.exp(-x @ model))

    def flattest(model):
        bend = chance(model) * (1 - chance(model))
        return np.linalg.eigvalsh(np.einsum("nr,nri,nrj->nij", bend, x, x) / 20).min()

    convexity = decay + min(flattest(np.zeros(3)), flattest(given))
    outer = np.einsum("nri,nrj->nij", x, x) / 20
    found = estimate(problem, 5, given, decay)
    check(found, smoothness=decay + np.linalg.eigvalsh(outer).max() / 4, convexity=convexity)

    def gradients_at(model):
        return (chance(model) - y)[:, :, None] * x

    check(found, **expected(gradients_at, [np.zeros(3), given], 5, decay, convexity))
    assert "0.25" in found.methods["smoothness"]
    assert "may be less elsewhere" in found.methods["convexity"]


def test_softmax_regression_with_many_parameters():
    """213 of them: power iteration, and weight decay for convexity; unequal clients count alike."""
    draws = np.random.default_rng(5)
    sizes = [3, 9, 6]
    x, y = draws.normal(1, 1, (18, 70)).astype(np.float32), draws.integers(0, 3, 18)
    problem = hush.tasks.arrays(x, y, np.repeat(np.arange(3), sizes), model="softmax")
    found = estimate(problem, 4, weight_decay=0.01)
    with_one = np.hstack([x, np.ones((18, 1))])
    parts = np.split(np.arange(18), np.cumsum(sizes)[:-1])
    tops = [np.linalg.eigvalsh(with_one[rows].T @ with_one[rows] / len(rows)).max() for rows in parts]
    check(found, smoothness=0.01 + max(tops) / 2, convexity=0.01)
    assert found.dimension == 213
    # At the start all classes are alike likely: ∇ℓ = (1/3 − 1[y]) ⊗ (a, 1).
    start = estimate(problem, None, np.zeros(213), 0.01)
    gradients = np.einsum("rk,ri->rki", 1 / 3 - np.eye(3)[y], with_one).reshape(18, -1)
    own = np.stack([gradients[rows].mean(0) for rows in parts])
    check(
        start,
        gradient=np.linalg.norm(own, axis=1).max(),
        heterogeneity=np.sqrt(np.mean(np.sum((own - own.mean(0)) ** 2, 1))),
        noise=np.sqrt(max(np.mean(np.sum((gradients[r] - gradients[r].mean(0)) ** 2, 1)) for r in parts)),
        distance=np.linalg.norm(own.mean(0)) / 0.01,
    )
    with pytest.raises(ValueError, match="no Hessian of 213 parameters is looked at: weight_decay must be above 0"):
        estimate(problem, 4)


@pytest.mark.parametrize("d", [4, 210])
def test_a_model_of_ones_own_by_its_hessians(d):
    """A plain linear model, whole Hessians or power iteration on products with them: the same as from its inputs."""
    draws = np.random.default_rng(6)
    x = draws.normal(1, 1, (30, d)).astype(np.float32)
    y, ids = draws.normal(size=30).astype(np.float32), np.repeat([0, 1], 15)
    own = (lambda key: jnp.ones(d) / d, lambda params, inputs: inputs @ params)
    problem = hush.tasks.arrays(x, y, ids, model=own, kind="regression")
    found = estimate(problem, 4, np.zeros(d), weight_decay=0.1)
    tops = np.linalg.eigvalsh(np.einsum("nri,nrj->nij", *[x.reshape(2, 15, d).astype(float)] * 2) / 15)
    check(found, smoothness=0.1 + tops.max(), convexity=0.1 + (tops.min() if d == 4 else 0))
    assert ("power" in found.methods["smoothness"]) == (d == 210)


def test_a_bent_model_is_looked_at_where_it_is_asked():
    """ℓ = ½(tanh(x)·a − y)²: the Hessian depends on the model, and so do L and µ."""
    own = (lambda key: jnp.zeros(1), lambda params, inputs: inputs[:, 0] * jnp.tanh(params[0]))
    problem = hush.tasks.arrays(np.full((4, 1), 2.0), np.zeros(4), [0, 0, 1, 1], model=own, kind="regression")
    w = 0.2
    bend = 2 * 2 * (1 - np.tanh(w) ** 2) * (1 - 3 * np.tanh(w) ** 2)  # of 2·tanh², twice differentiated
    found = estimate(problem, None, np.array([w]))
    check(found, smoothness=4, convexity=bend)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda q: estimate(q, 0), "batch must be a whole number of at least 1, found 0"),
        (lambda q: estimate(q, 1, weight_decay=-1.0), "weight decay must be a number of at least 0, found -1.0"),
        (lambda q: estimate(q, 1, np.zeros(4)), r"model must be finite, \[3\] or \[P, 3\], found shape \(4,\)"),
        (lambda q: estimate(q, 1, np.full(3, np.nan)), "model must be finite"),
        (lambda q: estimate(hush.tasks.quadratic(np.ones((2, 1, 2)), np.ones((2, 1))), 1), "Hessian is singular"),
    ],
)
def test_what_is_refused(quadratic, make, message):
    with pytest.raises(ValueError, match=message):
        make(quadratic)


def test_the_seed_is_the_start_of_a_model_that_has_one():
    own = (lambda key: random.normal(key, (2,)), lambda params, inputs: inputs @ params)
    x = np.random.default_rng(0).normal(size=(8, 2)).astype(np.float32)
    problem = hush.tasks.arrays(x, np.zeros(8), np.repeat([0, 1], 4), model=own, kind="regression")
    one, again, other = (estimate(problem, None, np.zeros(2), seed=seed) for seed in (0, 0, 1))
    assert one == again
    assert one.distance != other.distance

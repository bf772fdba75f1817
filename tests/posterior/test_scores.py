"""Scores of predicted probabilities against a plain loop, scikit-learn, and what the problem itself measures."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss

import hush
from hush.core.evaluation import measures
from hush.posterior.calibration import is_classifier, labels, probabilities, reliability, scores, scores_of

quick = settings(derandomize=True, deadline=None, max_examples=60)


@st.composite
def predictions(draw):
    """Probabilities from shy to certain, sometimes exactly equal or exactly one, and labels."""
    count, classes = draw(st.integers(1, 60)), draw(st.integers(1, 6))
    draws = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    logits = draws.normal(size=(count, classes)) * draw(st.sampled_from([0.0, 0.3, 2.0, 30.0, 500.0]))
    found = np.exp(logits - logits.max(1, keepdims=True))
    return found / found.sum(1, keepdims=True), draws.integers(0, classes, count)


def plainly(table, truth, bins):
    """The scores by a loop over examples, as they are defined."""
    count = len(truth)
    edges = np.linspace(0, 1, bins + 1)
    right, brier, nll = 0, 0.0, 0.0
    inside = [[] for _ in range(bins)]
    for row, label in zip(table, truth, strict=True):
        chosen = int(np.argmax(row))
        right += chosen == label
        brier += sum((chance - (number == label)) ** 2 for number, chance in enumerate(row))
        nll -= np.log(max(row[label], np.finfo(float).tiny))
        place = next(number for number in range(bins) if row[chosen] <= edges[number + 1] or number == bins - 1)
        inside[place].append((row[chosen], chosen == label))
    ece = 0.0
    for members in inside:
        if members:
            sure, hit = np.mean([m[0] for m in members]), np.mean([m[1] for m in members])
            ece += len(members) / count * abs(hit - sure)
    return {"accuracy": right / count, "brier": brier / count, "nll": nll / count, "ece": ece}


@quick
@given(predictions(), st.integers(1, 20))
def test_scores_are_those_of_a_plain_loop(made, bins):
    assert scores(*made, bins=bins) == pytest.approx(plainly(*made, bins), abs=1e-12)


@quick
@given(predictions())
def test_bounds(made):
    table, truth = made
    found = scores(table, truth)
    assert 0 <= found["accuracy"] <= 1
    assert 0 <= found["ece"] <= 1
    assert 0 <= found["brier"] <= 2
    assert found["nll"] >= 0
    # One of the squares that the Brier score sums up is that of the right class.
    assert np.mean((1 - table[np.arange(len(truth)), truth]) ** 2) <= found["brier"] + 1e-12
    # One bin: the error of the mean confidence. More bins can only show more.
    whole = scores(table, truth, bins=1)["ece"]
    assert whole == pytest.approx(abs(table.max(1).mean() - found["accuracy"]))
    assert whole <= scores(table, truth, bins=2)["ece"] + 1e-12 <= scores(table, truth, bins=8)["ece"] + 2e-12


def test_perfect_and_perfectly_wrong():
    sure = np.eye(4)[[0, 1, 2, 3, 3]]
    assert scores(sure, np.array([0, 1, 2, 3, 3])) == {"accuracy": 1, "brier": 0, "nll": 0, "ece": 0}
    wrong = scores(sure, np.array([1, 2, 3, 0, 0]))
    assert (wrong["accuracy"], wrong["brier"], wrong["ece"]) == (0, 2, 1)
    assert np.isfinite(wrong["nll"])
    assert wrong["nll"] > 700


def test_scikit_learn_agrees():
    draws = np.random.default_rng(0)
    table = draws.dirichlet(np.full(5, 0.4), size=700)
    truth = np.array([draws.choice(5, p=row) for row in table])
    found = scores(table, truth)
    assert found["nll"] == pytest.approx(log_loss(truth, table, labels=range(5)))
    assert found["brier"] == pytest.approx(brier_score_loss(truth, table, labels=range(5), scale_by_half=False))
    right = table.argmax(1) == truth
    accuracy, confidence = calibration_curve(right, table.max(1), n_bins=15)
    drawn = reliability(table, truth)
    full = drawn[drawn["count"] > 0]
    assert full["accuracy"].to_numpy() == pytest.approx(accuracy)
    assert full["confidence"].to_numpy() == pytest.approx(confidence)


def test_two_classes_have_twice_the_usual_binary_brier_score():
    draws = np.random.default_rng(1)
    chance = draws.uniform(size=300)
    truth = (draws.uniform(size=300) < chance).astype(int)
    found = scores(np.stack([1 - chance, chance], 1), truth)
    assert found["brier"] == pytest.approx(2 * brier_score_loss(truth, chance))


def test_calibrated_predictions_have_little_error_and_sharpened_ones_much():
    # ECE of calibrated predictions is about Σ_b √(n_b/n) √(p(1−p)/n) ≈ √15 · 0.4/√20000 ≈ 0.01.
    draws = np.random.default_rng(2)
    table = draws.dirichlet(np.ones(3), size=20_000)
    truth = (draws.uniform(size=(20_000, 1)) > table.cumsum(1)).sum(1)
    sharp = table**3 / (table**3).sum(1, keepdims=True)
    assert scores(table, truth)["ece"] < 0.02
    assert scores(sharp, truth)["ece"] > 0.1
    # Both scores are proper: the true probabilities are best.
    for name in ("brier", "nll"):
        assert scores(table, truth)[name] < scores(sharp, truth)[name]


@quick
@given(predictions(), st.integers(1, 20))
def test_the_table_adds_up_to_the_calibration_error(made, bins):
    table = reliability(*made, bins=bins)
    assert list(table.columns) == ["bin", "low", "high", "count", "confidence", "accuracy"]
    assert len(table) == bins
    assert table["count"].sum() == len(made[1])
    full = table[table["count"] > 0]
    assert table.loc[table["count"] == 0, ["confidence", "accuracy"]].isna().all(axis=None)
    assert (full["confidence"] > full["low"] - 1e-9).all()
    assert (full["confidence"] <= full["high"] + 1e-9).all()
    weighted = (full["count"] * (full["accuracy"] - full["confidence"]).abs()).sum() / len(made[1])
    assert weighted == pytest.approx(scores(*made, bins=bins)["ece"], abs=1e-12)


def test_a_confidence_on_an_edge_belongs_below_it():
    table = np.array([[0.5, 0.5], [0.75, 0.25], [1.0, 0.0]])
    assert list(reliability(table, np.array([0, 0, 0]), bins=4)["count"]) == [0, 1, 1, 1]


def test_compiled_and_mapped_over_models_it_is_the_same():
    draws = np.random.default_rng(3)
    tables = draws.dirichlet(np.full(4, 0.5), size=(3, 200))
    truth = draws.integers(0, 4, 200)
    each = jax.jit(jax.vmap(scores_of, (0, None)))(jnp.asarray(tables, jnp.float32), truth)
    for number in range(3):
        alone = scores(tables[number].astype(np.float32), truth)
        assert {name: float(value[number]) for name, value in each.items()} == pytest.approx(alone, abs=1e-5)


def test_probabilities_of_a_classifier_give_its_own_measures(unequal):
    params = jax.tree.map(lambda leaf: leaf + 0.3, unequal.init(jax.random.key(1)))
    table = probabilities(unequal, params)
    logits = unequal.model.apply(params, unequal.test[:][0])
    assert np.asarray(table) == pytest.approx(np.asarray(jax.nn.softmax(logits)), rel=1e-5)
    found, own = scores(table, labels(unequal)), measures(unequal, params)
    assert found["nll"] == pytest.approx(float(own["test_loss"]), rel=1e-5)
    assert found["accuracy"] == pytest.approx(float(own["accuracy"]))


@pytest.mark.parametrize("examples", [3, 2500, 3000])  # chunks are of 1000
def test_two_classes_chunk_by_chunk(examples):
    problem = hush.tasks.logistic_regression(clients=1, examples=examples * 5, dimension=3)
    params = jnp.array([1.0, -2.0, 0.5])
    table = np.asarray(jax.jit(probabilities)(problem, params))
    logit = np.asarray(problem.test.x) @ np.asarray(params)
    assert table.shape == (examples, 2)
    assert table[:, 1] == pytest.approx(1 / (1 + np.exp(-logit)), rel=1e-4)
    found, own = scores(table, labels(problem)), measures(problem, params)
    assert found["nll"] == pytest.approx(float(own["test_loss"]), rel=1e-4)
    assert found["accuracy"] == pytest.approx(float(own["accuracy"]))


def test_what_has_no_classes_or_no_test_set_is_refused(unequal, quadratic):
    linear = hush.tasks.linear_regression(clients=2, examples=5, dimension=2)
    x, y = np.zeros((4, 2), np.float32), np.array([0, 1, 0, 1])
    untested = hush.tasks.arrays(x, y, np.array([0, 0, 1, 1]), model="softmax")
    assert [is_classifier(problem) for problem in (unequal, linear, quadratic, untested)] == [True, False, False, False]
    with pytest.raises(ValueError, match="has no classes: its measures are regression"):
        probabilities(linear, jnp.zeros(2))
    with pytest.raises(ValueError, match="has no test examples"):
        labels(untested)


@pytest.mark.parametrize(
    ("table", "truth", "words"),
    [
        ([[0.5, 0.6]], [0], "row 0 sums to 1.1"),
        ([[0.5, 0.5], [1.5, -0.5]], [0, 0], "found 1 that are not so; row 1 sums to 1, from -0.5 to 1.5"),
        ([[np.nan, 1.0]], [0], "row 0 sums to nan"),
        ([[0.5, 0.5]], [2], "labels must be whole numbers from 0 to 1, found int64 from 2 to 2"),
        ([[0.5, 0.5]], [-1], "from -1 to -1"),
        ([[0.5, 0.5]], [0.0], "found float64"),
        ([0.5, 0.5], [0, 1], r"found \(2,\) and \(2,\)"),
        ([[0.5, 0.5]], [0, 1], r"found \(1, 2\) and \(2,\)"),
        (np.zeros((0, 2)), [], r"found \(0, 2\)"),
    ],
)
def test_what_are_no_probabilities_is_refused(table, truth, words):
    for score in (scores, reliability):
        with pytest.raises(ValueError, match=words):
            score(np.array(table), np.array(truth))


def test_bins_are_counted_from_one():
    with pytest.raises(ValueError, match="bins must be a whole number of at least 1, found 0"):
        scores([[1.0]], [0], bins=0)

"""Pictures of samples and of calibration: what is drawn is read back from the figure and computed a second way."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import hush
from hush.posterior import Posterior, reliability, scores
from hush.posterior.quiet import arviz
from hush.report.posterior_plots import density, reliability_diagram, trace
from hush.report.reliability import OVER, UNDER, calibration_error
from hush.report.style import png, svg

LINEAR = hush.tasks.linear_regression(clients=2, examples=10, dimension=8)


def made(draws=60, chains=3, lanes=None, seed=0):
    values = np.random.default_rng(seed).normal(size=(draws, chains, 8))
    values[:, 0] += 0.3 * np.arange(8)  # the later, the less the chains agree
    lanes = lanes or [{"repetition": number} for number in range(chains)]
    return Posterior(values, LINEAR, np.arange(draws) * 10 + 500, lanes)


def predicted(sharpness, count=2000, seed=0):
    draws = np.random.default_rng(seed)
    table = draws.dirichlet(np.full(4, 0.7), size=count)
    truth = (draws.uniform(size=(count, 1)) > table.cumsum(1)).sum(1)
    return table**sharpness / (table**sharpness).sum(1, keepdims=True), truth


def lines(ax, gid):
    return [line.get_data() for line in ax.get_lines() if str(line.get_gid()).startswith(gid)]


def title(ax, loc="left"):
    return ax.get_title(loc=loc)


def texts(legend):
    return [text.get_text() for text in legend.get_texts()]


def test_a_trace_shows_every_chain_over_the_rounds():
    found = made()
    figure = trace(found, most=8)
    rows = [(figure.axes[2 * row], figure.axes[2 * row + 1]) for row in range(8)]
    assert [title(ax) for ax, _ in rows] == found.names()
    for number, (ax, beside) in enumerate(rows):
        for chain, (x, y) in enumerate(lines(ax, "chain")):
            assert (x == found.rounds).all()
            assert (y == found.values[:, chain, number]).all()
        assert len(beside.get_lines()) == 3
        hat = float(arviz().rhat(found.values[:, :, number].T))
        assert title(ax, "right").startswith(f"R-hat {hat:.3f}, ")
    assert rows[-1][0].get_xlabel() == "round"


def test_of_many_parameters_those_that_agree_least_are_drawn():
    hats = [float(arviz().rhat(made().values[:, :, number].T)) for number in range(8)]
    worst = [f"theta[{number}]" for number in np.argsort(hats)[::-1][:3]]
    assert [title(ax) for ax in trace(made(), most=3).axes[::2]] == worst
    assert [title(ax) for ax in density(made(), most=3).axes] == worst
    chosen = ["theta[4]", "theta[1]"]
    assert [title(ax) for ax in density(made(), parameters=chosen).axes] == chosen
    with pytest.raises(ValueError, match="unknown parameter 'theta'"):
        trace(made(), parameters=["theta"])


def test_one_chain_has_a_trace_without_r_hat():
    figure = trace(made(chains=1), most=2)
    assert [title(ax) for ax in figure.axes[::2]] == ["theta[0]", "theta[1]"]
    assert title(figure.axes[0], "right") == ""
    assert figure.axes[-1].get_xlabel() == "1 chain"
    assert texts(density(made(chains=1), most=1).legends[0]) == ["samples", "mean and 90% interval"]


def test_a_density_has_the_interval_and_mean_of_all_chains():
    found = made(draws=400)
    table = found.intervals(0.9)
    for ax in density(found, parameters=["theta[0]", "theta[7]"]).axes:
        ((ends, _),), ((middle, _),) = lines(ax, "interval"), lines(ax, "mean")
        assert list(ends) == pytest.approx(table.loc[title(ax), ["low", "high"]].tolist())
        assert middle[0] == pytest.approx(table.loc[title(ax), "mean"])
        ((x, y),) = lines(ax, "all chains")
        assert np.trapezoid(y, x) == pytest.approx(1, abs=0.02)
        assert len(lines(ax, "chain")) == 3


def test_a_gaussian_reference_is_drawn_as_it_is():
    mean, covariance = np.arange(8.0), np.diag(np.arange(1.0, 9.0))
    figure = density(made(), most=8, reference=(mean, covariance))
    for number, ax in enumerate(figure.axes[:8]):
        ((x, y),) = lines(ax, "reference")
        assert y == pytest.approx(norm.pdf(x, mean[number], np.sqrt(number + 1)))
        assert x.min() <= mean[number] - 3 * np.sqrt(number + 1)
    assert "reference" in texts(figure.legends[0])


def test_other_samples_as_a_reference():
    other = made(seed=1)
    ((x, y),) = lines(density(made(), most=1, reference=other).axes[0], "reference")
    assert np.trapezoid(y, x) == pytest.approx(1, abs=0.02)
    assert x.min() < other.values.max()
    still = Posterior(np.ones((5, 2, 8)), LINEAR, np.arange(5), [{"repetition": 0}, {"repetition": 1}])
    with pytest.raises(ValueError, match="must be spread"):
        density(made(), most=1, reference=still)
    with pytest.raises(ValueError, match="a reference must have 8 parameters, found 2"):
        density(made(), reference=(np.zeros(2), np.eye(2)))


def test_points_of_a_sweep_are_not_drawn_together():
    mixed = made(lanes=[{"repetition": 0, "local.lr": rate} for rate in (0.1, 0.2, 0.3)])
    for draw in (trace, density):
        with pytest.raises(ValueError, match="3 points of a sweep"):
            draw(mixed)
    with pytest.raises(ValueError, match="3 points of a sweep"):
        density(made(), reference=mixed)


def test_what_never_moves_and_many_chains_still_give_figures():
    found = made(chains=12)
    found.values[:, :, 0] = 2.0
    for draw in (trace, density):
        assert png(draw(found, parameters=["theta[0]", "theta[1]"])).startswith(b"\x89PNG")
    assert "<text" in svg(density(found, most=2), "spread")


@pytest.mark.parametrize("chains", [1, 3])
def test_samples_that_are_not_finite_are_refused_in_words(chains):
    found = made(chains=chains)
    found.values[30:, 0, 2] = np.inf
    for draw in (trace, density):
        with pytest.raises(ValueError, match=r"must be finite.*chain 0, theta\[2\]"):
            draw(found)


def test_bars_gaps_and_histogram_are_the_table():
    table = reliability(*predicted(2.0))
    above, below = reliability_diagram(table).axes
    full = table[table["count"] > 0]
    accuracy, over, under = above.containers
    assert [bar.get_height() for bar in accuracy] == pytest.approx(full["accuracy"].tolist())
    assert len(over) + len(under) == len(full)
    for bars, colour in ((over, OVER), (under, UNDER)):
        for bar in bars:
            row = full.loc[(full["low"] < bar.get_x() + 0.01) & (full["high"] > bar.get_x() + 0.01)].iloc[0]
            ends = {bar.get_y(), bar.get_y() + bar.get_height()}
            assert sorted(ends) == pytest.approx(sorted([row["accuracy"], row["confidence"]]))
            assert (row["confidence"] > row["accuracy"]) == (colour == OVER)
    shares = [bar.get_height() for bar in below.containers[0]]
    assert shares == pytest.approx((table["count"] / table["count"].sum()).tolist())


def test_the_legend_has_the_scores_of_the_predictions():
    sure, truth = predicted(2.0)
    found = scores(sure, truth)
    table = reliability(sure, truth)
    assert calibration_error(table) == pytest.approx(found["ece"])
    above, below = reliability_diagram(table).axes
    assert texts(above.get_legend()) == [
        f"ECE {100 * found['ece']:.1f} %",
        f"accuracy {100 * found['accuracy']:.1f} %",
        f"confidence {100 * sure.max(1).mean():.1f} %",
    ]
    means = {line.get_gid(): line.get_xdata()[0] for line in below.get_lines()}
    assert means == pytest.approx({"mean accuracy": found["accuracy"], "mean confidence": sure.max(1).mean()})


@pytest.mark.slow
def test_whiskers_hold_the_truth_as_often_as_they_say():
    # Calibrated predictions: in a narrow bin the true chance is the mean confidence. Of about 600 whiskers 90 %
    # should hold it; 85 % to 95 % are four standard errors, one false alarm in ten thousand seeds.
    held = []
    for seed in range(60):
        table = reliability(*predicted(1.0, seed=seed))
        table = table[table["count"] >= 10]
        segments = reliability_diagram(table).axes[0].collections[0].get_segments()
        for (_, truth), (low, high) in zip(
            table[["low", "confidence"]].to_numpy(), [sorted(segment[:, 1]) for segment in segments], strict=True
        ):
            held.append(low <= truth <= high)
    assert len(held) > 500
    assert 0.85 < np.mean(held) < 0.95


def test_predictors_stand_side_by_side_under_their_names():
    tables = {"point estimate": reliability(*predicted(2.0)), "_posterior $average": reliability(*predicted(1.0))}
    figure = reliability_diagram(tables)
    assert [title(ax) for ax in figure.axes[:2]] == list(tables)
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim() == (0, 1)
    assert texts(figure.legends[0]) == ["accuracy", "too sure", "not sure enough", "calibrated"]
    assert png(figure).startswith(b"\x89PNG")


def test_tables_that_are_none_are_refused():
    table = reliability(*predicted(1.0))
    with pytest.raises(ValueError, match="from 1 to 6 predictors can be compared, found 0"):
        reliability_diagram({})
    with pytest.raises(ValueError, match="from 1 to 6 predictors can be compared, found 7"):
        reliability_diagram({str(number): table for number in range(7)})
    with pytest.raises(ValueError, match="'mine' lacks confidence, accuracy"):
        reliability_diagram({"mine": table[["low", "high", "count"]]})
    with pytest.raises(ValueError, match="needs examples, found none"):
        reliability_diagram(pd.DataFrame(table.assign(count=0)))

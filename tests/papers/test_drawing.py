"""The papers' pictures: no curve is cut off, legends stand off the curves."""

import numpy as np
import pandas as pd

from hush.papers.drawing import curves, panels
from hush.report.plots import Line


def line(name, low, high):
    rounds = np.arange(0, 50, 10)
    return Line(name, pd.DataFrame({"repetition": 0, "round": rounds, "accuracy": np.linspace(low, high, len(rounds))}))


def test_panels_share_a_scale_that_holds_every_curve():
    figure = panels(
        {"one": [line("a", 0.1, 0.9)], "two": [line("a", 0.4, 0.99)], "three": [line("a", 0.05, 0.5)]}, "accuracy"
    )
    used = figure.axes[:3]
    assert len({ax.get_ylim() for ax in used}) == 1
    low, high = used[0].get_ylim()
    drawn = np.concatenate([np.asarray(each.get_ydata()) for ax in used for each in ax.get_lines()])
    assert low < drawn.min()
    assert drawn.max() < high
    assert all(ax.get_legend() is None for ax in used)
    assert figure.axes[3].get_legend() is not None


def test_a_legend_stands_below_the_axes():
    figure = curves([line("a", 0.1, 0.9), line("b", 0.2, 0.8)], "accuracy")
    figure.canvas.draw()
    (ax,) = figure.axes
    assert ax.get_legend().get_window_extent().y1 <= ax.get_window_extent().y0

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


def test_a_name_has_one_colour_in_all_panels():
    panel = {"one": [line("a", 0.1, 0.9), line("b", 0.2, 0.8)], "two": [line("a", 0.1, 0.9), line("c", 0.3, 0.7)]}
    figure = panels(panel, "accuracy")
    (a, b), (again, c) = (ax.get_lines() for ax in figure.axes[:2])
    assert a.get_color() == again.get_color()
    assert len({each.get_color() for each in (a, b, c)}) == 3
    legend = figure.axes[2].get_legend()
    said = {
        text.get_text(): drawn.get_color() for text, drawn in zip(legend.get_texts(), legend.get_lines(), strict=True)
    }
    assert said == {"a": a.get_color(), "b": b.get_color(), "c": c.get_color()}


def test_a_curve_that_lies_on_another_is_dashed():
    figure = curves([line("a", 0.1, 0.9), line("b", 0.1, 0.901), line("c", 0.2, 0.8)], "accuracy")
    (ax,) = figure.axes
    assert [each.is_dashed() for each in ax.get_lines()] == [False, True, False]
    assert [each.is_dashed() for each in ax.get_legend().get_lines()] == [False, True, False]
    later = line("b", 0.1, 0.9)
    later = later._replace(frame=later.frame.assign(round=later.frame["round"] + 1))
    figure = curves([line("a", 0.1, 0.9), later], "accuracy")
    assert not any(each.is_dashed() for each in figure.axes[0].get_lines())


def test_a_legend_stands_below_the_axes():
    figure = curves([line("a", 0.1, 0.9), line("b", 0.2, 0.8)], "accuracy")
    figure.canvas.draw()
    (ax,) = figure.axes
    assert ax.get_legend().get_window_extent().y1 <= ax.get_window_extent().y0

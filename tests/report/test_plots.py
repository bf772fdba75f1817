"""Curves and pictures of the data: what is drawn is read back from the figure and computed a second way."""

import sys
import threading

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from report_samples import made

from hush.models.wrap import wrap
from hush.report import formatting
from hush.report.classes import picture
from hush.report.plots import curve
from hush.report.style import drawing, png, svg
from hush.tasks.classes import class_counts
from hush.tasks.measures import binary, classification, regression
from hush.tasks.problem import supervised


def drawn(figure):
    """Lines and bands of the only axes: [(x, y)], [(x, low, high)]."""
    ax = figure.axes[0]
    bands = []
    for band in ax.collections:
        vertices = band.get_paths()[0].vertices
        xs = np.unique(vertices[:, 0])
        bands.append((xs, *(np.array([pick(vertices[vertices[:, 0] == x, 1]) for x in xs]) for pick in (min, max))))
    return [line.get_data() for line in ax.get_lines()], bands


def test_line_and_band_are_mean_lowest_and_highest():
    records = made(repetitions=4)
    ((x, y),), ((band_x, low, high),) = drawn(curve(records, "accuracy", "round"))
    for place, done in enumerate(range(10, 51, 10)):
        values = [row.accuracy for row in records.itertuples() if row.round == done]
        assert len(values) == 4
        assert x[place] == band_x[place] == done
        assert y[place] == pytest.approx(sum(values) / 4)
        assert low[place] == pytest.approx(min(values))
        assert high[place] == pytest.approx(max(values))


def test_against_bits_a_mean_stands_at_the_mean_of_what_was_spent():
    ((x, _),), _ = drawn(curve(made(repetitions=3, bits=4_000_000), "accuracy", "uplink_bits"))
    assert x == pytest.approx([done * (4_000_000 + 1000) for done in range(10, 51, 10)])


def test_a_line_for_each_point_of_a_sweep_named_in_the_legend():
    figure = curve(made(sweep=(0.01, 0.3, 1.0)), "test_loss")
    legend = figure.axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["local.lr = 0.01", "local.lr = 0.3", "local.lr = 1"]
    assert legend.get_title().get_text() == "band: lowest to highest of 3 repetitions"
    lines, bands = drawn(figure)
    assert (len(lines), len(bands)) == (3, 3)
    assert len({line.get_color() for line in figure.axes[0].get_lines()}) == 3


def test_one_repetition_has_no_band_and_needs_no_legend():
    figure = curve(made(repetitions=1))
    assert drawn(figure)[1] == []
    assert figure.axes[0].get_legend() is None


@pytest.mark.parametrize(
    ("measure", "against", "bits", "expected"),
    [
        ("accuracy", "round", 1, ("rounds", "test accuracy (%)")),
        ("train_loss", "uplink_bits", 4_000_000, ("sent by all clients (Mbit)", "training loss")),
        ("test_loss", "uplink_bits", 400_000_000, ("sent by all clients (Gbit)", "test loss")),
        ("accuracy", "seconds", 1, ("training time (s)", "test accuracy (%)")),
        ("update_norm", "iterations", 1, ("local steps of a client", "update norm")),
        ("uplink_bits", "round", 4_000_000, ("rounds", "sent by all clients (Mbit)")),
    ],
)
def test_axes_are_labelled_in_words_with_units(measure, against, bits, expected):
    ax = curve(made(bits=bits), measure, against).axes[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == expected


def test_ticks_are_in_the_unit_of_the_label():
    records = made(bits=4_000_000)
    ax = curve(records, "accuracy", "uplink_bits").axes[0]
    ax.figure.draw_without_rendering()
    for place, text in zip(ax.get_xticks(), ax.xaxis.get_ticklabels(), strict=True):
        assert float(text.get_text().replace(",", "")) * 1e6 == pytest.approx(place)
    for place, text in zip(ax.get_yticks(), ax.yaxis.get_ticklabels(), strict=True):
        assert float(text.get_text()) / 100 == pytest.approx(place)


def test_numbers_that_are_not_finite_are_left_out_and_said():
    records = made(repetitions=3)
    records.loc[(records["repetition"] == 1) & (records["round"] >= 40), "test_loss"] = np.nan
    records.loc[(records["repetition"] == 2) & (records["round"] == 20), "test_loss"] = np.inf
    figure = curve(records, "test_loss")
    ((x, y),), _ = drawn(figure)
    assert list(x) == [10, 20, 30, 40, 50]
    rest = records[(records["round"] == 50) & (records["repetition"] != 1)]["test_loss"]
    assert y[-1] == pytest.approx(rest.sum() / 2)
    assert figure.axes[0].get_legend().get_texts()[0].get_text() == "mean (1 of 3 not finite)"


def test_nothing_finite_and_nothing_at_all_still_give_a_figure():
    records = made()
    records["accuracy"] = np.nan
    assert "no finite values" in [text.get_text() for text in curve(records).axes[0].texts]
    empty = curve(pd.DataFrame())
    assert "no evaluations yet" in [text.get_text() for text in empty.axes[0].texts]
    assert png(empty).startswith(b"\x89PNG")
    assert png(curve(records)).startswith(b"\x89PNG")


def test_unknown_names_are_refused_with_those_that_are_known():
    with pytest.raises(ValueError, match=r"measure must be one of train_loss, test_loss, accuracy.*found 'acuracy'"):
        curve(made(), "acuracy")
    with pytest.raises(ValueError, match=r"against must be one of round, uplink_bits.*found 'epoch'"):
        curve(made(), "accuracy", "epoch")
    with pytest.raises(ValueError, match="measure must be one of"):
        curve(made(sweep=(0.1,)), "local.lr")


def test_lines_add_up_on_given_axes_and_units_fit_all_of_them():
    figure = drawing()
    ax = figure.subplots()
    curve(made(bits=4_000_000), "accuracy", "uplink_bits", ax=ax, label="thrifty")
    assert ax.get_xlabel() == "sent by all clients (Mbit)"
    assert curve(made(bits=25_000_000), "accuracy", "uplink_bits", ax=ax, label="_lavish $x") is figure
    assert ax.get_xlabel() == "sent by all clients (Gbit)"
    assert ax.get_xscale() == "linear"
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["thrifty", "_lavish $x"]
    assert png(figure).startswith(b"\x89PNG")  # a lone dollar would be a broken formula
    curve(made(bits=400_000_000), "accuracy", "uplink_bits", ax=ax, label="far more")
    assert ax.get_xscale() == "log"


def test_wide_ranges_of_a_loss_are_logarithmic_and_accuracy_never_is():
    records = made()
    records["test_loss"] = 10.0 ** -records["round"]
    records["accuracy"] = 10.0 ** -records["round"]
    assert curve(records, "test_loss").axes[0].get_yscale() == "log"
    assert curve(records, "accuracy").axes[0].get_yscale() == "linear"


def test_a_long_sweep_stays_readable():
    figure = curve(made(sweep=[0.01 * k for k in range(1, 41)]), "accuracy", "seconds")
    figure.draw_without_rendering()
    legend = figure.axes[0].get_legend().get_window_extent()
    axes = figure.axes[0].get_window_extent()
    assert legend.y1 <= axes.y0, "the legend must not cover the lines"
    assert axes.height > 150
    assert len({line.get_color() for line in figure.axes[0].get_lines()}) == 40


def test_pyplot_and_global_settings_are_left_alone():
    before = dict(mpl.rcParams)
    pyplot = "matplotlib.pyplot" in sys.modules
    svg(curve(made()), "one")
    assert dict(mpl.rcParams) == before
    assert ("matplotlib.pyplot" in sys.modules) == pyplot
    if pyplot:
        assert sys.modules["matplotlib.pyplot"].get_fignums() == []


def test_a_figure_shows_itself_in_a_notebook():
    assert curve(made())._repr_png_().startswith(b"\x89PNG")


def test_figures_can_be_made_in_threads():
    found = {}

    def work(number):
        found[number] = svg(curve(made()), "same")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert len(set(found.values())) == 1, "the same records give the same picture"


def problem_of(parts, labels, measures, test=None):
    inputs = np.zeros((len(labels), 2), np.float32)
    outputs = 5 if measures is classification else 1
    model = wrap("softmax", (2,), outputs)
    return supervised((inputs, labels), [np.array(part) for part in parts], model, measures, test=test)


def test_class_counts_count_classes_client_by_client():
    labels = np.array([0, 1, 2, 1, 1, 0], np.int32)
    parts = [[0, 1], [2, 3, 4, 1], [5]]
    counts = class_counts(problem_of(parts, labels, classification))
    expected = np.zeros((3, 3), int)
    for client, part in enumerate(parts):
        for row in part:
            expected[client, labels[row]] += 1
    assert (counts == expected).all()


def test_class_counts_know_classes_only_the_test_set_has_and_refuse_what_has_none():
    test = (np.zeros((1, 2), np.float32), np.array([4], np.int32))
    assert class_counts(problem_of([[0], [1]], np.array([0, 1], np.int32), classification, test)).shape == (2, 5)
    assert class_counts(problem_of([[0], [1]], np.array([0.5, 1.5], np.float32), regression)) is None
    counts = class_counts(problem_of([[0, 1], [2]], np.array([0.0, 1.0, 1.0], np.float32), binary))
    assert counts.tolist() == [[1, 1], [0, 1]]
    assert class_counts(object()) is None


@pytest.mark.parametrize(("clients", "classes"), [(1, 1), (10, 10), (100, 10), (2000, 62), (20, 100)])
def test_pictures_of_few_and_many_clients(clients, classes):
    draws = np.random.default_rng(0)
    counts = draws.integers(0, 50, (clients, classes)) + 1
    figure = picture(counts)
    assert png(figure).startswith(b"\x89PNG")
    total = counts.sum()
    if clients <= 60 and classes <= 10:
        heights = [bar.get_height() for bar in figure.axes[0].patches]
        assert sum(heights) == total
        assert max(bar.get_y() + bar.get_height() for bar in figure.axes[0].patches) == counts.sum(1).max()
    else:
        shares = figure.axes[1].images[0].get_array()
        assert shares.shape == (classes, min(clients, 200))
        assert np.allclose(shares.sum(0), 1)


NAMES = ("$ill$", "_well", "a very long name of a class that no legend has room for")


def test_bars_are_named_as_the_classes_are():
    """By colour: the name in the legend is that of the bars, however it is written."""
    counts = np.array([[1, 2, 3], [4, 0, 1]])
    figure = picture(counts, NAMES)
    ax, legend = figure.axes[0], figure.axes[0].get_legend()
    heights = {}
    for bar in ax.patches:
        heights[bar.get_facecolor()] = heights.get(bar.get_facecolor(), 0) + bar.get_height()
    said = {
        text.get_text(): heights[patch.get_facecolor()]
        for text, patch in zip(legend.get_texts(), legend.get_patches(), strict=True)
    }
    assert list(said.values()) == [4, 2, 5], "the last class is on top, as its bars are"
    assert list(said)[1:] == ["_well", "$ill$"]
    assert NAMES[2].startswith(next(iter(said)).removesuffix("…"))
    assert ">$ill$<" in svg(figure, "one")


@pytest.mark.parametrize("classes", [11, 26, 27, 100])
def test_rows_of_a_heat_map_are_named_as_the_classes_are(classes):
    names = [f"${number}$" for number in range(classes)]
    figure = picture(np.ones((5, classes), int), names)
    ax = figure.axes[1]
    shown = {int(place): label.get_text() for place, label in zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)}
    assert all(names[place] == label for place, label in shown.items())
    assert 0 in shown
    assert min(classes, 14) <= len(shown) <= 26
    assert ">$0$<" in svg(figure, "one")


def test_pictures_need_clients_and_classes():
    with pytest.raises(ValueError, match=r"\[clients, classes\], found \(3,\)"):
        picture(np.ones(3))
    with pytest.raises(ValueError, match="names must be those of 2 classes, found 3"):
        picture(np.ones((4, 2)), NAMES)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0 bit"),
        (999, "999 bit"),
        (1000, "1 kbit"),
        (2.5e6, "2.5 Mbit"),
        (7.123e12, "7.12 Tbit"),
        (3e16, "30,000 Tbit"),
    ],
)
def test_bits_in_words(value, said):
    assert formatting.bits(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0 s"), (59.6, "1 min 0 s"), (3599.7, "1 h 0 min"), (86400, "24 h 0 min"), (float("inf"), "not finite")],
)
def test_seconds_in_words(value, said):
    assert formatting.seconds(value) == said

"""The page of a plan: whole, escaped, without empty sections; pictures read back; the front against a plain loop."""

import math
import re
import warnings
from html.parser import HTMLParser

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from plan_samples import EFFECTS, NAMES, RULES, THEORY, best, facts, front, trials

from hush.report import plan_plots
from hush.report.plan_labels import box_of
from hush.report.plan_page import PlanFacts, front_of, write_plan_page
from hush.report.plan_scores import scale_of

pytestmark = pytest.mark.slow  # many small runs, which add up

VOID = {"meta", "br", "img", "input", "hr", "link"}
ACCURACY, LOSS = scale_of("accuracy"), scale_of("test_loss")
HOSTILE = "<script>alert('x')</script> & \"$\\frac{1}{2}$\" _a"


# Where pictures are not what is tested: drawing them takes most of a test's time.
NO_PICTURES = {"fronts": {}, "trials": pd.DataFrame(), "effects": pd.DataFrame()}


class Reader(HTMLParser):
    """A page's elements, which must be closed in order, and its text under each heading."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.tags, self.headings, self.cells = [], [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.ids += [value for name, value in attributes if name == "id"]
        if tag == "h2":
            self.headings.append("")
        if tag in ("td", "pre"):
            self.cells.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.ids += [value for name, value in attributes if name == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "h2":
            self.headings[-1] += data
        if "td" in self.open or "pre" in self.open:
            self.cells[-1] += data


def read(page):
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    assert len(set(reader.ids)) == len(reader.ids)
    return reader


def write(tmp_path, **changes):
    return write_plan_page(tmp_path / "plan.html", facts(**changes)).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return write(tmp_path_factory.mktemp("plan"))


def dominates(one, other):
    """As good in both, and better in one."""
    return one[0] <= other[0] and one[1] >= other[1] and one != other


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.one_of(st.integers(1, 6), st.floats(1e-3, 1e9), st.just(math.inf), st.just(math.nan)),
            st.one_of(st.integers(-3, 3), st.floats(-1e6, 1), st.just(-math.inf), st.just(math.nan)),
        ),
        max_size=25,
    )
)
def test_nothing_on_the_front_is_dominated_and_everything_off_it_is(pairs):
    points = pd.DataFrame(pairs, columns=["budget", "score"], dtype=float).assign(number=range(len(pairs)))
    found = front_of(points)
    finite = {n: pair for n, pair in enumerate(pairs) if all(map(math.isfinite, pair))}
    on = set(found["number"])
    assert on <= set(finite)
    for number, point in finite.items():
        beaten = any(dominates(other, point) for other in finite.values())
        assert beaten == (number not in on)
    assert found["budget"].is_monotonic_increasing
    assert found["score"].is_monotonic_increasing


def test_a_front_keeps_what_else_is_known_of_its_points():
    points = front("bits")
    found = front_of(points)
    assert list(found.columns) == list(points.columns)
    for row in found.to_dict("records"):
        (same,) = points[points["budget"] == row["budget"]].to_dict("records")
        assert same == row


def test_the_page_is_whole_and_needs_nothing_else(whole):
    reader = read(whole)
    for name in ("best", "budgets", "run", "finalists", "race", "front-bits", "front-epsilon", "effects", "rules",
                 "theory", "privacy", "infeasible", "trials"):  # fmt: skip
        assert name in reader.ids, name
    assert "http://" not in whole
    assert "https://" not in whole
    assert "script" not in reader.tags
    assert "hush run plan.toml" in reader.cells
    assert not any(heading.strip() == "" for heading in reader.headings)


def test_numbers_are_said_in_percent_with_one_decimal(whole):
    cells = read(whole).cells
    for row in best().to_dict("records"):
        percent = [f"{100 * row[name]:.1f}" for name in ("score", "low", "high")]
        assert "{} % ({} to {})".format(*percent) in cells
    assert "diverged" not in cells


def test_minus_a_loss_is_shown_as_the_loss_from_the_lower_to_the_higher(tmp_path):
    frame = best().assign(score=-0.5, low=-0.75, high=-0.25)
    page = write(tmp_path, **NO_PICTURES | {"measure": "test_loss", "best": frame})
    assert "0.5 (0.25 to 0.75)" in read(page).cells
    assert "%)" not in page[page.index('id="finalists"') : page.index("<h2>Rules of")]


def test_which_finalists_overlap_the_first_is_said(whole, tmp_path):
    assert "2 and 3 have intervals that overlap that of the first" in whole
    apart = best().assign(low=lambda table: table["score"] - 1e-5, high=lambda table: table["score"] + 1e-5)
    assert "overlap that of the first" not in write(tmp_path, best=apart, **NO_PICTURES)
    assert "2 has an interval that overlaps" in write(tmp_path, best=best().head(2), **NO_PICTURES)


def test_every_text_is_shown_and_never_obeyed(tmp_path):
    bad = {
        "title": HOSTILE, "question": HOSTILE, "budgets": [(HOSTILE,) * 4], "settings_toml": HOSTILE,
        "theory_says": [HOSTILE], "infeasible": [(HOSTILE, HOSTILE)], "notes": [HOSTILE],
        "privacy": {HOSTILE: HOSTILE}, "best": best().assign(algorithm=HOSTILE, settings=HOSTILE),
        "fronts": {name: front(name).assign(label=HOSTILE) for name in ("bits", "epsilon")},
        "effects": EFFECTS.assign(choice=HOSTILE, best=HOSTILE), "trials": trials(8).assign(family=HOSTILE),
        "rules": RULES.assign(rule=HOSTILE, source=HOSTILE, verdict=HOSTILE, evidence=HOSTILE),
        "theory": THEORY.assign(family=HOSTILE),
    }  # fmt: skip
    page = write(tmp_path, **bad)
    reader = read(page)
    assert "script" not in reader.tags
    assert HOSTILE in reader.cells


def test_what_is_missing_leaves_no_empty_section(whole, tmp_path):
    headings = read(whole).headings
    empty = {
        "fronts": ({}, "What more would buy"), "effects": (pd.DataFrame(), "What matters"),
        "rules": (pd.DataFrame(), "Rules of the papers"), "privacy": ({}, "Privacy"),
        "infeasible": ([], "What cannot be run"), "notes": ([], "What this answer rests on"),
        "budgets": ([], "Budgets"), "settings_toml": ("", "To run it"),
    }  # fmt: skip
    for _, heading in empty.values():
        assert sum(each.startswith(heading) for each in headings) == 1
    left = {name: nothing for name, (nothing, _) in empty.items()}
    reader = read(write(tmp_path, **left, trials=trials(6), theory=pd.DataFrame(), theory_says=[]))
    assert [each.partition("2 and")[0] for each in reader.headings] == [
        "The best five", "How they came in", "All that was tried",
    ]  # fmt: skip
    assert "ul" not in reader.tags


def test_one_front_may_be_missing(tmp_path):
    ids = read(write(tmp_path, **NO_PICTURES | {"fronts": {"epsilon": front("epsilon")}, "asked": {}})).ids
    assert "front-epsilon" in ids
    assert "front-bits" not in ids


def test_an_answer_with_nothing_to_run_says_so(tmp_path):
    path = tmp_path / "plan.html"
    nothing = PlanFacts(title="none", question="0 bits", minutes=0.1, trials_count=0, infeasible=[("all", "too long")])
    reader = read(write_plan_page(path, nothing).read_text())
    assert reader.headings == ["What cannot be run"]
    assert "There is nothing to run." in path.read_text()


def test_one_row_and_one_trial_are_enough(tmp_path):
    lone = front("bits").head(1)
    page = write(
        tmp_path, best=best().head(1), trials=trials(1).tail(1), fronts={"bits": lone}, effects=EFFECTS.head(1)
    )
    reader = read(page)
    assert {"race", "finalists", "front-bits", "effects"} <= set(reader.ids)
    assert "overlap that" not in page
    assert reader.headings[0] == "The best one"


@pytest.mark.parametrize("measure", ["accuracy", "test_loss"])
@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_scores_that_are_not_finite_break_no_picture(tmp_path, value, measure):
    """All of them, or the first only; warnings are errors."""
    for rows in (slice(None), slice(0, 1)):
        broken = [best(), trials(9), front("bits"), front("epsilon"), EFFECTS.copy()]
        for table in broken:
            column = "effect" if "effect" in table else "score"
            table.loc[table.index[rows], [column, *({"low", "high"} & set(table))]] = value
        first, all_trials, bits, epsilon, effects = broken
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            page = write(
                tmp_path, measure=measure, best=first, trials=all_trials, effects=effects,
                fronts={"bits": bits, "epsilon": epsilon},
            )  # fmt: skip
        assert ("diverged" if value < 0 else "not known") in read(page).cells


def test_losses_of_many_decades_share_a_logarithmic_axis():
    table = trials(9).assign(score=lambda frame: -(10.0 ** (1 + frame["trial"])))
    figure = plan_plots.race(table, best().head(0), LOSS)
    assert figure.axes[0].get_yscale() == "log"
    shares = trials(9).assign(score=lambda frame: 0.9 / 4.0 ** frame["trial"])
    assert plan_plots.race(shares, best().head(0), ACCURACY).axes[0].get_yscale() == "linear"


def drawn(figure, name):
    return [line for line in figure.axes[0].get_lines() if re.fullmatch(rf"{name}(-\d+)?", line.get_gid() or "")]


def test_the_race_has_a_line_for_each_candidate_and_finalists_end_at_their_means():
    table, finalists = trials(20), best()
    figure = plan_plots.race(table, finalists, ACCURACY)
    faint, strong = drawn(figure, "candidate"), drawn(figure, "finalist")
    assert len(strong) == 5
    for trial, line in zip(range(5, 20), faint, strict=True):
        rows = [row for row in table.to_dict("records") if row["trial"] == trial]
        assert line.get_xdata() == pytest.approx([row["run"] / row["rounds"] for row in rows])
        assert line.get_ydata() == pytest.approx([100 * row["score"] for row in rows])
    assert [line.get_ydata()[-1] for line in strong] == pytest.approx(100 * finalists["score"].to_numpy())
    assert min(line.get_linewidth() for line in strong) > max(line.get_linewidth() for line in faint)


def test_a_candidate_that_was_looked_at_twice_counts_as_it_was_with_most_repetitions():
    rows = trials(1).tail(1)
    twice = pd.concat([rows.assign(score=0.3, repetitions=5), rows.assign(score=0.9, repetitions=1)])
    assert plan_plots.looks(twice)["score"].tolist() == [0.3]


def test_without_trials_of_the_best_the_race_shows_where_they_ended():
    figure = plan_plots.race(trials(12), best().drop(columns="trial"), ACCURACY)
    assert len(drawn(figure, "candidate")) == 12
    assert [len(line.get_xdata()) for line in drawn(figure, "finalist")] == [1] * 5


@pytest.mark.parametrize(("scale", "sign"), [(ACCURACY, 100), (LOSS, -1)])
def test_the_front_is_drawn_as_steps_with_asked_and_chosen(scale, sign):
    points = front("bits") if sign > 0 else front("bits").assign(score=lambda table: table["score"] - 1)
    finalists = best() if sign > 0 else best().assign(score=best()["score"] - 1)
    figure = plan_plots.front(points, plan_plots.BUDGETS["bits"], scale, 1e6, finalists)
    ax = figure.axes[0]
    assert ax.get_xscale() == "log"
    (steps,), (asked,), (chosen,) = (drawn(figure, name) for name in ("front", "asked", "chosen"))
    found = front_of(points)
    assert steps.get_xdata()[:-1] == pytest.approx(found["budget"].to_numpy())
    assert steps.get_ydata()[:-1] == pytest.approx(sign * found["score"].to_numpy())
    assert steps.get_drawstyle() == "steps-post"
    assert set(asked.get_xdata()) == {1e6}
    assert (chosen.get_xdata()[0], chosen.get_ydata()[0]) == pytest.approx((988_432.0, sign * finalists["score"][0]))
    assert {f"chosen: {NAMES[0]}", "asked: 1 Mbit"} <= {text.get_text() for text in ax.texts}


def test_an_epsilon_that_was_asked_for_is_said_as_it_was_and_one_that_was_spent_never_too_small():
    against = plan_plots.BUDGETS["epsilon"]
    figure = plan_plots.front(front("epsilon"), against, ACCURACY, 2.2, best())
    assert "asked: 2.2" in {text.get_text() for text in figure.axes[0].texts}
    assert float(against.said(2.2041)) >= 2.2041


@pytest.mark.parametrize("seed", range(4))
def test_labels_of_a_front_are_inside_and_never_on_each_other(seed):
    figure = plan_plots.front(front("bits", seed), plan_plots.BUDGETS["bits"], ACCURACY, 1e6, best())
    ax = figure.axes[0]
    figure.draw_without_rendering()
    area = ax.get_window_extent().padded(2)
    boxes = [np.array(box_of(text).get_points()) for text in ax.texts]
    assert len(boxes) > 3
    for number, ((left, low), (right, high)) in enumerate(boxes):
        assert area.x0 <= left < right <= area.x1
        assert area.y0 <= low < high <= area.y1
        for (other_left, other_low), (other_right, other_high) in boxes[:number]:
            assert right <= other_left or other_right <= left or high <= other_low or other_high <= low


def test_bars_are_in_points_the_largest_first_and_named():
    shuffled = EFFECTS.sample(frac=1, random_state=0)
    ax = plan_plots.effects(shuffled, ACCURACY).axes[0]
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([11.2, 6.4, 4.1, 1.8, 0.6, -0.2])
    assert [label.get_text() for label in ax.get_yticklabels()] == EFFECTS["choice"].tolist()
    assert ax.get_xlabel() == "points of test accuracy"
    assert plan_plots.effects(shuffled, LOSS).axes[0].get_xlabel() == "test loss saved"


def test_finalists_have_their_names_means_and_intervals():
    ax = plan_plots.finalists(best(), ACCURACY).axes[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == [f"{n + 1}  {name}" for n, name in enumerate(NAMES)]
    for row, bar in zip(best().to_dict("records"), ax.collections, strict=True):
        ((ends,),) = (bar.get_segments(),)
        assert ends[:, 0] == pytest.approx([100 * row["low"], 100 * row["high"]])


def test_verdicts_are_coloured(whole):
    for verdict, colour in (("agrees", "good"), ("does not", "bad"), ("not tried", "note")):
        assert f'<span class="verdict {colour}">{verdict}</span>' in whole


def test_long_lists_of_trials_are_cut_and_say_so(tmp_path):
    page = write(tmp_path, **NO_PICTURES | {"trials": trials(250)})
    begin = page.index('<table id="trials">')
    assert page[begin:].count("<tr>") == 1 + 200
    assert "the best 200 of 250" in page


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fronts": {"energy": front("bits")}}, "a front must be one of bits, epsilon, found 'energy'"),
        ({"asked": {"rounds": 3.0}}, "a front must be one of bits, epsilon, found 'rounds'"),
        ({"asked": {"bits": math.inf}}, "asked bits must be a positive number, found inf"),
        ({"best": best().drop(columns="low")}, "the table of best needs the columns rank, .* found rank"),
        ({"trials": trials(2).drop(columns="run")}, "the table of trials needs the columns trial"),
        ({"fronts": {"bits": front("bits").drop(columns="label")}}, "the table of bits needs the columns budget"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(changes, message):
    with pytest.raises(ValueError, match=message):
        facts(**changes)

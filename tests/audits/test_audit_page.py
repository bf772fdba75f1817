"""The page of an audit: whole, escaped, without empty sections; its pictures read back."""

import math
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from made_up_findings import NOTHING, claim, finding
from matplotlib.figure import Figure
from playwright.sync_api import sync_playwright

from hush.audits.answer import Audit
from hush.audits.findings import Scores
from hush.audits.page import facts, write_page
from hush.report import audit_plots
from hush.report.audit_page import Extra, write_audit_page
from hush.store.audits import PAGE, PICTURES

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HOSTILE = "<script>alert('x')</script> & \"$\\frac{1}{2}$\""


def answer(*findings, held_to=None):
    held_to = held_to or claim(2.125, trust="sum")
    made = findings or (
        finding(held_to=held_to),
        finding(0.70999, "final model", "membership", held_to, 0.5),
        finding(4.4, "messages", held_to=held_to, apart=3.0),
    )
    return Audit("dp_fedavg, 100 rounds, 1,920 clients", 100, held_to, made, seconds=91.0)


def written(tmp_path, **changes):
    return write_audit_page(tmp_path / PAGE, replace(facts(answer()), **changes)).read_text(encoding="utf-8")


def test_the_page_is_whole_and_needs_nothing_else(tmp_path):
    page = write_page(answer(), tmp_path).read_text(encoding="utf-8")
    for name in ("both-sides", "attacks", "region", "region-small", "scores-0", "bounds", "claim"):
        assert f'id="{name}"' in page, name
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page
    assert all((tmp_path / name).is_file() for name in PICTURES)


def test_a_bound_is_rounded_down_and_a_claim_up(tmp_path):
    page = written(tmp_path)
    assert "<td>0.709</td>" in page
    assert "<td>2.13</td>" in page
    assert "0.71<" not in page


def test_the_verdict_is_the_first_thing_to_read(tmp_path):
    for bound, held_to, kind, said in (
        (1.0, claim(), "good", "Not refuted."),
        (2.5, claim(), "bad", "Refuted."),
        (2.5, NOTHING, "note", "Nothing is claimed."),
    ):
        shown = facts(answer(finding(bound, held_to=held_to), held_to=held_to))
        page = write_audit_page(tmp_path / PAGE, shown).read_text(encoding="utf-8")
        assert f'class="banner {kind}" role="status"><strong>{said}' in page
    alone = facts(answer(finding(9.0, "messages"), held_to=claim()))
    page = write_audit_page(tmp_path / PAGE, alone).read_text(encoding="utf-8")
    assert "Not covered by the claim." in page


def test_what_is_missing_leaves_no_empty_section(tmp_path):
    page = written(tmp_path, attacks=[], claim={}, notes=[], extras=[])
    assert "<h2>" not in page
    none = replace(finding(), scores=Scores(np.zeros(0), np.zeros(0)))
    page = write_audit_page(tmp_path / PAGE, facts(answer(none))).read_text(encoding="utf-8")
    assert 'id="region"' not in page
    assert 'id="scores-0"' not in page


def test_every_text_is_shown_and_never_obeyed(tmp_path):
    shown = facts(answer())
    evil = [replace(each, words=HOSTILE, verdict=HOSTILE, sees=HOSTILE) for each in shown.attacks]
    evil = [replace(each, drawn=replace(each.drawn, name=HOSTILE)) for each in evil]
    extra = Extra("more", HOSTILE, HOSTILE, [(Figure(), HOSTILE)], {"rows": pd.DataFrame({HOSTILE: [HOSTILE]})})
    page = written(
        tmp_path, title=HOSTILE, question=HOSTILE, sentence=HOSTILE, attacks=evil, claim={HOSTILE: HOSTILE},
        extras=[extra], notes=[HOSTILE],
    )  # fmt: skip
    assert "<script" not in page


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (0.5, 1e-5), (2.0, 0.1), (5.0, 0.0), (math.inf, 0.0)])
def test_no_test_leaves_the_region_of_randomised_response(epsilon, delta):
    """The strongest (ε, δ) test there is touches the border; the border is its own mirror image."""
    false = np.linspace(0, 1, 101)
    most = audit_plots.most_allowed(false, epsilon, delta)
    for f, found in zip(false, most, strict=True):
        if math.isinf(epsilon):
            assert found == 1
            continue
        allowed = [
            t
            for t in np.linspace(0, 1, 1001)
            if t <= math.exp(epsilon) * f + delta + 1e-12 and 1 - f <= math.exp(epsilon) * (1 - t) + delta + 1e-12
        ]
        assert found == pytest.approx(max(allowed), abs=1.1e-3)
    mirrored = 1 - audit_plots.most_allowed(1 - most, epsilon, delta)
    assert (mirrored <= false + 1e-9).all()


def test_the_bars_end_where_the_bounds_are():
    shown = facts(answer())
    ax = audit_plots.both_sides([each.drawn for each in shown.attacks]).axes[0]
    bars = {bar.get_gid(): bar.get_width() for bar in ax.patches if bar.get_gid()}
    assert [bars[f"bound-{row}"] for row in range(3)] == pytest.approx([1.2345, 0.70999, 4.4])
    lines = {each.get_gid(): each.get_segments()[0][0][0] for each in ax.collections if each.get_gid()}
    assert lines == pytest.approx({"claimed-0": 2.125, "claimed-1": 2.125})  # who is not covered has no line
    assert ax.get_xlim()[1] > 4.4


@pytest.mark.parametrize("small", [False, True])
def test_curves_go_from_no_calls_to_all_calls(small):
    shown = facts(answer())
    figure = audit_plots.region([each.drawn for each in shown.attacks], [(2.0, 1e-5)], small)
    curves = {
        line.get_gid(): line for line in figure.axes[0].get_lines() if (line.get_gid() or "").startswith("attack")
    }
    assert len(curves) == 3
    for line in curves.values():
        false, true = line.get_xdata(), line.get_ydata()
        assert (false[-1], true[-1]) == (1, 1)
        assert np.all(np.diff(false) >= 0)
        assert np.all(np.diff(true) >= 0)
        assert len(false) <= audit_plots.POINTS + 1


def test_the_room_is_what_all_claims_together_leave():
    """ε = 0 at δ = 0.3 is a narrower band than ε = 8 at a small δ, in the middle."""
    pairs = [(8.0, 1e-5), (0.0, 0.3)]
    room = next(each for each in audit_plots.roc([], pairs).axes[0].collections if each.get_gid() == "room")
    corners = room.get_paths()[0].vertices
    near = corners[np.isclose(corners[:, 0], 0.5, atol=2e-3)]
    assert near[:, 1].min() == pytest.approx(0.2, abs=5e-3)
    assert near[:, 1].max() == pytest.approx(0.8, abs=5e-3)


def words_inside(figure):
    """Every word of a picture within its edges."""
    figure.draw_without_rendering()
    width, height = figure.canvas.get_width_height()
    for ax in figure.axes:
        legend = ax.get_legend()
        said = [
            *ax.texts,
            ax.xaxis.label,
            ax.yaxis.label,
            *(legend.get_texts() if legend else ()),
        ]
        for text in said:
            box = text.get_window_extent()
            if text.get_text():
                yield text.get_text(), box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1


@pytest.mark.parametrize("bound", [0.0, 0.01, 1.0, 2.0, 2.125, 7.5])
def test_nothing_is_cut_off(bound):
    held_to = claim(2.125)
    shown = facts(answer(finding(bound, held_to=held_to), finding(bound / 2, "messages", held_to=held_to)))
    drawn = [each.drawn for each in shown.attacks]
    figures = [audit_plots.both_sides(drawn), audit_plots.region(drawn, [(2.125, 1e-5)]), audit_plots.scores(drawn[0])]
    for figure in figures:
        assert [words for words, inside in words_inside(figure) if not inside] == []


def test_scores_that_are_not_finite_or_all_alike_break_no_picture():
    for values in (np.full(5, np.inf), np.zeros(5), np.array([np.nan, 1.0]), np.zeros(0)):
        drawn = replace(facts(answer()).attacks[0].drawn, included=values, excluded=values)
        audit_plots.scores(drawn)


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no browser on this machine")
@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "light"), (390, "dark")])
def test_in_a_browser_it_fits_and_asks_for_nothing(tmp_path, width, scheme):
    path, wrong = write_page(answer(), tmp_path), []
    arguments = ["--no-sandbox", "--headless=new", "--disable-gpu", "--hide-scrollbars"]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=arguments)
        page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda made: made.url.startswith(("file:", "data:")) or wrong.append(made.url))
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        outside = page.evaluate(
            """[...document.querySelectorAll('figure svg text')].filter(each => {
                const word = each.getBoundingClientRect(), card = each.closest('figure').getBoundingClientRect();
                return word.left < card.left - 1 || word.right > card.right + 1 || word.top < card.top - 1;
            }).map(each => each.textContent)"""
        )
        browser.close()
    assert outside == []
    assert wrong == []

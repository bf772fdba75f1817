"""Reports in a real browser: what is clicked, hovered, zoomed and downloaded, and what is there without any of it."""

import csv
import io
import shutil
from urllib.parse import parse_qs

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread
from playwright.sync_api import sync_playwright
from report_samples import SETTINGS, made, run_folder, slim

from hush.report.compare import write_comparison
from hush.report.page import write_report
from hush.report.style import PALETTE

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [pytest.mark.skipif(BROWSER is None, reason="no browser on this machine"), pytest.mark.slow]
HOSTILE = "<script>alert(1)<"  # a folder's name: no slash can be in it
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
ON = "echarts.getInstanceByDom(document.getElementById('chart-place'))"


def with_start(records):
    """A row before the first round, as runs write it: nothing was sent, and of the clients nothing is known."""
    start = records[records["round"] == 10].assign(round=0, uplink_bits=0, downlink_bits=0, iterations=0, seconds=0)
    return pd.concat([start.assign(update_norm=np.nan, accuracy=0.1), records]).sort_values(
        [*[name for name in records if "." in name], "repetition", "round"], ignore_index=True
    )


RECORDS = with_start(made(sweep=(0.3, 1.0)))


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "sweep & compare"
    counts = np.random.default_rng(0).integers(0, 40, (100, 10))
    return write_report(run_folder(folder, RECORDS, counts=counts))


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    runs = tmp_path_factory.mktemp("compared")
    hostile = SETTINGS.replace('"digits"', f"'''{EVIL}'''").replace("levels = 2", "levels = 8\nround_up = true\nx = 3")
    evil = slim(2).assign(**{EVIL: 1.0})
    folders = [run_folder(runs / "a run with quite a long name, as they come", evil),
               run_folder(runs / HOSTILE, evil, settings=hostile)]  # fmt: skip
    return write_comparison(folders, runs / "out")


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as driver:
        opened = driver.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox", "--headless=new", "--disable-gpu", "--hide-scrollbars"]
        )
        yield opened
        opened.close()


@pytest.fixture
def visit(browser):
    """Opens a page; at the end, nothing must have gone wrong in it, and nothing been asked of any network."""
    wrong, contexts = [], []

    def opened(path, fragment="", width=1200, height=900, **more):
        contexts.append(browser.new_context(viewport={"width": width, "height": height}, **more))
        page = contexts[-1].new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda made: made.url.startswith(("file:", "blob:", "data:")) or wrong.append(made.url))
        page.goto(path.as_uri() + fragment)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


def mean_of(records, point, measure, done):
    rows = [row for row in records.to_dict("records") if row["local.lr"] == point and row["round"] == done]
    return sum(row[measure] for row in rows) / len(rows)


def drawn(page):
    """The curves on the screen: by id, their points in the units of the axes."""
    found = page.evaluate(f"{ON}.getOption().series.filter(Boolean).map(each => [each.id, each.data])")
    return {name: points for name, points in found if name.startswith("curve-")}


def chosen(page):
    return {name: value[0] for name, value in parse_qs(page.evaluate("location.hash.slice(1)")).items()}


def words(page):
    return page.locator("#chart-place svg text").all_text_contents()


def saved(page, button):
    with page.expect_download() as waited:
        page.click(button)
    return waited.value.suggested_filename, waited.value.path().read_bytes()


def test_the_chart_stands_in_place_of_the_pictures_and_has_the_records_means(report, visit):
    page = visit(report)
    assert page.locator("#chart-place svg").count() == 1
    assert not page.locator("#pictures").is_visible()
    assert {"test accuracy (%)", "sent by all clients (Mbit)"} <= set(words(page))
    for name, point in (("curve-0", 0.3), ("curve-1", 1.0)):
        expected = [
            [mean_of(RECORDS, point, "uplink_bits", done) / 1e6, 100 * mean_of(RECORDS, point, "accuracy", done)]
            for done in range(0, 51, 10)
        ]
        assert np.array(drawn(page)[name]) == pytest.approx(np.array(expected), rel=1e-6)


def test_without_scripts_the_pictures_and_tables_are_there(report, visit):
    page = visit(report, java_script_enabled=False)
    assert not page.locator("#chart-section").is_visible()
    assert page.locator("#pictures svg").first.is_visible()
    for measure in ("accuracy", "test_loss", "train_loss"):
        for against in ("round", "uplink_bits"):
            assert page.locator(f"#curve-{measure}-{against}").is_visible()
    assert page.locator("#summary td").first.inner_text() == "0.3"
    assert page.locator("th button").count() == 0


def test_hovering_tells_the_values_of_all_curves(report, visit):
    page = visit(report, "#x=round&y=test_loss")
    page.locator("#chart-place").scroll_into_view_if_needed()
    box = page.locator("#chart-place").bounding_box()
    x, y = page.evaluate(f"{ON}.convertToPixel({{xAxisIndex: 0, yAxisIndex: 0}}, [30.4, 1])")
    page.mouse.move(box["x"] + x, box["y"] + y)
    tip = page.locator(".tip")
    tip.wait_for(state="visible")
    said = tip.inner_text()
    assert "rounds: 30" in said
    for point in (0.3, 1.0):
        assert f"local.lr = {point:g}" in said
        assert f"{mean_of(RECORDS, point, 'test_loss', 30):.4g}" in said
        values = RECORDS[(RECORDS["local.lr"] == point) & (RECORDS["round"] == 30)]["test_loss"]
        assert f"({values.min():.4g} to {values.max():.4g})" in said


def test_axes_are_chosen_and_the_address_keeps_them(report, visit):
    page = visit(report)
    page.select_option("#chart-y", "train_loss")
    page.select_option("#chart-x", "seconds")
    page.select_option("#chart-band", "deviation")
    page.check("#chart-ylog")
    assert {"training loss", "training time (s)"} <= set(words(page))
    assert chosen(page) == {"x": "seconds", "y": "train_loss", "ylog": "1", "band": "deviation"}
    before = drawn(page)
    again = visit(report, page.evaluate("location.hash"))
    assert drawn(again) == before
    assert again.input_value("#chart-y") == "train_loss"
    assert again.is_checked("#chart-ylog")
    again.evaluate("location.hash = '#x=round&y=accuracy'")
    again.wait_for_function("document.getElementById('chart-y').value === 'accuracy'")
    assert "rounds" in words(again)


def test_an_address_can_ask_for_nothing_that_is_not_there(report, visit):
    page = visit(report, "#x=__proto__&y=%3Cimg+src%3Dx%3E&off=0+99+x&zoom=1+2&band=constructor&colour=run")
    assert chosen(page) == {"x": "uplink_bits", "y": "accuracy", "off": "0 99"}
    assert list(drawn(page)) == ["curve-1"]


def test_what_has_no_place_on_a_logarithmic_axis_is_left_out_and_said(report, visit):
    page = visit(report)
    note = page.locator("#chart-note")
    assert note.inner_text() == ""
    page.check("#chart-xlog")
    assert "2 points at zero or below" in note.inner_text()
    places = [x for x, _ in drawn(page)["curve-0"]]
    bits = [mean_of(RECORDS, 0.3, "uplink_bits", done) for done in range(10, 51, 10)]
    assert [10**place for place in places] == pytest.approx([each / 1e6 for each in bits])
    assert {"50", "100", "200"} <= set(words(page)), "ticks are in the unit"
    page.uncheck("#chart-xlog")
    assert len(drawn(page)["curve-0"]) == 6
    page.select_option("#chart-y", "update_norm")
    assert "6 values that are not finite" in note.inner_text(), "two curves of three repetitions begin so"
    assert len(drawn(page)["curve-0"]) == 5


def test_a_click_on_the_legend_takes_a_curve_away_and_back(report, visit):
    page = visit(report)
    entry = page.get_by_role("button", name="local.lr = 0.3")
    assert entry.get_attribute("aria-pressed") == "true"
    assert list(drawn(page)) == ["curve-0", "curve-1"]
    entry.click()
    assert entry.get_attribute("aria-pressed") == "false"
    assert list(drawn(page)) == ["curve-1"]
    assert chosen(page)["off"] == "0"
    page.keyboard.press("Enter")  # the focus stayed
    assert list(drawn(page)) == ["curve-0", "curve-1"]
    legend, place = (page.locator(name).bounding_box() for name in ("#chart-legend", "#chart-place"))
    assert legend["y"] >= place["y"] + place["height"], "the legend must not cover the lines"


def window(page):
    """What is shown of the axes, in their units."""
    return page.evaluate(
        f"['xAxis', 'yAxis'].flatMap(each => {ON}.getModel().getComponent(each, 0).axis.scale.getExtent())"
    )


@pytest.mark.parametrize("scale", ["", "&xlog=1&ylog=1"])
def test_a_box_zooms_and_reset_goes_back(report, visit, scale):
    page = visit(report, f"#x=round&y=test_loss{scale}")
    whole = window(page)
    page.locator("#chart-place").scroll_into_view_if_needed()
    box = page.locator("#chart-place").bounding_box()
    left, right, bottom, top = whole
    corners = [
        [left + 0.3 * (right - left), bottom + 0.2 * (top - bottom)],
        [left + 0.8 * (right - left), bottom + 0.6 * (top - bottom)],
    ]
    ends = [page.evaluate(f"{ON}.convertToPixel({{xAxisIndex: 0, yAxisIndex: 0}}, {corner})") for corner in corners]
    (x0, y0), (x1, y1) = ends
    page.mouse.move(box["x"] + x0, box["y"] + y0)
    page.mouse.down()
    page.mouse.move(box["x"] + (x0 + x1) / 2, box["y"] + (y0 + y1) / 2)
    page.mouse.move(box["x"] + x1, box["y"] + y1)
    page.mouse.up()
    page.wait_for_function("location.hash.includes('zoom')")
    expected = [corners[0][0], corners[1][0], corners[0][1], corners[1][1]]
    assert window(page) == pytest.approx(expected, abs=0.02 * max(right - left, top - bottom))
    page.click("#chart-reset")
    assert window(page) == pytest.approx(whole)
    assert "zoom" not in chosen(page)


def test_buttons_and_the_wheel_zoom_and_pan_moves(report, visit):
    page = visit(report, "#x=round&y=accuracy")
    left, right, *_ = window(page)
    page.click("#chart-in")
    near_left, near_right, *_ = window(page)
    assert [near_left, near_right] == pytest.approx([left + (right - left) / 4, right - (right - left) / 4])
    page.click("#chart-pan")
    page.locator("#chart-place").scroll_into_view_if_needed()
    box = page.locator("#chart-place").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(middle[0] - 60, middle[1])
    page.mouse.move(middle[0] - 120, middle[1])
    page.mouse.up()
    page.wait_for_timeout(150)
    moved_left, moved_right, *_ = window(page)
    assert moved_left > near_left
    assert moved_right - moved_left == pytest.approx(near_right - near_left)
    page.click("#chart-out")
    assert window(page)[:2] == pytest.approx([left, right])
    page.keyboard.down("Control")
    page.mouse.move(*middle)
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_function("location.hash.includes('zoom')")
    assert window(page)[1] - window(page)[0] < right - left


def test_against_a_setting_stands_how_it_ended(report, visit):
    page = visit(report, "#x=local.lr&y=accuracy")
    ((points),) = drawn(page).values()
    expected = [[point, 100 * mean_of(RECORDS, point, "accuracy", 50)] for point in (0.3, 1.0)]
    assert np.array(points) == pytest.approx(np.array(expected), rel=1e-6)


def test_over_a_setting_a_curve_joins_what_differs_in_nothing_else(tmp_path, visit):
    folders = []
    for levels in (2, 8):
        for lr in (0.1, 0.3):
            settings = SETTINGS.replace("levels = 2", f"levels = {levels}").replace("lr = 0.1", f"lr = {lr}")
            settings = settings.replace("seed = 3", f"seed = {len(folders)}")
            records = slim().assign(accuracy=0.01 * levels + lr)
            folders.append(run_folder(tmp_path / f"{levels} {lr}", records, settings=settings))
    page = visit(write_comparison(folders, tmp_path / "out"), "#x=uplink.0.levels&y=accuracy")
    assert page.locator("#chart-legend button").all_inner_texts() == ["local.lr = 0.1", "local.lr = 0.3"]
    for points, lr in zip(drawn(page).values(), (0.1, 0.3), strict=True):
        assert np.array(points) == pytest.approx(np.array([[levels, levels + 100 * lr] for levels in (2, 8)]))


def test_tables_are_sorted_by_their_headings(report, visit):
    page = visit(report)
    column = page.locator("#summary th").all_text_contents().index("test loss")
    head = page.locator("#summary th").nth(column)

    def shown():
        return [page.locator("#summary tbody tr").nth(row).locator("td").first.inner_text() for row in range(2)]

    assert shown() == ["0.3", "1"]
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert shown() == ["1", "0.3"], "the larger step ends lower"
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert shown() == ["0.3", "1"]


def test_tables_and_curves_are_downloaded_as_numbers(report, visit):
    page = visit(report, "#x=uplink_bits&y=accuracy&off=1")
    name, content = saved(page, "[aria-label='download the table summary as CSV']")
    assert name == "sweep_compare-summary.csv"
    table = pd.read_csv(io.BytesIO(content))
    finals = RECORDS[RECORDS["round"] == 50].groupby("local.lr")["accuracy"]
    assert table["accuracy"].tolist() == pytest.approx(finals.mean().tolist())
    assert table["accuracy_deviation"].tolist() == pytest.approx(finals.std().tolist())
    name, content = saved(page, "#chart-csv")
    assert name == "sweep_compare-accuracy-uplink_bits.csv"
    table = pd.read_csv(io.BytesIO(content))
    rows = RECORDS[RECORDS["local.lr"] == 0.3].groupby("round")
    assert set(table["curve"]) == {"local.lr = 0.3"}
    assert table["round"].tolist() == [*range(0, 51, 10)]
    measured = rows["accuracy"]
    expected = {"uplink_bits": rows["uplink_bits"].mean(), "accuracy": measured.mean(), "lowest": measured.min()}
    expected |= {"highest": measured.max(), "deviation": measured.std(), "repetitions": rows.size()}
    for found, values in expected.items():
        assert table[found].tolist() == pytest.approx(values.tolist(), rel=1e-6, abs=1e-9), found


def test_the_chart_is_downloaded_as_a_picture(report, visit, tmp_path):
    page = visit(report, color_scheme="dark")
    name, content = saved(page, "#chart-svg")
    assert name.endswith(".svg")
    text = content.decode()
    assert text.startswith("<svg")
    for part in ("test accuracy (%)", "local.lr = 0.3", "local.lr = 1", PALETTE[0], PALETTE[1]):
        assert part in text
    name, content = saved(page, "#chart-png")
    assert name.endswith(".png")
    image = imread(io.BytesIO(content))
    assert image.shape[1] == 1720
    assert image[3, 3, :3].min() == 1, "on white, whatever the page is"
    assert near(image, PALETTE[0]) > 500


def near(image, colour):
    """How many dots of an image are of a colour, but for the softening of edges."""
    wanted = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return int((np.abs(image[:, :, :3] - wanted).max(-1) < 0.03).sum())


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_curves_are_on_the_screen(report, visit, mode):
    page = visit(report, color_scheme=mode)
    image = imread(io.BytesIO(page.locator("#chart").screenshot()))
    first = PALETTE[0] if mode == "light" else PALETTE[4]  # on a dark page, the brighter blue
    assert (image[5, 60, :3].mean() < 0.3) == (mode == "dark")
    for colour in (first, PALETTE[1]):
        assert near(image, colour) > 500, f"the line of colour {colour} is not to be seen"
    assert near(image, PALETTE[3]) < 50, "a colour that no line has"


@pytest.mark.parametrize("which", ["report", "comparison"])
@pytest.mark.parametrize("scripts", [True, False])
def test_a_phone_shows_all_of_it(request, visit, which, scripts):
    page = visit(request.getfixturevalue(which), width=360, height=740, java_script_enabled=scripts, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    outside = """() => [...document.querySelectorAll('table, figure, select, button, svg')].filter(each =>
        !each.closest('.scroll, figure svg') && each.getBoundingClientRect().right > 361).map(each => each.outerHTML)"""
    assert page.evaluate(outside) == []
    holder = page.locator(".scroll").first
    assert holder.evaluate("each => getComputedStyle(each).overflowX") == "auto"


def test_names_are_text_wherever_they_go(comparison, visit):
    """That no dialog opens and nothing is said on the console, the fixture sees to."""
    page = visit(comparison)
    assert HOSTILE in page.locator("h1").inner_text()
    assert page.locator("#chart-legend button").nth(1).inner_text() == HOSTILE
    assert EVIL in page.locator("#settings").inner_text()
    page.select_option("#chart-y", EVIL)
    assert any(EVIL in each for each in words(page))
    assert page.locator("img").count() == 0
    page.locator("#chart-place").scroll_into_view_if_needed()
    box = page.locator("#chart-place").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.locator(".tip").wait_for(state="visible")
    assert HOSTILE in page.locator(".tip").inner_text()
    _, content = saved(page, "#chart-csv")
    assert HOSTILE in {row["curve"] for row in csv.DictReader(io.StringIO(content.decode()))}
    assert "&lt;script" in saved(page, "#chart-svg")[1].decode()


def test_a_script_that_slipped_in_would_not_run(report, visit, tmp_path):
    slipped = tmp_path / "slipped.html"
    slipped.write_text(report.read_text().replace("</h1>", "</h1><script>document.title = 'run'</script>", 1))
    page = visit(report)
    allowed = page.title()
    context = page.context.browser.new_context()
    other = context.new_page()
    other.goto(slipped.as_uri())
    assert other.title() == allowed
    context.close()


def test_a_run_without_a_finite_number_has_a_chart_that_says_so(tmp_path, visit):
    gone = slim().assign(accuracy=np.nan)
    page = visit(write_report(run_folder(tmp_path / "gone", gone)), "#x=uplink_bits&y=accuracy&ylog=1")
    assert "Nothing to draw." in page.locator("#chart-note").inner_text()
    assert f"{len(gone)} values that are not finite" in page.locator("#chart-note").inner_text()
    page.select_option("#chart-y", "uplink_bits")
    assert len(drawn(page)["curve-0"]) == len(gone)

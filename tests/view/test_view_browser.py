"""The list in a real browser: found, filtered, sorted, chosen from, live, and as wide as a phone."""

import os
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright
from view_samples import PRIVATE, begin, rows, written

from hush.store import RunFolder
from hush.view.server import serving

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [pytest.mark.skipif(BROWSER is None, reason="no browser on this machine"), pytest.mark.slow]
PATIENCE = 120_000  # ms, of a browser on a busy machine; no verdict on its speed
SHOTS = os.environ.get("HUSH_SHOTS")  # where to keep pictures for somebody to look at


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("viewed") / "runs"
    written(root / "fedavg", rows(20, lanes=3), rows(40, lanes=3))
    written(root / "study" / "private & small", rows(40, epsilon=1.2345), privacy=PRIVATE)
    written(root / "study" / "sweep", rows(40, lanes=2, sweep=(0.1, 0.3, 1.0)))
    written(root / "<img src=x onerror=alert(1)>", rows(40, accuracy=0.2))
    written(root / "stopped", rows(20), status="interrupted", message="interrupted after round 20 of 40", round=20)
    broken = written(root / "broken")
    (broken / "settings.toml").write_text("[local\n")
    return root


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture
def visit(browser, runs):
    """Opens the list as a person does, and holds the page to having nothing to complain about."""
    complaints, contexts = [], []
    with serving(runs) as keys:

        def opened(**options):
            contexts.append(browser.new_context(**options))
            contexts[-1].set_default_timeout(PATIENCE)
            contexts[-1].on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
            contexts[-1].on("weberror", lambda error: complaints.append(str(error.error)))
            page = contexts[-1].new_page()
            page.goto(keys.address)
            return page

        yield opened
        for context in contexts:
            context.close()
    assert complaints == []


def names(page):
    return page.locator("tbody tr:visible td:nth-of-type(2)").all_inner_texts()


def picture(page, name):
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)


def test_find_sort_choose_and_compare(visit):
    page = visit(viewport={"width": 1400, "height": 900})
    assert "token" not in page.url
    assert len(names(page)) == 6
    picture(page, "list")
    page.get_by_label("find").fill("STUDY qsgd")
    assert set(names(page)) == {"study/private & small", "study/sweep"}
    expect(page.locator("#number")).to_have_text("2 of 6 runs", timeout=PATIENCE)
    page.get_by_label("find").fill("")
    page.get_by_role("link", name="reached").click()
    assert names(page)[:3] == ["fedavg", "study/sweep", "study/private & small"]
    page.get_by_role("link", name="reached").click()
    assert names(page)[0] == "<img src=x onerror=alert(1)>"
    compare = page.get_by_role("button", name="Compare")
    assert compare.is_disabled()
    page.get_by_label("select fedavg").check()
    page.get_by_label("select stopped").check()
    expect(page.locator("#count")).to_have_text("2 selected", timeout=PATIENCE)
    picture(page, "chosen")
    with page.expect_popup() as popup:
        compare.click()
    popup.value.wait_for_load_state()
    expect(popup.value.locator("h1")).to_have_text("stopped, fedavg", timeout=PATIENCE)  # as in the list
    picture(popup.value, "comparison")
    with page.expect_popup() as popup:
        page.get_by_role("link", name="fedavg").click()
    popup.value.wait_for_load_state()
    expect(popup.value.locator("h1")).to_have_text("fedavg", timeout=PATIENCE)


def test_it_is_live(visit, runs):
    page = visit()
    page.get_by_label("select fedavg").check()
    with RunFolder(runs / "live") as files:
        begin(files)
        row = page.locator("tr", has=page.get_by_role("link", name="live", exact=True))
        expect(row).to_contain_text("running", timeout=PATIENCE)
        for done in (10, 30):
            files.append(rows(done))
            expect(row).to_contain_text(f"{done} of 40", timeout=PATIENCE)
        picture(page, "live")
    expect(row).to_contain_text("stopped", timeout=PATIENCE)
    shutil.rmtree(runs / "live")
    expect(row).to_have_count(0, timeout=PATIENCE)
    assert page.get_by_label("select fedavg").is_checked()


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_on_a_phone_nothing_runs_out_at_the_side(visit, mode):
    page = visit(viewport={"width": 360, "height": 740}, color_scheme=mode, is_mobile=True, has_touch=True)
    assert len(names(page)) == 6
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, dark[4:-1].split(","))) < 200) == (mode == "dark")
    picture(page, f"phone-{mode}")
    page.get_by_label("select fedavg").tap()
    page.get_by_label("select stopped").tap()
    assert page.get_by_role("button", name="Compare").is_enabled()
    page.set_viewport_size({"width": 900, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") == 900


def test_without_scripts(visit):
    page = visit(java_script_enabled=False)
    assert len(names(page)) == 6
    page.get_by_label("find").fill("study")
    with page.expect_navigation():  # the page that is asked for, and all of it
        page.get_by_role("button", name="Show").click()
    assert set(names(page)) == {"study/private & small", "study/sweep"}
    with page.expect_navigation():
        page.get_by_role("link", name="run", exact=True).click()
    assert names(page) == ["study/private & small", "study/sweep"]
    for box in page.locator("tbody input").all():
        box.check()
    with page.expect_popup() as popup:
        page.get_by_role("button", name="Compare").click()
    popup.value.wait_for_load_state()
    assert "hush, comparison of runs" in popup.value.content()

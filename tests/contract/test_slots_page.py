"""The page on slots: its code runs from top to bottom, and learns something."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

import hush
from hush.core.telling import is_own
from hush.privacy import NoGuarantee, describe

PAGE = Path(__file__).parents[2] / "docs" / "slots.md"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def page():
    """All that the page's code has made, block after block, as one who reads it would type it in."""
    made = {"__name__": "slots_page"}
    for block in blocks("python"):
        exec(compile(block, str(PAGE), "exec"), made)
    return made


def test_every_slot_has_an_example(page):
    mine = page["mine"]
    pieces = {"cohort": mine.cohort, "local": mine.local, "uplink": mine.uplink[0], "channel": mine.channel}
    for piece in [*pieces.values(), mine.server, page["result"].problem]:
        assert is_own(piece)
        source = next(block for block in blocks("python") if f"class {type(piece).__name__}(" in block)
        assert 8 <= len(source.splitlines()) <= 50


def test_they_learn(page):
    """The best point is the mean of all points; the loss at zero is larger by half its squared length."""
    loss = page["result"].records["train_loss"].to_numpy()[-1]
    points = np.asarray(page["result"].problem.points, float)
    centre = points.mean(axis=(0, 1))
    best = np.mean(np.sum((points - centre) ** 2, axis=-1)) / 2
    assert best <= loss < best + 0.1 * np.sum(centre**2) / 2


def test_no_guarantee_for_what_nobody_has_proved(page):
    with pytest.raises(NoGuarantee, match="no proof is known"):
        describe(page["mine"], page["result"].problem, 5)


def test_the_settings_name_what_the_page_makes(page):
    (text,) = blocks("toml")
    tables = tomllib.loads(text)
    assert page[tables["local"]["piece"].partition(":")[2]] is type(page["mine"].local)
    assert page[tables["uplink"][0]["piece"].partition(":")[2]] is type(page["mine"].uplink[0])


def test_robust_rules_are_ready_to_run(page):
    robust = page["robust"]
    assert robust.channel.hands_each
    assert robust.server.takes_each
    assert isinstance(robust.server.inner, hush.server.Add)

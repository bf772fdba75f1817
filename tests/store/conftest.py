import pytest
from store_samples import finished_run


@pytest.fixture(scope="session")
def run(unequal, tmp_path_factory):
    """The folder of a finished run, whole; whoever damages it takes a copy."""
    path = tmp_path_factory.mktemp("store") / "run"
    finished_run(path, unequal)
    return path


@pytest.fixture
def undrawn(run, monkeypatch):
    """Reports without pictures, which take most of their time and are not what is tested here."""
    monkeypatch.setattr("hush.report.page.settled", lambda figure: figure)
    for place in ("page", "posterior_page", "privacy_page"):
        monkeypatch.setattr(f"hush.report.{place}.write_png", lambda *_: None)
    monkeypatch.setattr("hush.report.markup.svg", lambda *_: "<svg></svg>")
    for place in ("trace", "density"):
        monkeypatch.setattr(f"hush.report.posterior_page.{place}", lambda *_: None)

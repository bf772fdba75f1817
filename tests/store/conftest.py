import pytest
from store_samples import finished_run


@pytest.fixture(scope="session")
def run(unequal, tmp_path_factory):
    """The folder of a finished run, whole; whoever damages it takes a copy."""
    path = tmp_path_factory.mktemp("store") / "run"
    finished_run(path, unequal)
    return path

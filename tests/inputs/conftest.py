"""What every table of bad input shares: a machine of a known size, and a program that must not begin."""

import pytest

from hush.core import memory
from hush.execution import engine


@pytest.fixture(autouse=True)
def nothing_is_compiled(monkeypatch):
    """A refusal comes before any work: whoever gets as far as the first state has come too far."""
    monkeypatch.setattr(engine, "begin", lambda fixed: pytest.fail("it was not refused"))
    monkeypatch.setattr(memory, "_of_machine", lambda: 8 * 10**9)
    monkeypatch.setattr(memory, "_of_group", lambda: None)


@pytest.fixture
def refused():
    """A call ends with this sentence, in words of a bearable length."""

    def check(call, sentence):
        with pytest.raises(ValueError, match=sentence) as caught:
            call()
        assert len(str(caught.value)) < 2000
        assert "Traceback" not in str(caught.value)

    return check

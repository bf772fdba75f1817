"""The display: on a real pseudo-terminal, on plain streams, and on streams that fail."""

import io
import os
import sys

import pytest

from hush.runs import progress
from hush.runs.progress import Display

ROW = {"train_loss": 0.25, "accuracy": 0.5, "uplink_bits": 2e9, "update_norm": 1.0}


class Clock:
    """Time that goes on only when told to."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def test_plain_lines_at_evaluations(clock):
    stream = io.StringIO()
    with Display(30, stream=stream) as display:
        display.update(0, None)
        for done in (10, 20, 30):
            clock.now += 5
            display.update(done - 1, None)
            display.update(done, ROW)
    assert stream.getvalue().splitlines() == [
        "round 10/30  loss 0.25  accuracy 50.00 %  sent 2 Gbit  10 s left",
        "round 20/30  loss 0.25  accuracy 50.00 %  sent 2 Gbit  5.0 s left",
        "round 30/30  loss 0.25  accuracy 50.00 %  sent 2 Gbit",
    ]


def test_at_most_a_line_a_second_and_always_the_last(clock):
    stream = io.StringIO()
    with Display(1000, stream=stream) as display:
        for done in range(1, 101):
            clock.now += 0.1
            display.update(done, ROW)
    rounds = [int(line.split("/")[0].removeprefix("round ")) for line in stream.getvalue().splitlines()]
    assert rounds[0] == 1
    assert rounds[-1] == 100
    assert 10 <= len(rounds) <= 12
    assert rounds == sorted(set(rounds))


def test_the_time_left_is_reckoned_from_this_part_of_a_resumed_run(clock):
    stream = io.StringIO()
    with Display(100, start=50, stream=stream) as display:
        display.update(50, None)
        clock.now += 20
        display.update(60, ROW)
    assert stream.getvalue().rstrip().endswith("1 min 20 s left")


def test_messages_and_silence():
    stream = io.StringIO()
    with Display(10, stream=stream) as display:
        display.message("compiling [bold]now[/bold]")
    assert stream.getvalue() == "compiling [bold]now[/bold]\n"
    stream = io.StringIO()
    with Display(10, stream=stream, enabled=False) as display:
        display.message("compiling")
        display.update(10, ROW)
    assert stream.getvalue() == ""


def test_standard_error_is_the_stream_unless_told(capsys):
    with Display(10) as display:
        display.update(10, {"train_loss": float("nan")})
    assert capsys.readouterr().err == "round 10/10  loss not finite\n"


class Broken(io.StringIO):
    """A stream whose other end is gone."""

    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal

    def write(self, text):
        raise BrokenPipeError(32, "Broken pipe")


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize(
    "stream",
    [Broken(False), Broken(True), closed(), object(), io.TextIOWrapper(io.BytesIO(), encoding="ascii")],
    ids=["broken pipe", "broken terminal", "closed", "no stream", "ascii"],
)
def test_a_stream_that_fails_is_no_reason_for_a_run_to(stream, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    output, error = sys.stdout, sys.stderr
    with Display(10, stream=stream) as display:
        display.message("Größe ± 1")
        display.update(5, ROW)
        display.update(10, {"accuracy": "nonsense"})
    assert (sys.stdout, sys.stderr) == (output, error)


def test_no_standard_error_at_all(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with Display(10) as display:
        display.update(10, ROW)


@pytest.fixture
def terminal(monkeypatch):
    pty = pytest.importorskip("pty", reason="no pseudo-terminals on this system")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    reader, writer = pty.openpty()
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        yield stream, reader
    os.close(reader)


def shown(reader):
    os.set_blocking(reader, False)
    found = b""
    while True:
        try:
            part = os.read(reader, 65536)
        except (BlockingIOError, OSError):
            return found.decode()
        if not part:
            return found.decode()
        found += part


def test_a_terminal_sees_a_live_line(terminal):
    stream, reader = terminal
    with Display(30, stream=stream) as display:
        display.message("compiling [red]")
        display.update(10, None)
        display.update(20, ROW)
    text = shown(reader)
    assert "compiling [red]" in text
    assert "20/30" in text
    assert "loss 0.25  accuracy 50.00 %  sent 2 Gbit" in text
    assert text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l") >= 0, "the cursor is hidden, and shown again"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_the_terminal_is_given_back_when_the_run_fails(terminal, error):
    stream, reader = terminal
    output, diagnostics = sys.stdout, sys.stderr

    def fail():
        with Display(30, stream=stream) as display:
            display.update(10, ROW)
            raise error("stop")

    with pytest.raises(error, match="stop"):
        fail()
    text = shown(reader)
    assert text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l") >= 0
    assert (sys.stdout, sys.stderr) == (output, diagnostics)


def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines(terminal, monkeypatch):
    stream, reader = terminal
    monkeypatch.setenv("TERM", "dumb")
    with Display(30, stream=stream) as display:
        display.update(30, ROW)
    assert shown(reader) == "round 30/30  loss 0.25  accuracy 50.00 %  sent 2 Gbit\r\n"

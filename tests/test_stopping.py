"""Signals: at once while a run is set up, at the end of the block while rounds run, and never lost."""

import contextlib
import os
import signal
import sys
import threading
import time
from importlib import import_module

import pytest

from hush.stopping import REPEAT_SECONDS, SIGNALS, Stopping, listening


def _send(number):
    """A signal to ourselves, and time for it to arrive."""
    os.kill(os.getpid(), number)
    time.sleep(60)


@pytest.mark.parametrize("number", SIGNALS)
def test_before_the_rounds_a_signal_ends_it_at_once(number):
    with listening() as stopping, pytest.raises(KeyboardInterrupt):
        _send(number)
    assert stopping.signal == number


def test_while_rounds_run_the_first_is_noted_and_the_second_ends_it():
    with listening() as stopping:
        stopping.finishing = True
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopping
        assert stopping.urgent
        with pytest.raises(KeyboardInterrupt):
            _send(signal.SIGINT)
        assert stopping.signal == signal.SIGTERM


def test_an_exception_that_a_library_swallowed_is_raised_again():
    with listening() as stopping:
        with contextlib.suppress(KeyboardInterrupt):  # as a callback of a library may do
            _send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            stopping.check()


SLOW_MODULE = """
import os, signal, time
os.kill(os.getpid(), signal.{name})
for _ in range(50):  # steps between which a signal would be heard
    time.sleep(0.01)
os.environ["HUSH_TEST_LOADED"] = "whole"
"""


def _imported_and_waited_for(name):
    import_module(name)
    time.sleep(60)


def _imported_and_checked(name, stopping):
    import_module(name)
    stopping.check()


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_import_is_finished_first(name, tmp_path, monkeypatch):
    """A library that is left half loaded may take the process down, at once or as it ends."""
    (tmp_path / "a_slow_module.py").write_text(SLOW_MODULE.format(name=name))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("HUSH_TEST_LOADED", "not yet")
    with listening() as stopping, pytest.raises(KeyboardInterrupt):
        _imported_and_waited_for("a_slow_module")
    assert sys.modules.pop("a_slow_module")
    assert os.environ["HUSH_TEST_LOADED"] == "whole"
    assert stopping.signal == getattr(signal, name)


def test_a_second_signal_does_not_wait_for_an_import(tmp_path, monkeypatch):
    (tmp_path / "an_endless_module.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(0.2)\n"
        "os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with listening(), pytest.raises(KeyboardInterrupt):
        import_module("an_endless_module")
    assert "an_endless_module" not in sys.modules


def test_a_program_that_is_itself_imported_is_stopped_at_once(tmp_path, monkeypatch):
    """All of a run may stand in a module: that import is not waited for."""
    (tmp_path / "a_program.py").write_text(
        "import os, signal, time\nfrom hush.stopping import listening\n"
        "with listening():\n    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(60)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        import_module("a_program")


def test_no_signal_comes_after_the_end(tmp_path, monkeypatch):
    """One that an import held back is not sent to whoever comes next."""
    (tmp_path / "a_short_module.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt), listening() as stopping:
        _imported_and_checked("a_short_module", stopping)
    sys.modules.pop("a_short_module")
    time.sleep(4 * REPEAT_SECONDS)


class Callback:
    """An object whose end is a callback that cannot raise, as those of libraries are."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)


def test_an_exception_that_a_callback_dropped_is_raised_again_at_once(capfd):
    with listening(), pytest.raises(KeyboardInterrupt):
        _let_go(Callback())
    assert "Exception ignored" not in capfd.readouterr().err


def _let_go(thing):
    del thing
    time.sleep(60)


def test_it_is_answered_at_once_even_where_no_step_of_the_program_comes_between(capfd):
    """The thread answers while the main thread is blocked in one call that it cannot be called out of."""
    with listening() as stopping:
        stopping.finishing = True
        sender = threading.Thread(target=_later, args=(signal.SIGINT,))
        sender.start()
        sender.join()
        said, sentence = "", "heard SIGINT: finishing this block of rounds"
        for _ in range(1200):  # a thread is started when the machine has time for it
            said += capfd.readouterr().err
            if sentence in said:
                break
            time.sleep(0.05)
        assert sentence in said


def _later(number):
    time.sleep(0.05)
    os.kill(os.getpid(), number)


def test_handlers_are_put_back_and_ignored_signals_stay_ignored():
    before = {number: signal.getsignal(number) for number in SIGNALS}
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with listening() as stopping:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stopping
            with listening() as inner:
                assert inner is stopping
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before[signal.SIGHUP])
    assert {number: signal.getsignal(number) for number in SIGNALS} == before


def test_a_handler_of_the_users_own_is_left_to_it():
    """A scheduler's SIGTERM may mean something to the program; Ctrl-C is always heard."""
    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        with listening() as stopping:
            os.kill(os.getpid(), signal.SIGTERM)
            assert not stopping
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]


def test_a_thread_cannot_listen_and_works_all_the_same():
    found = []

    def work():
        with listening() as stopping:
            found.append(stopping)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert type(found[0]) is Stopping
    assert not found[0]


def test_who_is_not_done_in_time_leaves_with_what_is_written(monkeypatch):
    """As a command does: a block of rounds may take longer than whoever asked will wait. Ctrl-C never does this."""
    left = []
    monkeypatch.setattr("os._exit", left.append)
    monkeypatch.setattr("hush.stopping.GRACE_SECONDS", 0.01)
    for leave, number in ((False, signal.SIGTERM), (True, signal.SIGINT), (True, signal.SIGTERM)):
        Stopping(leave).answer(number)
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):
                thread.join()
    assert left == [143]

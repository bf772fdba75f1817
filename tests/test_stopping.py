"""Signals: at once while a run is set up, at the end of the block while rounds run, and never lost."""

import contextlib
import os
import signal
import threading
import time

import pytest

from hush.stopping import SIGNALS, Stopping, listening


def _send(number):
    """A signal to ourselves, and time for it to arrive."""
    os.kill(os.getpid(), number)
    time.sleep(60)


def test_before_the_rounds_a_signal_ends_it_at_once():
    for number in SIGNALS:
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

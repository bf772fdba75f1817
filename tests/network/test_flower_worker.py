"""The worker of a Flower node: what it answers, what it keeps to itself, and how it is found and started."""

import argparse
import contextlib
import grp
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

import hush
from hush.core.flat import initial
from hush.core.keys import at, root
from hush.network.agreement import agree
from hush.network.coordinator import Coordinator
from hush.network.flower import calling, pipe, worker
from hush.network.flower.calling import ask
from hush.network.flower.worker import UNSAID, Attendant, check_agreed, listening, stay
from hush.network.messages import (
    Answer,
    Declined,
    End,
    Welcome,
    read_answer,
    read_hello,
    write_end,
    write_welcome,
)
from hush.network.serving import rehearsing
from hush.settings import RunSettings
from hush.settings.build import build
from hush.tasks.remote import held

TABLES = {"name": "remote", "sizes": [12, 9], "shape": [3], "outputs": 2}
EXPERIMENT = build({"algorithm": {"name": "fedpaq", "clients": 2, "steps": 2, "lr": 0.1, "levels": 4}, "task": TABLES})
PROBLEM, RUN = EXPERIMENT.problem(), RunSettings(rounds=5)
AGREEMENT = agree(EXPERIMENT.algorithm, PROBLEM, RUN, rehearsal=True, task=EXPERIMENT.task)
DIGEST, NUMBER = AGREEMENT.digest.hex(), b"run-0001"
WELCOME = write_welcome(Welcome(NUMBER, AGREEMENT.text))


def told(rounds=0):
    """What a server says in its first round, or in a later one whose answers did not come."""
    made = Coordinator(
        EXPERIMENT.algorithm,
        PROBLEM,
        at(root(0), "repetition", 0),
        run=NUMBER,
        agreement=AGREEMENT.digest,
        rehearsal=True,
    )
    for _ in range(rounds):
        made.next_round()
    return made.tell(made.open(0), 1)


def data_file(folder, examples=9):
    draws = np.random.default_rng(3)
    path = folder / "own.npz"
    np.savez(path, x=draws.normal(size=(examples, 3)).astype(np.float32), y=np.arange(examples) % 2)
    return path


def attendant(folder, examples=9, **changes):
    usual = {"label": "y", "epsilon": None, "again": False, "rehearse": True, "agree": DIGEST, "client": 1}
    owner = usual | {"state": str(folder), "data": str(data_file(folder, examples))} | changes
    return Attendant(argparse.Namespace(**owner))


def declined(answer):
    found = read_answer(answer)
    assert isinstance(found, Declined)
    return found


def test_it_answers_as_the_device_does_and_repeats_itself_after_a_kill(tmp_path):
    answer = attendant(tmp_path).answer(WELCOME, told())
    with np.load(tmp_path / "own.npz") as own:
        problem = held(PROBLEM, 1, own["x"], own["y"])
    start = initial(PROBLEM, at(root(0), "repetition", 0, "init"))
    assert answer == rehearsing(AGREEMENT, EXPERIMENT.algorithm, problem, RUN, 1, start).hear(told())
    later = attendant(tmp_path)
    assert later.answer(WELCOME, told()) == answer
    assert later.answer(WELCOME, write_end(End((0,), "enough"))) == b""
    assert "it was put back" in declined(later.answer(WELCOME, told())).reason


def test_hello_names_what_is_pinned_in_full_and_nothing_less(tmp_path):
    assert read_hello(attendant(tmp_path).answer(b"", b"")).agreement == AGREEMENT.digest
    assert read_hello(attendant(tmp_path, agree=DIGEST[:16]).answer(b"", b"")).agreement == b""


@pytest.mark.parametrize("agreed", ["", "none", "0" * 16, DIGEST[:40] + "0" * 24])
def test_without_the_owners_consent_nothing_is_begun(agreed, tmp_path, caplog):
    caplog.set_level("INFO")
    found = declined(attendant(tmp_path, agree=agreed).answer(WELCOME, told(2)))
    assert (found.run, found.number) == (NUMBER, 2)
    assert f"has not agreed to {DIGEST[:16]}" in found.reason
    assert f"agree={DIGEST}" in caplog.text
    assert "NOTHING IS PROTECTED" in caplog.text
    assert {path.name for path in tmp_path.iterdir()} == {"own.npz"}


def test_sixteen_digits_are_consent(tmp_path):
    assert isinstance(read_answer(attendant(tmp_path, agree=DIGEST[:16].upper()).answer(WELCOME, told())), Answer)


def test_what_is_wrong_with_the_data_is_for_the_owner_alone(tmp_path, caplog):
    found = declined(attendant(tmp_path, examples=7).answer(WELCOME, told()))
    assert found.reason == UNSAID
    assert "found 7" in caplog.text


def test_a_rehearsal_needs_its_own_word(tmp_path):
    assert "nothing is protected" in declined(attendant(tmp_path, rehearse=False).answer(WELCOME, told())).reason


@pytest.mark.parametrize("noise", [b"x", b"hush" + bytes(40), told()[:-1]])
def test_noise_is_declined(noise, tmp_path):
    assert declined(attendant(tmp_path).answer(WELCOME, noise)).reason
    assert declined(attendant(tmp_path).answer(noise, told())).number == 0


@pytest.mark.parametrize("digits", ["abc", "g" * 16, "0" * 65])
def test_digits_that_name_no_agreement_are_refused(digits):
    with pytest.raises(ValueError, match="named by 16 to 64 hexadecimal digits"):
        check_agreed(digits)


@pytest.fixture
def place():
    with tempfile.TemporaryDirectory(prefix="node") as folder:  # short: sockets have short paths
        yield Path(folder)


class Echo:
    """In the attendant's place."""

    def answer(self, welcome, data):
        if data == b"leave":
            raise EOFError
        return welcome + b"|" + data


class TestSocket:
    @contextlib.contextmanager
    def staying(self, path, known_as="", idle=30.0):
        """A worker in a thread."""

        def until_told():
            with contextlib.suppress(EOFError):
                stay(Echo(), listener, known_as)

        with listening(path, None) as listener:
            listener.settimeout(idle)
            thread = threading.Thread(target=until_told)
            thread.start()
            yield thread
            if thread.is_alive():
                with socket.socket(socket.AF_UNIX) as caller:
                    caller.connect(str(path))
                    pipe.send(caller, b"", b"", b"leave")
                    thread.join()

    def test_only_its_owner_may_call_and_long_texts_arrive(self, place):
        path = place / "own.sock"
        path.write_text("left by another")
        with self.staying(path):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            long = bytes(range(256)) * 20_000
            assert ask({"socket": str(path)}, b"", b"") == b"|"
            assert ask({"socket": str(path), "data": "of another app"}, b"welcome", long) == b"welcome|" + long

    def test_a_group_may_call_where_the_owner_says_so(self, place):
        path = place / "own.sock"
        with listening(path, grp.getgrgid(os.getgid()).gr_name):
            assert stat.S_IMODE(path.stat().st_mode) == 0o660
            assert path.stat().st_gid == os.getgid()

    def test_a_caller_who_leaves_or_talks_nonsense_costs_nobody_else_an_answer(self, place):
        with self.staying(place / "own.sock"):
            for said in (b"", b"\1", (1 << 60).to_bytes(8, "little")):
                with socket.socket(socket.AF_UNIX) as caller:
                    caller.connect(str(place / "own.sock"))
                    caller.sendall(said)
            assert ask({"socket": str(place / "own.sock")}, b"a", b"b") == b"a|b"

    def test_it_leaves_where_nobody_calls_or_settings_are_new(self, place):
        with self.staying(place / "own.sock", idle=0.01) as thread:
            thread.join(60)
            assert not thread.is_alive()
        with self.staying(place / "own.sock", known_as="before") as thread, socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(place / "own.sock"))
            pipe.send(caller, b"after", b"", b"")
            with pytest.raises(ConnectionError):
                pipe.receive(caller, 1)
            thread.join(60)
            assert not thread.is_alive()

    @pytest.mark.parametrize(
        ("config", "reason"),
        [
            ({"state": "s", "client": 0}, "missing: data"),
            ({}, "missing: state, data, client"),
            ({"socket": "/" + "s" * 200}, "has at most 100 bytes"),
        ],
    )
    def test_what_a_node_must_say(self, config, reason):
        with pytest.raises(ValueError, match=reason):
            ask(config, b"", b"")

    def test_an_owners_worker_is_not_started_by_others(self, place):
        with pytest.raises(RuntimeError, match="no worker listens at the socket"):
            ask({"socket": str(place / "own.sock")}, b"", b"")


def test_what_a_node_runs_for_every_message_has_no_jax():
    code = "import sys, hush.network.flower.calling; print([name for name in ('jax', 'numpy') if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.slow
class TestProcess:
    @pytest.fixture
    def config(self, place, monkeypatch):
        monkeypatch.setenv("PYTHONPATH", str(Path(hush.__file__).parents[1]))
        state = place / "state"
        yield {"state": str(state), "data": str(data_file(place)), "client": 1, "agree": DIGEST, "rehearse": True}
        os.kill(self.process(place), signal.SIGKILL)
        for process in calling._outlive_us:  # they outlive a node's app, but not this test
            process.kill()
            process.wait()
        calling._outlive_us.clear()

    def process(self, place):
        return json.loads((place / "state/.lock").read_text())["process"]

    def test_it_is_started_once_found_again_and_replaced(self, config, place):
        answers, threads = [], []
        for _ in range(3):  # all at once: one of the workers stays
            threads.append(threading.Thread(target=lambda: answers.append(ask(config, WELCOME, told()))))
            threads[-1].start()
        for thread in threads:
            thread.join()
        assert len(answers) == 3
        assert len(set(answers)) == 1
        assert isinstance(read_answer(answers[0]), Answer)
        first = self.process(place)
        assert ask(config, WELCOME, told()) == answers[0]
        assert self.process(place) == first
        assert stat.S_IMODE((place / "state/worker.sock").stat().st_mode) == 0o600
        assert stat.S_IMODE((place / "state").stat().st_mode) == 0o700

        os.kill(first, signal.SIGKILL)
        assert ask(config, WELCOME, told()) == answers[0]  # from its file: nothing is spent twice
        second = self.process(place)
        assert second != first
        later = ask(config, WELCOME, told(1))
        assert read_answer(later).number == 1

        assert "has not agreed" in declined(ask(config | {"agree": "0" * 16}, WELCOME, told(1))).reason
        assert self.process(place) != second
        assert ask(config, WELCOME, told(1)) == later

    def test_one_that_cannot_start_is_told_of(self, config, place):
        with pytest.raises(RuntimeError, match="the worker did not start; the log on the node says why"):
            ask(config | {"agree": "abc"}, b"", b"")
        assert "named by 16 to 64" in (place / "state" / calling.LOG).read_text()
        ask(config, b"", b"")
        assert worker.main(["--state", config["state"], "--data", "task", "--client", "0"]) == calling.BUSY

"""`hush serve`, `hush join` and `hush devices`: a small federation in one process, and what is refused in words."""

import re
import threading

import numpy as np
import pytest
from typer.testing import CliRunner

import hush
from hush.app import devices as listing
from hush.app import serve as serving
from hush.app.main import app
from hush.network import Authority, agree
from hush.settings import build
from hush.settings.files import dumps

TABLES = {
    "task": {"name": "logistic_regression", "clients": 2, "examples": 20, "dimension": 4},
    "cohort": {"piece": "everyone"},
    "local": {"piece": "sgd", "lr": 0.1, "steps": 2},
    "uplink": [{"piece": "grid_gaussian", "bound": 1.0, "std": 20.0}],
    "run": {"rounds": 3, "evaluate_every": 3, "delta": 0.01},
    "network": {"deadline": 30.0, "begin_with": 2},
}


def command(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def fails(message, *words, code=2):
    result = command(*words)
    assert result.exit_code == code, result.output
    assert re.search(message, " ".join(result.stderr.split())), result.stderr
    assert "Traceback" not in result.stderr


@pytest.fixture(scope="module")
def enrolment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("enrolment") / "ours"
    authority = Authority.create(folder, ["127.0.0.1"])
    for client in range(2):
        authority.enrol(f"ward-{client}", client)
    return folder


@pytest.fixture
def settings(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text(dumps(TABLES))
    return path


@pytest.mark.slow
def test_a_federation_from_its_commands(enrolment, settings, tmp_path, monkeypatch, capsys, room):
    """Served and joined as the commands do it, in threads; then listed, by the operator and by an owner."""
    port = threading.Event()
    real = serving.listen

    def noticed(desk, **settings):
        context = real(desk, **settings)

        class Noticing:
            def __enter__(self):
                found = context.__enter__()
                noticed.port = found.port
                port.set()
                return found

            def __exit__(self, *error):
                return context.__exit__(*error)

        return Noticing()

    monkeypatch.setattr(serving, "listen", noticed)
    made = build(TABLES)
    digest = agree(made.algorithm, made.problem(), made.run, task=made.task).name
    folder, ends = tmp_path / "run", []

    def joined(client):
        credential = enrolment / "devices" / f"ward-{client}.pem"
        place = tmp_path / f"state-{client}"
        words = (f"127.0.0.1:{noticed.port}", credential, "task", "y", place, digest, None, False, False, 60.0, True)
        ends.append(serving.join(*words))

    def devices():
        port.wait(60)
        threads = [threading.Thread(target=joined, args=(client,)) for client in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    meanwhile = threading.Thread(target=devices)
    meanwhile.start()
    serving.serve(settings, [], folder, "127.0.0.1:0", enrolment, False, False, True)
    meanwhile.join()
    assert ends == [None, None]
    fails("hush serve goes on with it", "resume", folder)
    listing.devices(folder)
    listing.mine(tmp_path / "state-0")
    said = capsys.readouterr().out
    expected = hush.privacy.describe(made.algorithm, made.problem(), 3).spent([3], 20, 0.01).epsilon
    assert re.search(r"ward-0.*3.*3", said)
    assert said.count(hush.privacy.shown.rounded_up(expected)) >= 3
    assert "taken part in" in said
    assert (folder / "report.html").is_file()
    assert "ward-1" in (folder / "report.html").read_text(encoding="utf-8")
    with np.load(folder / "checkpoint.npz") as kept:
        assert kept["network/key"].size == 4  # 128 secret bits
    assert folder.stat().st_mode & 0o077 == 0


def test_what_is_missing_is_named(enrolment, settings, tmp_path):
    server = ("serve", settings, "--folder", tmp_path / "run")
    fails("nowhere", *server, "--credential", tmp_path / "nowhere")
    fails("HOST:PORT", *server, "--credential", enrolment, "--listen", "7443")
    device = ("join", "--server", "127.0.0.1:1", "--data", "task")
    fails("nobody.pem", *device, "--credential", tmp_path / "nobody.pem")
    own = ("--credential", enrolment / "devices" / "ward-0.pem", "--state", tmp_path / "state")
    fails("16 to 64 hexadecimal digits", *device, *own, "--agree", "abc")
    fails("away for too long", *device, *own, "--patience", "0.3", code=8)
    fails("either the folder of a federation, or --mine", "devices")
    fails("no device has joined", "devices", "--mine", "--state", tmp_path / "state")
    fails("is no federation's", "devices", tmp_path)


@pytest.mark.parametrize("name", ["serve", "join", "devices", "enrol"])
def test_help_teaches(name):
    result = command(name, "--help")
    assert result.exit_code == 0
    assert f"hush {name}" in result.output

"""A federation over Flower on loopback: SuperLink with TLS and keys, a SuperNode and a warm worker for each client.

Flower holds packages back that others want newer, so it lives in an environment of its own, in the folder that
HUSH_FLOWER_ENVIRONMENT names (to be kept), or in a new one.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import tomllib
import venv
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

import hush
from hush.network.agreement import agree
from hush.network.credentials import Authority
from hush.settings import RunSettings, build, dumps, read, tables_of
from hush.store.journal import events
from hush.store.lock import in_use

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CLIENTS, ROUNDS, SECONDS = 3, 4, 400.0
NO_REGISTRY = "Could not find a version|No matching distribution|Connection|Temporary failure in name resolution"


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """The programs of an environment with Flower and with what hush needs; hush itself is this checkout's."""
    kept = os.environ.get("HUSH_FLOWER_ENVIRONMENT")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("flower") / "venv"
    if not (folder / "bin/flower-superlink").exists():
        venv.create(folder, with_pip=True)
    pip = [folder / "bin/python", "-m", "pip", "install", "--quiet"]
    for wanted in (PROJECT["optional-dependencies"]["flower"], PROJECT["dependencies"]):
        done = subprocess.run([*pip, *wanted], capture_output=True, text=True, check=False)
        if done.returncode and "flwr" in wanted[0] and re.search(NO_REGISTRY, done.stderr):
            pytest.skip("flwr cannot be installed: no registry that has it can be reached")
        assert done.returncode == 0, done.stderr
    return folder / "bin"


class Fleet:
    """A federation in one folder; all that it starts ends with it."""

    def __init__(self, scripts, folder):
        self.scripts, self.folder = scripts, folder
        self.port, self.processes = free_port(), {}
        Authority.create(folder / "tls", ["127.0.0.1", "localhost"])
        for name in (*map(str, range(CLIENTS)), "stranger"):
            write_key(folder / f"key{name}")
        home = self.home("operator")
        home.mkdir(parents=True)
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{self.port}"\n'
            f'root-certificates = "{folder}/tls/server/ca.crt"\n'
        )

    def home(self, name):
        return self.folder / "homes" / name

    def environment(self, name):
        own = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
        return own | {
            "PATH": f"{self.scripts}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "FLWR_HOME": str(self.home(name)),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "JAX_PLATFORMS": "cpu",
        }

    def start(self, name, program, *arguments):
        if name in self.processes:
            with contextlib.suppress(ProcessLookupError):
                self.kill(name)
        with (self.folder / f"{name}.log").open("ab") as log:
            command = [self.scripts / program, *map(str, arguments)]
            how = {"stdout": log, "stderr": log, "stdin": subprocess.DEVNULL, "start_new_session": True}
            self.processes[name] = subprocess.Popen(command, env=self.environment(name), cwd=self.folder, **how)
        return self.processes[name]

    def start_link(self):
        tls = self.folder / "tls/server"
        files = ("--ssl-ca-certfile", tls / "ca.crt", "--ssl-certfile", tls / "server.crt")
        where = ("--host", "127.0.0.1", "--port", self.port)
        key = ("--ssl-keyfile", tls / "server.key", "--enable-supernode-auth")
        self.start("link", "flower-superlink", *where, *files, *key)
        wait_until(lambda: listens(self.port), "the SuperLink listens")

    def start_node(self, name, key=None, **config):
        settings = " ".join(f"{field}={json.dumps(value)}" for field, value in config.items())
        return self.start(
            f"node{name}",
            "flower-supernode",
            *("--superlink", f"127.0.0.1:{self.port}", "--host", "127.0.0.1", "--port", free_port()),
            *("--root-certificates", self.folder / "tls/server/ca.crt"),
            *("--auth-supernode-private-key", self.folder / f"key{name if key is None else key}"),
            *("--node-config", settings),
        )

    def operate(self, *words):
        command = [self.scripts / "flwr", *map(str, words)]
        how = {"env": self.environment("operator"), "cwd": self.folder, "capture_output": True, "text": True}
        done = subprocess.run(command, check=False, timeout=SECONDS, **how)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, **config):
        settings = " ".join(f"{field}={json.dumps(value)}" for field, value in config.items())
        return self.operate("run", ROOT / "examples/flower", "here", "--run-config", settings)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def worker(self, client):
        """The process that holds the state of a client."""
        return json.loads((self.folder / f"{client}/.lock").read_text())["process"]

    def kill(self, name):
        """End a process as a power failure does, with all that it has started."""
        os.killpg(self.processes[name].pid, signal.SIGKILL)
        self.processes.pop(name).wait()

    def close(self):
        for client in range(CLIENTS):
            with contextlib.suppress(OSError):
                os.kill(self.worker(client), signal.SIGKILL)
        for name in list(self.processes):
            with contextlib.suppress(ProcessLookupError):
                self.kill(name)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def wait_until(condition, what, seconds=SECONDS):
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, f"in vain: {what}"
        time.sleep(0.1)
    return found


def write_key(path):
    key = ec.generate_private_key(ec.SECP384R1())
    encoded = (serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    path.write_bytes(key.private_bytes(*encoded))
    path.chmod(0o600)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    path.with_suffix(".pub").write_bytes(public)


def heard(folder, number=None):
    """Who has answered, by round."""
    found = [each for each in events(folder / "journal.jsonl") if each["event"] == "heard"]
    return [each["client"] for each in found if number is None or each["round"] == number]


def status(folder):
    with contextlib.suppress(OSError, ValueError):
        return json.loads((folder / "status.json").read_text())["status"]
    return None


@pytest.fixture
def fleet(scripts):
    with tempfile.TemporaryDirectory(prefix="flower") as folder:  # short: sockets have short paths
        made = Fleet(scripts, Path(folder))
        try:
            yield made
        finally:
            made.close()


ALGORITHM = hush.fedpaq(clients=CLIENTS, steps=5, lr=0.1, batch=8, levels=4)
RUN = RunSettings(rounds=ROUNDS)


def prepared(fleet):
    """The settings and the roster of a run, and how it is asked for."""
    settings, nodes, folder = (fleet.folder / name for name in ("settings.toml", "nodes.toml", "run"))
    tables = tables_of(ALGORITHM, hush.tasks.digits(clients=CLIENTS), RUN)
    settings.write_text(dumps(tables | {"network": {"deadline": SECONDS, "minimum": 1.0, "begin_with": CLIENTS}}))
    lines = [f'{client} = "{(fleet.folder / f"key{client}.pub").read_text()}"' for client in range(CLIENTS)]
    nodes.write_text("\n".join(["[nodes]", *lines]))
    return folder, {"settings": str(settings), "folder": str(folder), "nodes": str(nodes), "rehearse": True}


def test_a_server_whose_superlink_is_killed_leaves_its_folder_free(fleet):
    folder, config = prepared(fleet)
    fleet.start_link()
    fleet.run(**config)
    wait_until(lambda: status(folder) == "running", "the run has begun")
    assert in_use(folder)
    fleet.kill("link")
    wait_until(lambda: not in_use(folder), "the server's app has ended")


def test_run_through_kills_is_the_simulators(fleet):
    folder, asked = prepared(fleet)
    problem = hush.tasks.digits(clients=CLIENTS)
    task = build(read(Path(asked["settings"]))).task
    digest = agree(ALGORITHM, problem, RUN, rehearsal=True, task=task).digest.hex()
    fleet.start_link()
    for client in range(CLIENTS):
        fleet.operate("supernode", "register", fleet.folder / f"key{client}.pub", "here")
    config = [
        {"state": str(fleet.folder / str(client)), "data": "task", "client": client, "agree": digest, "rehearse": True}
        for client in range(CLIENTS)
    ]
    for client in range(CLIENTS):
        fleet.start_node(client, **config[client])
    stranger = fleet.start_node("stranger", **config[0] | {"state": str(fleet.folder / "s")})
    fleet.run(**asked)

    # The worker of one node is killed after its first answer, all of another node after its second.
    wait_until(lambda: 1 in heard(folder, 0), "client 1 has answered")
    first_worker = fleet.worker(1)
    os.kill(first_worker, signal.SIGKILL)
    wait_until(lambda: 2 in heard(folder, 1), "client 2 has answered twice")
    fleet.kill("node2")
    os.kill(fleet.worker(2), signal.SIGKILL)
    restarted = time.monotonic()
    while status(folder) in (None, "running"):  # a SuperLink refuses a key that it believes to be there still
        assert time.monotonic() < restarted + SECONDS, fleet.log("link")
        if "node2" not in fleet.processes or fleet.processes["node2"].poll() is not None:
            fleet.start_node(2, **config[2])
        time.sleep(1)

    simulated = hush.run(ALGORITHM, problem, ROUNDS, progress=False, evaluate_clients=False)
    with np.load(folder / "model.npz") as models:
        found = models[models.files[0]]
    np.testing.assert_allclose(found.ravel(), np.ravel(simulated.vector), atol=1e-6)
    with np.load(folder / "checkpoint.npz") as kept:
        for name in ("ledger/client_uplink_bits", "ledger/client_downlink_bits"):
            (place,) = [each for each in kept.files if each.endswith(name)]
            np.testing.assert_array_equal(kept[place], simulated.state[name])
    assert sorted(heard(folder)) == sorted(list(range(CLIENTS)) * ROUNDS)
    assert fleet.worker(1) != first_worker
    # Who is not registered is refused by the SuperLink, and has heard nothing.
    assert stranger.wait(SECONDS) != 0
    assert "Failed to activate SuperNode" in fleet.log("nodestranger")
    assert not (fleet.folder / "s").exists()


FORGED = """
from flwr.app import ConfigRecord, Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from hush.network.flower.grid import GridPost

TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1

class Grid:
    def push_messages(self, messages):
        (self.message,) = messages
        self.message.metadata.__dict__["_message_id"] = "number"
        return ["number"]

    def pull_messages(self, numbers):
        assert list(numbers) == ["number"]
        return [self.reply]

def replied(change=lambda content: None, source=None, error=None):
    grid = Grid()
    post = GridPost(grid)
    assert post.push(17, b"welcome", b"told", 60.0) == "number"
    content = RecordDict({"answer": ConfigRecord({"data": b"answer"}), "nonce": grid.message.content["nonce"]})
    change(content)
    grid.reply = Message(content if error is None else error, reply_to=grid.message)
    if source is not None:
        grid.reply.metadata.__dict__["_src_node_id"] = source
    (reply,) = post.pull(["number"])
    return reply

def put(name, **record):
    return lambda content: content.__setitem__(name, ConfigRecord(record))

assert replied() == ("number", b"answer", "")
for reply in (
    replied(source=18),
    replied(put("nonce", nonce=bytes(16))),
    replied(put("nonce", nonce=7)),
    replied(put("nonce", other=b"")),
    replied(put("answer", data="text")),
    replied(lambda content: content.pop("answer")),
    replied(error=Error(3, "no memory")),
):
    assert reply.data == b"" and reply.error, reply
"""


def test_a_reply_of_another_node_or_without_the_secret_number_is_none(scripts):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [scripts / "python", "-c", FORGED], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr

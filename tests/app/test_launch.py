"""The command line with several processes: launched, resumed, killed, stopped, refused."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "execution"))

from pack import Pack, free_port

import hush
from hush.app import processes
from hush.app.main import app
from hush.settings import build, read
from hush.store.reading import damaged

TINY = Path(__file__).parents[1] / "tiny.toml"
LONG = ("--rounds", "1000000", "--set", "run.evaluate_every=20", "--quiet")


def refused(*words):
    """What a command says that ends with the code of bad usage."""
    found = CliRunner().invoke(app, list(words))
    assert found.exit_code == 2, found.output
    return " ".join(found.output.split())


def alone(rounds):
    experiment = build(read(TINY))
    how = experiment.run.keywords() | {"rounds": rounds, "progress": False}
    return hush.run(experiment.algorithm, experiment.problem(), **how)


def status(folder):
    path = folder / "status.json"
    return json.loads(path.read_text()) if path.is_file() else {}


def under_way(folder):
    """Whether a run has made rounds, and evaluated some of them."""
    path = folder / "records.csv"
    return path.is_file() and path.read_text().count("\n") > 4


def begun(pack, folder, count=2):
    """Processes of a long run, each with its own command, once rounds run."""
    address = f"127.0.0.1:{free_port()}"
    for index in range(count):
        who = ("--coordinator", address, "--process", index, "--processes", count)
        pack.hush("run", TINY, *LONG, "--out", folder, *who)
    pack.until(lambda: under_way(folder) or pack.processes[0].poll() is not None, "the first rounds")
    assert [process.poll() for process in pack.processes] == [None] * count, pack.said()


def children(process):
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=False
    )
    return [int(number) for number in found.stdout.split()]


def lives(number):
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]


def free(port):
    with socket.socket() as trial:
        return trial.connect_ex(("localhost", port)) != 0


def test_what_makes_no_sense_is_refused_before_anything_starts(monkeypatch):
    port = free_port()
    where = ("--coordinator", f"127.0.0.1:{port}")
    assert "process must be a whole number from 0 to 1, found 2" in refused(
        "run", *where, "--process", "2", "--processes", "2"
    )
    assert "coordinator must be HOST:PORT, such as node-1:7444, found 'node-1'" in refused(
        "run", "--coordinator", "node-1", "--process", "0", "--processes", "2"
    )
    assert "go together, found no coordinator and no process" in refused("run", "--processes", "2")
    assert "--processes must be a number from 1, or auto, found many" in refused("run", "--processes", "many")
    assert "auto finds out the coordinator" in refused("run", *where, "--processes", "auto")
    assert "part of no job of SLURM, Open MPI or Kubernetes" in refused("run", "--processes", "auto")
    assert "run or resume and what it takes, found show fedavg" in refused("launch", "--", "show", "fedavg")
    assert "-n must be from 1 to 64, found 0" in refused("launch", "-n", "0", "--", "run")
    assert "is what hush launch says" in refused("launch", "--", "run", "--process=1")


def test_it_is_said_before_anything_is_computed():
    jax.devices()
    with pytest.raises(ValueError, match="before anything is computed, found that JAX has started"):
        hush.distributed.start(f"127.0.0.1:{free_port()}", 0, 2)


@pytest.mark.slow
def test_processes_that_do_not_meet_say_so(tmp_path):
    """Nobody at the coordinator; a port that is taken; others that never come; a different count; a number twice."""
    program = "import hush, sys; hush.distributed.start(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), seconds={})"
    with Pack(tmp_path) as pack, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        pack.begin("-c", program.format(0.5), f"127.0.0.1:{free_port()}", 1, 2)
        pack.begin("-c", program.format(5), f"127.0.0.1:{taken.getsockname()[1]}", 0, 2)
        pack.begin("-c", program.format(5), f"127.0.0.1:{free_port()}", 0, 2)
        address = f"127.0.0.1:{free_port()}"
        pack.begin("-c", program.format(300), address, 0, 2)
        pack.begin("-c", program.format(300), address, 1, 3)
        address = f"127.0.0.1:{free_port()}"
        for process in (0, 1, 1):
            pack.begin("-c", program.format(300), address, process, 3)
        codes = pack.codes()
        said = [pack.said_by(index).read_text() for index in range(8)]
    assert "within 0.5 s" in said[0]
    assert "cannot listen at port" in said[1]
    assert "of 2 processes, these have not come" in said[2]
    for each in said[3:5]:
        assert "process 1 counts 3 processes, process 0 counts 2" in each
    for each in said[5:]:
        assert "process 1 of 3 is there twice" in each
    assert codes == [1] * 8, pack.said()


@pytest.mark.parametrize(
    ("environment", "several"),
    [
        ({}, False),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, False),  # a batch script, before srun
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, False),
        ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "4"}, True),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, True),
    ],
)
def test_a_job_is_one_of_several_where_that_is_clear(monkeypatch, environment, several):
    for name in list(os.environ):
        if name.startswith(("SLURM", "OMPI")):
            monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert hush.distributed.in_a_job() is several
    assert processes._wanted(None, None, None) == ({} if several else None)
    assert processes._wanted(None, None, "1") is None


@pytest.mark.slow
def test_a_launched_run_leaves_the_folder_of_one_process_and_any_number_goes_on_with_it(tmp_path):
    """Four processes begin, two go on, one ends it; the result is that of one process that never stopped."""
    folder = tmp_path / "run"
    with Pack(tmp_path) as pack:
        for words in (
            ("launch", "-n", "4", "--", "run", TINY, "--out", folder),
            ("launch", "-n", "2", "--", "resume", folder, "--rounds", "8"),
            ("resume", folder, "--rounds", "12"),
        ):
            assert pack.hush(*words).wait(600) == 0, pack.said()
            assert damaged(folder) == []
    assert not list(folder.glob(".*partial*"))
    expected, found = alone(12), hush.load(folder)
    np.testing.assert_allclose(found.vector, expected.vector, rtol=1e-5, atol=1e-6)
    assert found.records["uplink_bits"].tolist() == expected.records["uplink_bits"].tolist()
    assert found.status["status"] == "finished"
    assert "[Gloo]" not in pack.said()
    assert pack.said().count("finished at round") == 3  # process 0 alone tells


@pytest.mark.slow
def test_tasks_of_a_job_of_slurm_find_each_other_unasked(tmp_path):
    """And agree on a folder, whose name none of them was given."""
    first, count = 2**16 - 2**12, 2**12  # where JAX has the coordinator, by the number of the job
    job = next(number for number in range(os.getpid() % count, count) if free(first + number))
    common = {"SLURM_JOB_ID": str(job), "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": "2"}
    with Pack(tmp_path) as pack:
        for index in ("0", "1"):
            who = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": index, "SLURM_LOCALID": index}
            pack.hush("run", TINY, folder=tmp_path, **common, **who)
        assert pack.codes() == [0, 0], pack.said()
    (folder,) = (tmp_path / "runs").iterdir()
    assert status(folder)["layout"]["devices"] == 2


@pytest.mark.slow
def test_a_process_without_a_sign_of_life_ends_the_others(tmp_path):
    """As one on a machine that has stopped, whose connections nobody closes."""
    folder = tmp_path / "run"
    with Pack(tmp_path) as pack:
        begun(pack, folder)
        pack.processes[1].send_signal(signal.SIGSTOP)
        assert pack.processes[0].wait(600) == 9, pack.said()
        said = " ".join(pack.said_by(0).read_text().split())
    assert "process 1 of 2 has given no sign of life" in said
    assert f"hush resume {folder}" in said


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_that_is_killed_ends_the_others_and_the_run_can_go_on(tmp_path, victim):
    folder = tmp_path / "run"
    with Pack(tmp_path) as pack:
        begun(pack, folder)
        pack.processes[victim].kill()
        codes = pack.codes()
        assert codes[victim] == -signal.SIGKILL
        # JAX ends those that have lost process 0, unless they find out first.
        assert codes[1 - victim] in ((9,) if victim else (9, -signal.SIGABRT)), pack.said()
        said = pack.said_by(1 - victim)
        pack.until(lambda: f"hush resume {folder}" in " ".join(said.read_text().split()), "last words")
        done = int(hush.load(folder).state["round"])
        assert pack.hush("resume", folder, "--rounds", done + 2, "--quiet").wait(600) == 0, pack.said()
    assert status(folder)["round"] == done + 2


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_the_launcher_stops_all_in_order(tmp_path, number, code):
    folder = tmp_path / "run"
    with Pack(tmp_path) as pack:
        launcher = pack.hush("launch", "-n", "2", "--", "run", TINY, *LONG, "--out", folder)
        pack.until(lambda: under_way(folder) or launcher.poll() is not None, "the first rounds")
        begun = children(launcher)
        assert len(begun) == 2, pack.said()
        launcher.send_signal(number)
        assert launcher.wait(600) == code, pack.said()
    assert not any(map(lives, begun))
    assert status(folder)["status"] == "interrupted"
    assert status(folder)["round"] == int(hush.load(folder).state["round"])


@pytest.mark.slow
def test_a_launcher_that_is_killed_takes_its_processes_with_it(tmp_path):
    folder = tmp_path / "run"
    with Pack(tmp_path) as pack:
        launcher = pack.hush("launch", "-n", "2", "--", "run", TINY, *LONG, "--out", folder)
        pack.until(lambda: under_way(folder) or launcher.poll() is not None, "the first rounds")
        begun = children(launcher)
        launcher.kill()
        pack.until(lambda: not any(map(lives, begun)), "the end of its processes")
    assert status(folder)["status"] == "interrupted"


@pytest.mark.slow
def test_a_polite_kill_of_one_process_stops_all_and_one_of_a_hung_run_ends_it(tmp_path):
    with Pack(tmp_path) as pack:
        begun(pack, tmp_path / "polite")
        pack.processes[1].terminate()
        assert pack.codes() == [143, 143], pack.said()
    assert status(tmp_path / "polite")["status"] == "interrupted"
    with Pack(tmp_path) as pack:
        begun(pack, tmp_path / "hung")
        pack.processes[1].send_signal(signal.SIGSTOP)
        time.sleep(2)  # process 0 now waits for it, inside a compiled program
        pack.processes[0].terminate()
        assert pack.processes[0].wait(600) == 143, pack.said()

"""The command line, from what it prints to how it ends."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from hush.algorithms import ALGORITHMS
from hush.app import commands, failures
from hush.app.bibliography import entries
from hush.app.citations import SUBJECTS, USES
from hush.app.listing import SLOTS, overview
from hush.app.main import app
from hush.data.download import DataUnavailable
from hush.papers import PAPERS
from hush.plans.proxies import proxy_of
from hush.runs.run import run
from hush.settings import build, default_tables, override, read

pytestmark = pytest.mark.usefixtures("unpainted")

ROOT = Path(__file__).parents[2]
TINY = (Path(__file__).parents[1] / "tiny.toml").read_text()


def hush(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def fine(*arguments):
    result = hush(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def fails(code, message, *arguments):
    """The command ends with this code and one line that says so, without a traceback."""
    result = hush(*arguments)
    assert result.exit_code == code, result.output
    assert re.search(message, result.stderr), result.stderr
    assert "Traceback" not in result.stderr
    if not result.stderr.lstrip().startswith(("Usage", "╭")):  # typer's own complaints come in a frame
        assert len([line for line in result.stderr.splitlines() if line.startswith("error: ")]) == 1
    return result


def settings_files():
    """Every settings file in the repository, but those of tools, of runs and of plans."""
    found = []
    for folder, names, files in os.walk(ROOT):
        names[:] = [
            name for name in names if not name.startswith(".") and name not in ("runs", "planning", "node_modules")
        ]
        found += [Path(folder) / file for file in files if file.endswith(".toml") and file != "pyproject.toml"]
    return sorted(found)


def every_settings_file_but_few_slow():
    """Those of the demo run in every test; a program of its own has to be compiled for each."""
    return [
        path if path.parent.name == "demo" else pytest.param(path, marks=pytest.mark.slow) for path in settings_files()
    ]


def named(path):
    return str(path.relative_to(ROOT))


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A settings file of a problem that takes no time, in a folder of its own that commands run in."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


class TestHelp:
    @pytest.mark.parametrize("command", ["run", "resume", "report", "compare", "list", "show", "cite", "audit"])
    def test_every_command_teaches_by_example(self, command):
        assert re.search(rf"^ hush {command}\b", fine(command, "--help"), re.MULTILINE)

    def test_exit_codes_are_told(self):
        text = fine("--help")
        for code, meaning in failures.CODES.items():
            assert re.search(rf"^ +{code} +{meaning[:30]}", text, re.MULTILINE)

    def test_version(self):
        assert re.fullmatch(r"hush \d+\.\d+.*\n", fine("--version"))

    def test_bad_usage(self):
        assert hush("trian").exit_code == 2
        assert hush("run", "--rounds", "many").exit_code == 2
        assert hush().exit_code == 2


class TestList:
    def test_overview(self):
        text = fine("list")
        assert len(SLOTS) == 16
        for slot, entry in SLOTS.items():
            assert f"\n{slot}: {entry.meaning}" in f"\n{text}"
            assert entry.table, slot
            for name in entry.table:
                assert re.search(rf"^  {name} +[A-Z].*\.$", text, re.MULTILINE), name

    def test_what_each_is_for_fits_a_line(self):
        lines = overview()
        assert len(lines) == 1 + sum(1 + len(entry.table) for entry in SLOTS.values())
        assert max(map(len, lines)) <= 100
        formulas = [line for line in lines if re.search(r"[‖Σ∇∇̃←∼√]|paper (fedpaq|clipping|alignment)", line)]
        assert not formulas  # these come after what it is for

    @pytest.mark.parametrize("slot", SLOTS)
    def test_each_slot(self, slot):
        text = fine("list", slot)
        for name in SLOTS[slot].table:
            assert re.search(rf"│ {name} +│ \S", text), name  # with something said of it

    def test_settings_with_defaults(self):
        text = fine("list", "cohort")
        assert "size (needed)" in text
        assert 'weighting = "examples"' in text

    def test_unknown(self):
        fails(2, "unknown slot 'locl'; did you mean 'local'", "list", "locl")


class TestPapers:
    def test_help_tells_what_each_is_about(self):
        assert list(SUBJECTS) == list(PAPERS)
        text = " ".join(fine("paper", "--help").split())
        for name, about in SUBJECTS.items():
            assert f"{name} {about}" in text


class TestShow:
    @pytest.mark.parametrize("name", ALGORITHMS)
    def test_the_file_of_an_algorithm_is_complete(self, name):
        experiment = build(tomllib.loads(fine("show", name)))
        assert experiment.tables["task"]["classes_per_client"] == 2
        assert experiment.algorithm == build(default_tables(name)).algorithm
        written_out = build(tomllib.loads(fine("show", name, "--pieces")))
        assert written_out.algorithm == experiment.algorithm
        assert written_out.run == experiment.run

    def test_remarks_can_be_turned_into_settings(self):
        text = fine("show", "fedavg").replace("# [", "[").replace('# "local', '"local').replace("# lr =", "lr =")
        experiment = build(tomllib.loads(text))
        assert experiment.run.sweep == {"local.lr": [0.03, 0.1, 0.3]}
        assert experiment.algorithm.local.lr == 0.05

    def test_the_default_is_fedavg(self):
        assert fine("show") == fine("show", "fedavg")

    @pytest.mark.parametrize("slot", [slot for slot in SLOTS if slot != "algorithm"])
    def test_every_piece(self, slot):
        for name in SLOTS[slot].table:
            text = fine("show", f"{slot}.{name}")
            assert tomllib.loads(text)
            assert name in text

    def test_a_piece_by_its_name_alone(self):
        assert fine("show", "clip") == fine("show", "uplink.clip")
        assert "# bound =  # needed: a number" in fine("show", "clip")
        assert "[local]" in fine("show", "local.scaffold")  # the bare name is the algorithm's

    def test_unknown(self):
        fails(2, "unknown name 'fedavgg'; did you mean 'fedavg'", "show", "fedavgg")


class TestCite:
    def test_all(self):
        text = fine("cite")
        assert text.count("\n@") + text.startswith("@") == len(entries())
        for title in ("Langevin", "Aligning Gradients", "Understanding Clipping", "Communication Constraints"):
            assert title in text
        assert text.count("{") == text.count("}")

    def test_the_file_is_entries_and_nothing_else(self):
        """Each with a title and an author, and no line of the file in none of them."""
        text = (Path(failures.__file__).parent / "bibliography.bib").read_text(encoding="utf-8")
        assert len(entries()) == text.count("@")
        assert text == f"{text.splitlines()[0]}\n\n" + "\n".join(entries().values())
        for key, entry in entries().items():
            assert entry.count("{") == entry.count("}"), key
            for field in ("title", "author"):
                assert entry.count(f"\n  {field} = {{") == 1, key

    def test_every_key_is_used_or_cited_with_all(self):
        assert {key for keys in USES.values() for key in keys} <= set(entries())

    def test_names_are_names_of_something(self):
        known = {name for slot in SLOTS.values() for name in slot.table} | {"classes_per_client", "dominant_classes"}
        assert set(USES) <= known | set(PAPERS) | {"planning", "tuning", "auditing"}

    @pytest.mark.parametrize("name", ALGORITHMS)
    def test_every_algorithm_and_data_set_has_something(self, name):
        assert "@" in fine("cite", name)

    def test_a_settings_file(self, tiny):
        tiny.write_text(tiny.read_text().replace('"fedavg"', '"scaffold"'))
        text = fine("cite", tiny, "mnist")
        assert re.findall(r"@\w+{(\w+),", text) == [*USES["scaffold"], *USES["mnist"]]

    def test_unknown(self):
        fails(2, "neither a name to cite.*did you mean 'scaffold'", "cite", "scafold")
        fails(2, "no such file", "cite", "absent.toml")


class TestRun:
    def test_writes_a_folder_and_says_where(self, tiny):
        text = fine("run", tiny, "--out", "first", "--seeds", 3, "--rounds", 5, "--set", "local.lr=0.01")
        assert "finished at round 5 of 5, repetitions: 3" in text
        assert "folder: first\nreport: first/report.html\n" in text
        assert Path("first/report.html").exists()
        tables = read("first/settings.toml")
        assert tables["local"]["lr"] == 0.01
        assert (tables["run"]["rounds"], tables["run"]["repetitions"]) == (5, 3)
        assert build(tables).problem().population.clients == 4
        assert json.loads(Path("first/status.json").read_text())["status"] == "finished"

    def test_a_bit_budget_ends_a_run_and_a_larger_one_goes_on(self, tiny):
        """Two clients send two numbers of 32 bits each: 128 bits a round."""
        text = fine("run", tiny, "--out", "first", "--bits", 400)
        assert "finished at round 3 of 3 (the bit budget is spent: 384 of 400 bits in 3 rounds)" in " ".join(
            text.split()
        )
        fine("resume", "first", "--bits", 1e9, "--quiet")
        fine("run", tiny, "--out", "whole", "--quiet")
        one, other = (np.load(f"{run}/model.npz")["vector"] for run in ("first", "whole"))
        np.testing.assert_array_equal(one, other)
        fails(2, "run.bit_budget: must be a number", "run", tiny, "--set", "run.bit_budget=many")

    @pytest.mark.slow
    def test_a_client_has_a_bit_budget_of_its_own(self, tiny):
        """A message has 64 bits, and of four clients two come a round: by the third, one has come twice."""
        text = " ".join(fine("run", tiny, "--out", "first", "--client-bits", 100).split())
        assert re.search(r"a client's bit budget is spent: 64 of 100 bits in [12] rounds?", text)
        fine("resume", "first", "--client-bits", 1e9, "--quiet")
        fine("run", tiny, "--out", "whole", "--quiet")
        one, other = (np.load(f"{run}/model.npz")["vector"] for run in ("first", "whole"))
        np.testing.assert_array_equal(one, other)
        retiring = ("--client-bits", 100, "--set", "run.when_spent=retire", "--quiet")
        for out, more in (("retired", ()), ("by-bytes", ("--through-bytes",))):
            fine("run", tiny, "--out", out, *retiring, *more)
            assert pd.read_parquet(f"{out}/clients.parquet")["rounds"].max() == 1
            assert json.loads(Path(f"{out}/status.json").read_text())["round"] == 4
        fails(2, "does not pay for one message, which costs 64 bits", "run", tiny, "--client-bits", 63)

    def test_quiet_and_the_default_folder(self, tiny):
        assert fine("run", tiny, "--quiet") == ""
        (folder,) = Path("runs").iterdir()
        assert re.fullmatch(r"fedavg-linear_regression-\d{8}-\d{6}-[0-9a-f]{4}", folder.name)

    def test_the_same_numbers_as_python(self, tiny):
        fine("run", tiny, "--out", "first", "--quiet")
        experiment = build(read(tiny))
        records = run(experiment.algorithm, experiment.problem(), **experiment.run.keywords()).records
        written = pd.read_parquet("first/records.parquet")
        pd.testing.assert_frame_equal(written.drop(columns="seconds"), records.drop(columns="seconds"))

    def test_sweep(self, tiny):
        text = fine("run", tiny, "--out", "first", "--set", "sweep.local.lr=[0.01, 0.1]")
        assert "local.lr" in text
        assert read("first/settings.toml")["sweep"] == {"local.lr": [0.01, 0.1]}

    def test_does_not_overwrite(self, tiny):
        fine("run", tiny, "--out", "first", "--quiet")
        Path("first/notes.txt").write_text("mine")
        fails(2, "first: is not empty.*--force", "run", tiny, "--out", "first", "--quiet")
        fine("run", tiny, "--out", "first", "--quiet", "--force", "--rounds", 2)
        assert pd.read_csv("first/records.csv")["round"].tolist() == [0, 2]
        assert Path("first/notes.txt").read_text() == "mine"

    def test_force_replaces_runs_only(self, tiny):
        Path("thesis").mkdir()
        Path("thesis/records.csv").write_text("precious")
        fails(2, "is not the folder of a run", "run", tiny, "--out", "thesis", "--force")
        fails(2, "is not the folder of a run", "run", tiny, "--out", tiny, "--force")
        assert Path("thesis/records.csv").read_text() == "precious"

    def test_bad_settings_leave_the_earlier_run(self, tiny):
        fine("run", tiny, "--out", "first", "--quiet")
        fails(2, r"local\.lrr: unknown", "run", tiny, "--out", "first", "--force", "--set", "local.lrr=1")
        assert Path("first/records.csv").exists()


class TestFailures:
    def test_settings(self, tiny):
        fails(2, r"absent\.toml: no such file; there: tiny\.toml", "run", "absent.toml")
        fails(2, r"name=value", "run", tiny, "--set", "local.lr")
        fails(
            2, r"cohort Uniform draws 9 different clients, but there are only 4", "run", tiny, "--set", "cohort.size=9"
        )
        tiny.write_text("[local\n")
        fails(2, r"tiny\.toml: is not TOML: .*line 1", "run", tiny)

    def test_diverged(self, tiny):
        result = fails(3, "diverged", "run", tiny, "--set", "local.lr=1e9", "--rounds", 40, "--out", "first")
        assert "diverged at round" in result.stdout
        assert json.loads(Path("first/status.json").read_text())["status"] == "diverged"

    def test_no_data(self, tiny, monkeypatch):
        def absent(_):
            raise DataUnavailable("the files of mnist are not on this machine")

        monkeypatch.setattr("hush.tasks.images.load", absent)
        fails(4, "not on this machine", "run", "--set", "task.name=mnist")

    def test_not_written(self, tiny):
        fails(5, "could not write tiny.toml", "run", tiny, "--out", "tiny.toml/first")

    def test_interrupted(self, tiny, monkeypatch):
        def interrupt(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr(commands, "run_algorithm", interrupt)
        fails(130, "interrupted", "run", tiny)

    def test_our_own_mistakes_are_not_hidden(self, tiny, monkeypatch):
        def mistake(*_, **__):
            raise ZeroDivisionError("ours")

        monkeypatch.setattr(commands, "run_algorithm", mistake)
        assert isinstance(hush("run", tiny).exception, ZeroDivisionError)

    def test_debug_shows_where(self):
        result = hush("--debug", "list", "locl")
        assert result.exit_code == 2
        assert "Traceback" in result.stderr
        fails(2, "unknown slot", "list", "locl")  # and only if asked for


class TestLater:
    def test_resume_ends_as_if_never_interrupted(self, tiny):
        fine("run", tiny, "--out", "whole", "--rounds", 6, "--quiet")
        fine("run", tiny, "--out", "half", "--rounds", 4, "--quiet")
        path = Path("half/settings.toml")
        path.write_text(path.read_text().replace("rounds = 4", "rounds = 6"))
        assert "finished at round 6 of 6" in fine("resume", "half")
        whole, half = (pd.read_csv(f"{name}/records.csv").drop(columns="seconds") for name in ("whole", "half"))
        pd.testing.assert_frame_equal(whole, half)

    def test_report(self, tiny):
        fine("run", tiny, "--out", "first", "--quiet")
        Path("first/report.html").unlink()
        assert fine("report", "first") == "first/report.html\n"
        assert Path("first/report.html").exists()

    def test_compare(self, tiny):
        fine("run", tiny, "--out", "first", "--quiet", "--seeds", 2)
        fine("run", tiny, "--out", "second", "--quiet", "--set", "local.lr=0.2")
        text = fine("compare", "first", "second", "--out", "both")
        page = text.splitlines()[-1]
        assert Path(page).parent == Path("both")
        assert Path(page).exists()
        assert "±" in text

    def test_what_is_no_run(self, tiny):
        for command in ("resume", "report"):
            fails(2, "absent is not the folder of a run: there is no such folder", command, "absent")
        fails(2, "a comparison takes two or more runs, found 1", "compare", "absent")
        Path("empty").mkdir()
        fails(2, "empty is not the folder of a run: it holds neither", "compare", "empty", "empty")

    def test_a_problem_of_ones_own_cannot_be_resumed(self, tiny, quadratic):
        experiment = build(read(tiny))
        run(experiment.algorithm, quadratic, 2, folder="own")
        fails(2, r"task\.name: the problem is the user's own", "resume", "own")

    def test_cite_a_run(self, tiny):
        fine("run", tiny, "--out", "first", "--quiet")
        assert "mcmahan2017communication" in fine("cite", "first")


class TestSettingsFiles:
    def test_there_are_examples(self):
        assert len([path for path in settings_files() if path.parent == ROOT / "examples"]) >= 5

    def test_a_plan_has_a_file_of_its_own_kind(self):
        asked = tomllib.loads((ROOT / "examples" / "planning" / "task.toml").read_text())
        assert build({"algorithm": {"name": "fedavg"}, "task": proxy_of(asked["task"], asked["proxy"])}).task

    @pytest.mark.parametrize("path", settings_files(), ids=named)
    def test_every_settings_file_can_be_read(self, path):
        experiment = build(read(path))
        assert experiment.run.rounds or experiment.run.bit_budget or experiment.run.epsilon

    @pytest.mark.parametrize("path", every_settings_file_but_few_slow(), ids=named)
    def test_every_settings_file_runs(self, path):
        tables = read(path)
        for change in ("run.rounds=2", "run.repetitions=1", "run.evaluate_every=2"):
            tables = override(tables, change)
        if "sample_every" in tables["run"]:
            tables["run"] |= {"sample_every": 1, "warm_up": 0}
        experiment = build(tables)
        try:
            problem = experiment.problem()
        except DataUnavailable as absent:
            pytest.skip(str(absent))
        result = run(experiment.algorithm, problem, **experiment.run.keywords())
        assert result.status["status"] == "finished"


HANGS = 1500  # seconds after which a process has come to a stop for good, however busy the machine


def command(folder, *arguments):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.Popen(
        [sys.executable, "-m", "hush.app.start", *map(str, arguments)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_from_show_to_run_in_processes_of_their_own(tmp_path):
    """What a newcomer does first, with nothing shared between the steps but files."""
    shown = command(tmp_path, "show", "fedavg")
    text, _ = shown.communicate(timeout=HANGS)
    (tmp_path / "my.toml").write_text(text)
    ran = command(tmp_path, "run", "my.toml", "--rounds", 2, "--seeds", 1, "--out", "first")
    out, complaints = ran.communicate(timeout=HANGS)
    assert ran.returncode == 0, complaints
    assert "finished at round 2 of 2" in out
    assert (tmp_path / "first" / "report.html").exists()


@pytest.mark.slow
def test_an_interrupted_process_can_be_resumed(tmp_path):
    (tmp_path / "tiny.toml").write_text(TINY)
    process = command(tmp_path, "run", "tiny.toml", "--rounds", 10_000_000, "--out", "first")
    deadline = time.monotonic() + HANGS
    while not (tmp_path / "first" / "records.csv").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, complaints = process.communicate(timeout=HANGS)
    assert process.returncode == 130
    assert "hush resume first" in complaints
    reached = json.loads((tmp_path / "first" / "status.json").read_text())["round"]
    settings = tmp_path / "first" / "settings.toml"
    settings.write_text(settings.read_text().replace("10000000", str(reached + 2)))
    resumed = command(tmp_path, "resume", "first")
    assert f"finished at round {reached + 2}" in resumed.communicate(timeout=HANGS)[0]

"""What `hush.run` and the commands on run folders are given by mistake, and the sentence that each gets."""

import numpy as np
import pytest
from typer.testing import CliRunner

import hush
from hush.app.main import app

GOOD = hush.fedavg(steps=1, lr=0.05)

PAIRS = [
    (lambda problem: (problem, GOOD), "the algorithm comes first and the problem second, found them the other way"),
    (lambda problem: (None, problem), "the algorithm must be an Algorithm such as .*, found NoneType"),
    (lambda problem: (GOOD, None), "the problem must be a Problem such as .*, found NoneType"),
    (lambda problem: ([GOOD, GOOD], problem), "found a list of 2; run one at a time"),
    (lambda problem: (hush.fedavg, problem), r"found the function fedavg itself; call it: fedavg\(…\)"),
    (lambda problem: (hush.Algorithm, problem), "found the class Algorithm itself"),
    (lambda problem: ("fedavg", problem), "found the text 'fedavg'"),
    (lambda problem: (GOOD, "digits"), "found the text 'digits'"),
    (lambda problem: (GOOD, hush.tasks.digits), "found the function digits itself"),
    (lambda problem: (GOOD, [problem]), "found a list of 1; run one at a time"),
    (lambda problem: (GOOD.local, problem), "found LocalSGD"),
    (lambda problem: (7, problem), "found int: 7"),
]


@pytest.mark.parametrize(("pair", "sentence"), PAIRS)
def test_what_is_run(quadratic, refused, pair, sentence):
    refused(lambda: hush.run(*pair(quadratic), rounds=1, progress=False), sentence)


ASKED = [
    ({}, "a run needs rounds, a bit_budget, or an epsilon or a client_bit_budget at which to stop"),
    ({"rounds": 0}, "rounds must be a whole number of at least 1, found 0"),
    ({"rounds": 2.5}, "rounds must be a whole number of at least 1, found 2.5"),
    ({"rounds": True}, "rounds must be a whole number"),
    ({"rounds": "10"}, "rounds must be a whole number of at least 1, found '10'"),
    ({"rounds": 2**31}, "rounds must be a whole number from 1 to 2147483647"),
    ({"rounds": np.float32(3)}, "rounds must be a whole number"),
    ({"rounds": 2, "evaluate_every": -1}, "evaluate_every must be a whole number of at least 1, found -1"),
    ({"rounds": 2, "evaluate_every": None}, "evaluate_every must be a whole number"),
    ({"rounds": 2, "seed": -1}, "seed must be a whole number of at least 0, found -1"),
    ({"rounds": 2, "seed": 2**64}, "seed must be a whole number from 0 to 18446744073709551615"),
    ({"rounds": 2, "seed": 1.0}, "seed must be a whole number"),
    ({"rounds": 2, "repetitions": 10**9}, "repetitions must be a whole number from 1 to 1000000"),
    ({"rounds": 2, "repetitions": [5 * 10**9]}, "a repetition's number must be a whole number from 0 to 4294967295"),
    ({"rounds": 2, "repetitions": []}, "repetitions must be 1 to 1,000,000 numbers in one list"),
    ({"rounds": 2, "bit_budget": 1}, "a bit_budget of 1 does not pay for one round, which costs 576 bits"),
    ({"rounds": 2, "bit_budget": float("nan")}, "bit_budget must be a positive number, found nan"),
    ({"bit_budget": np.float32(-1)}, "bit_budget must be a positive number, found -1.0"),
    ({"rounds": 2, "capacity": 0}, "capacity must be a positive number, found 0"),
    ({"rounds": 2, "delta": 1.0}, "delta must be a number above 0 and below 1, found 1.0"),
    ({"rounds": 2, "delta": 0}, "delta must be a positive number, found 0"),
    ({"rounds": 2, "epsilon": -3}, "epsilon must be a positive number, found -3"),
    ({"rounds": 2, "epsilon": 1.0}, "an epsilon of 1.0 cannot be kept"),
    ({"rounds": 2, "when_spent": "panic"}, "unknown thing to do when a budget is spent 'panic'"),
    ({"rounds": 2, "unit": "house"}, "house"),
    ({"rounds": 2, "trust": "everybody"}, "everybody"),
    ({"rounds": 2, "watch": "no"}, "watch must be True or False, found 'no'"),
    ({"rounds": 2, "keep_models": 2}, "keep_models must be True or False, found 2"),
    ({"rounds": 2, "progress": "yes"}, "progress must be True or False, found 'yes'"),
    ({"rounds": 2, "sample_every": 0}, "sample_every must be a whole number of at least 1, found 0"),
    ({"rounds": 2, "sample_every": 1, "warm_up": 2}, "the first comes in round 3"),
    ({"rounds": 2, "sample_every": 1, "most_samples": 1}, "most_samples must be a whole number of at least 2"),
    ({"rounds": 2, "warm_up": 1}, "warm_up goes with sample_every"),
    ({"rounds": 2, "folder": ""}, "folder must name a folder, found ''"),
    ({"rounds": 2, "folder": b"run"}, "folder must name a folder, found b'run'"),
    ({"rounds": 2, "folder": "/nowhere/at/all", "resume": True}, "/nowhere/at/all holds no run to resume"),
    ({"rounds": 2, "resume": True}, "resume needs the folder of a run"),
    ({"rounds": 2, "sweep": {"local.lr": []}}, "a sweep over local.lr takes a list of one or more numbers"),
    ({"rounds": 2, "sweep": {"local.lr": [-1.0]}}, "lr must be a positive number, found -1.0"),
    ({"rounds": 2, "sweep": {"local.rate": [1.0]}}, "cannot sweep over 'local.rate'.*did you mean 'local.lr'"),
    ({"rounds": 2, "sweep": [1.0]}, "a list of points holds tables"),
    ({"rounds": 2, "devices": 0}, "devices must be"),
    ({"rounds": 2, "clients_at_once": 1.5}, "clients_at_once must be a whole number"),
]


@pytest.mark.parametrize(("asked", "sentence"), ASKED)
def test_how_it_is_run(quadratic, refused, tmp_path, monkeypatch, asked, sentence):
    monkeypatch.chdir(tmp_path)
    refused(lambda: hush.run(GOOD, quadratic, **({"progress": False} | asked)), sentence)
    assert list(tmp_path.iterdir()) == []


COMMANDS = [
    (["resume", "absent"], 2, "absent is not the folder of a run: there is no such folder"),
    (["report", "absent"], 2, "absent is not the folder of a run: there is no such folder"),
    (["compare", "absent", "empty"], 2, "absent is not the folder of a run"),
    (["compare", "empty"], 2, "a comparison takes two or more runs, found 1"),
    (["report", "empty"], 2, "empty is not the folder of a run: it holds neither"),
    (["report", "file.txt"], 2, "file.txt is not the folder of a run"),
    (["resume", "begun"], 6, "begun lacks settings.toml: its run was ended too early; start it anew"),
    (["report", "begun"], 6, "begun lacks settings.toml"),
    (["resume", "broken"], 2, "broken/settings.toml: is not TOML"),
    (["report", "broken"], 6, "broken/settings.toml cannot be read"),
    (["compare", "broken", "broken"], 6, "broken/settings.toml cannot be read"),
    (["cite", "broken"], 2, "broken/settings.toml: is not TOML"),
    (["run", "--bits", "1"], 2, "a bit_budget of 1 does not pay for one round, which costs"),
    (["run", "--set", "run.unit=house"], 2, "house"),
    (["run", "--set", "run.when_spent=panic"], 2, "panic"),
    (["run", "--out", "notes"], 2, "notes: is not empty; choose another --out"),
    (["run", "--out", "notes", "--force"], 2, "notes: is not the folder of a run, and --force replaces nothing else"),
]


@pytest.mark.parametrize(("arguments", "code", "sentence"), COMMANDS, ids=lambda part: str(part)[:40])
def test_commands_on_folders(tmp_path, monkeypatch, arguments, code, sentence):
    monkeypatch.chdir(tmp_path)
    for name in ("empty", "begun", "broken", "notes"):
        (tmp_path / name).mkdir()
    (tmp_path / "begun/manifest.txt").write_text("# begun\n")
    (tmp_path / "broken/settings.toml").write_text("[local\n")
    (tmp_path / "broken/status.json").write_text("{")
    (tmp_path / "notes/thesis.tex").write_text("mine")
    (tmp_path / "file.txt").write_text("words")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code, (result.output, result.exception)
    said = " ".join(result.stderr.split())
    assert said.count("error: ") == 1
    assert "Traceback" not in said
    assert sentence in said
    assert sorted(path.name for path in tmp_path.rglob("*")) == before

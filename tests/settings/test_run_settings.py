"""How a run is run: one description, whether it comes from Python, from a settings file or from a run folder."""

import dataclasses
import inspect
import json
import tomllib

import numpy as np
import pytest

import hush
from hush.settings import RunSettings, SettingsError, build, dumps, tables_of
from hush.settings.run import run_table
from hush.tasks.metrics import parsed

ALGORITHM = hush.fedavg(steps=1, lr=0.05)
# Of what `hush.run` takes: what is run, where it is written, and what is seen of it.
NOT_HOW = {"algorithm", "problem", "folder", "resume", "replace", "progress", "settings", "on_evaluate"}
# A value of every setting that is not its default.
OTHERS = {
    "rounds": 7,
    "seed": 3,
    "repetitions": (2, 5),
    "evaluate_every": 2,
    "sweep": {"local.lr": [0.1, 0.2]},
    "bit_budget": 1e9,
    "client_bit_budget": 1e8,
    "capacity": 1e6,
    "delta": 1e-6,
    "unit": "client",
    "trust": "local",
    "epsilon": 3.0,
    "when_spent": "retire",
    "metrics": parsed(["f1_macro", "top_5_accuracy"]),
    "evaluate_clients": True,
    "watch": True,
    "keep_models": True,
    "sample_every": 2,
    "warm_up": 1,
    "most_samples": 50,
    "clients_at_once": 1,
    "devices": 1,
    "streamed": True,
}


def test_the_keywords_of_run_are_the_fields_of_the_description():
    taken = inspect.signature(hush.run).parameters
    keywords = {name: taken[name].default for name in taken if name not in NOT_HOW}
    assert keywords == {field.name: field.default for field in dataclasses.fields(RunSettings)}
    assert list(keywords) == [field.name for field in dataclasses.fields(RunSettings)]


def test_both_are_documented_in_full():
    for said in (inspect.getdoc(hush.run), inspect.getdoc(RunSettings)):
        first_words = {word.strip(",") for line in said.splitlines() for word in line.split("  ")[0].split()}
        assert first_words >= {field.name for field in dataclasses.fields(RunSettings)}


def test_run_hands_on_everything_it_is_asked(quadratic, monkeypatch):
    class Seen(Exception):
        pass

    def seen(**asked):
        raise Seen(asked)

    assert all(OTHERS[field.name] != field.default for field in dataclasses.fields(RunSettings))
    monkeypatch.setattr("hush.runs.run.RunSettings", seen)
    with pytest.raises(Seen) as caught:
        hush.run(ALGORITHM, quadratic, **OTHERS, progress=False)
    assert caught.value.args[0] == OTHERS


def test_a_settings_file_says_all_of_it():
    asked = RunSettings(**OTHERS)
    tables = tomllib.loads(dumps(tables_of(ALGORITHM, None, asked)))
    assert set(tables["run"]) == set(OTHERS) - {"sweep"} == set(run_table())
    assert build(tables).run == asked
    assert asked.keywords() == OTHERS


def test_what_the_folder_records_is_what_was_asked(quadratic, tmp_path):
    asked = {"seed": 4, "repetitions": np.arange(2), "evaluate_every": 3, "clients_at_once": 1, "capacity": 1e6}
    hush.run(ALGORITHM, quadratic, 3, **asked, folder=tmp_path / "run", progress=False)
    recorded = tomllib.loads((tmp_path / "run" / "settings.toml").read_text())["run"]
    assert RunSettings(**recorded) == RunSettings(rounds=3, **asked)


REFUSED = [
    {"rounds": 0},
    {"evaluate_every": 0},
    {"seed": -1},
    {"repetitions": [1, 1]},
    {"bit_budget": 0.0},
    {"client_bit_budget": -1.0},
    {"capacity": -1.0},
    {"epsilon": 0.0},
    {"delta": 1.0},
    {"when_spent": "panic"},
    {"warm_up": 1},
    {"most_samples": 1},
    {"rounds": 2, "sample_every": 2, "warm_up": 1},
    {"metrics": "roc_auc"},
    {"metrics": ["roc_acu"]},
    {"metrics": {"bad name": "roc_auc"}},
    {"clients_at_once": 0},
    {"devices": 0},
]


@pytest.mark.parametrize("asked", REFUSED, ids=json.dumps)
def test_python_and_a_settings_file_refuse_in_the_same_words(quadratic, asked):
    with pytest.raises(ValueError, match=r".") as said:
        hush.run(ALGORITHM, quadratic, **({"rounds": 2} | asked), progress=False)
    with pytest.raises(SettingsError) as written:
        build({"algorithm": {"name": "fedavg"}, "run": {"rounds": 2} | asked})
    assert str(written.value) == f"run: {said.value}"


class TestIdentity:
    def test_what_makes_a_run_the_run_it_is(self):
        """By plain comparison: a changed setting changes the identity or it does not."""
        plain = RunSettings(rounds=9, sample_every=1)
        always, retiring = set(), set()
        for name, value in OTHERS.items():
            changed = dataclasses.replace(plain, **{name: value})
            if changed.identity(retiring=False) != plain.identity(retiring=False):
                always.add(name)
            if changed.identity(retiring=True) != plain.identity(retiring=True):
                retiring.add(name)
        samples = {"sample_every", "warm_up", "most_samples"}
        assert always == {"seed", "repetitions", "sweep", "watch", "keep_models"} | samples
        assert retiring - always == {"epsilon", "delta", "unit", "trust", "client_bit_budget"}

    def test_repetitions_are_known_by_their_numbers(self):
        def of(repetitions):
            return RunSettings(rounds=1, repetitions=repetitions).identity(retiring=False)["repetitions"]

        assert of(3) == of([0, 1, 2]) == of(range(3)) == of(np.int64(3)) == 3
        assert of([0, 2]) == of(np.array([0, 2])) == "[0, 2]"

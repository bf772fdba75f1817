"""Names of algorithms: kept as long as they are true, from Python and from a file, and no part of what is computed."""

import tomllib
from dataclasses import replace

import equinox as eqx
import pytest

import hush
from hush.algorithms import ALGORITHMS
from hush.core.algorithm import name_of
from hush.core.paths import at_point
from hush.network.agreement import agree
from hush.settings import RunSettings, SettingsError, build, default_tables, dumps, read, tables_of
from hush.settings.tables import slots_of
from hush.store.fingerprint import fingerprint

FEDAVG = {"algorithm": {"name": "fedavg", "clients": 4, "steps": 3, "batch": 8}}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_is_called_by_its_name_and_again_when_it_is_built_from_its_slots(name):
    algorithm = build(default_tables(name)).algorithm
    tables = tables_of(algorithm)
    assert tables.pop("algorithm") == {"called": name}
    assert tables == slots_of(algorithm)
    again = build(tomllib.loads(dumps(tables_of(algorithm))))
    assert again.algorithm == algorithm
    assert (name_of(again.algorithm), again.name) == (name, name)


def test_other_numbers_keep_the_name_and_other_pieces_lose_it():
    made = hush.fedavg(clients=4, steps=3, lr=0.1)
    for same in (
        at_point(made, {"local.lr": 0.5}),
        replace(made, cohort=hush.cohort.Uniform(9)),
        replace(made, local=replace(made.local, lr=0.3, steps=7)),
    ):
        assert name_of(same) == "fedavg"
    quantised = (hush.uplink.QSGD(2),)
    for other in (
        replace(made, uplink=quantised),
        eqx.tree_at(lambda algorithm: algorithm.uplink, made, quantised),
        replace(made, server=hush.server.Optimiser("adam", {"learning_rate": 0.1})),
        replace(made, local=replace(made.local, direction=(hush.local.Proximal(0.1),))),
        hush.Algorithm(made.cohort, made.local, made.uplink, made.channel, made.server),
        hush.core.algorithm.InTurn((made,)),
    ):
        assert name_of(other) == ""
        assert "algorithm" not in tables_of(other)
    assert name_of(replace(replace(made, uplink=quantised), uplink=())) == "fedavg"


def test_slots_put_over_a_named_algorithm():
    assert name_of(build(FEDAVG | {"local": {"lr": 0.5}, "cohort": {"size": 2}}).algorithm) == "fedavg"
    found = build(FEDAVG | {"uplink": [{"piece": "qsgd", "levels": 2}]})
    assert (name_of(found.algorithm), found.name) == ("", "fedavg")


def test_a_name_is_text_and_makes_no_algorithm():
    slots = slots_of(hush.fedavg(steps=1))
    mine = build({"algorithm": {"called": "mine"}} | slots)
    assert (name_of(mine.algorithm), mine.name) == ("mine", "mine")
    assert tables_of(mine.algorithm)["algorithm"] == {"called": "mine"}
    with pytest.raises(SettingsError, match=r"algorithm\.called: must be text, found 3"):
        build({"algorithm": {"called": 3}} | slots)
    with pytest.raises(SettingsError, match="algorithm: is missing; a table with a name"):
        build({"algorithm": {"called": "fedavg"}})
    with pytest.raises(SettingsError, match=r"algorithm\.called: unknown field"):
        build({"algorithm": {"called": "mine", "name": "fedavg"}})


def test_a_name_is_no_part_of_a_run_nor_of_what_devices_agree_to(unequal):
    made = hush.fedavg(clients=2, steps=1)
    bare = build(slots_of(made)).algorithm
    assert (name_of(made), name_of(bare)) == ("fedavg", "")
    assert made == bare
    assert hash(made.called) == hash(bare.called)
    before, now = (fingerprint(each, unequal, {"seed": 0}) for each in (made, bare))
    assert before.texts == now.texts
    run = RunSettings(rounds=3)
    assert agree(made, unequal, run).text == agree(bare, unequal, run).text


def test_a_folder_keeps_the_name_through_resuming(quadratic, unpainted, tmp_path):
    made = hush.distributed_sgd(lr=0.1)
    for rounds in (1, 2):
        hush.run(made, quadratic, rounds, folder=tmp_path / "run", resume=rounds > 1, progress=False)
        assert read(tmp_path / "run" / "settings.toml")["algorithm"] == {"called": "distributed_sgd"}

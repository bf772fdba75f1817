"""Settings: what is described can be built again, and what cannot be used is refused where it stands."""

import dataclasses
import tomllib

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest

from hush.algorithms import ALGORITHMS, fedavg, feddane, fedprox, scaffold
from hush.channel import Noisy
from hush.cohort import COHORTS, Everyone, Poisson, SchemeI, Uniform
from hush.core.algorithm import Algorithm
from hush.core.contract import Stage
from hush.core.grid import Grid
from hush.core.schedules import SCHEDULES, InverseTime, Optax, StronglyConvex
from hush.local import ClippedPerExample, Gradient, LocalSGD, Proximal, Shuffled, WeightDecay
from hush.server import Optimiser
from hush.settings import (
    Experiment,
    RunSettings,
    SettingsError,
    build,
    default_tables,
    dumps,
    override,
    read,
    tables_of,
)
from hush.settings.defaults import NEEDED
from hush.settings.schema import TABLES, name_of, schema
from hush.tasks import TASKS, digits, linear_regression
from hush.uplink import Clip, GridGaussian

FEDAVG = {"algorithm": {"name": "fedavg", "clients": 4, "steps": 3, "batch": 8}}
PIECES = {"cohort": {"piece": "uniform", "size": 4}, "local": {"piece": "sgd", "lr": 0.1, "steps": 3}}


def there_and_back(algorithm):
    """The tables of an algorithm, once they have been text and an algorithm again."""
    tables = tables_of(algorithm)
    again = build(tomllib.loads(dumps(tables))).algorithm
    assert again == algorithm
    assert tables_of(again) == tables
    return tables


class OwnStage(Stage):
    """A user's own piece."""

    strength: float = 2.0

    def __call__(self, key, vector, state):
        return vector, state, {}


def halving(count):
    """A user's own schedule."""
    return 0.5**count


class TestRoundTrip:
    @pytest.mark.parametrize("name", ALGORITHMS)
    def test_every_algorithm(self, name):
        needed = NEEDED.get(name, {})
        if "clients" in schema(ALGORITHMS[name]):
            there_and_back(ALGORITHMS[name](clients=5, **needed))
        if name not in ("dp_fedavg", "secure_dp_fedavg"):  # which must know how many there are
            there_and_back(ALGORITHMS[name](**needed))

    def test_there_are_six_algorithms(self):
        assert len(ALGORITHMS) >= 6

    @pytest.mark.parametrize(
        "rate",
        [
            InverseTime(0.3, 50.0),
            StronglyConvex(0.5, 8.0),
            Optax("cosine_decay_schedule", {"init_value": 0.1, "decay_steps": 100}),
            Optax("piecewise_constant_schedule", {"init_value": 0.1, "boundaries_and_scales": {10: 0.5, 20: 0.1}}),
        ],
    )
    def test_schedules(self, rate):
        tables = there_and_back(fedavg(clients=5, lr=rate, server_lr=rate))
        assert tables["local"]["lr"] == tables["server"]["lr"]
        again = build(tables).algorithm.local.lr
        assert again(jnp.int32(7)) == rate(jnp.int32(7))

    def test_optimiser_with_a_schedule_in_its_settings(self):
        schedule = InverseTime(0.1, 10.0)
        server = Optimiser("sgd", {"learning_rate": schedule, "momentum": 0.9, "nesterov": True})
        tables = there_and_back(Algorithm(Everyone(), Gradient(), server=server))
        assert tables["server"]["settings"]["learning_rate"]["piece"] == "inverse_time"
        assert tables["server"]["settings"]["nesterov"] is True

    def test_chains_and_wrapped_pieces(self):
        turns = (WeightDecay(0.01), Proximal(0.5))
        local = LocalSGD(0.1, epochs=2, batches=Shuffled(8), direction=turns, send="model")
        tables = there_and_back(Algorithm(Poisson(0.5), local, uplink=(Clip(1.0), Clip(0.5))))
        assert [stage["bound"] for stage in tables["uplink"]] == [1.0, 0.5]
        assert [turn["piece"] for turn in tables["local"]["direction"]] == ["weight_decay", "proximal"]
        assert "steps" not in tables["local"]  # None is left out
        assert "needs" not in tables["local"]["direction"][0]  # so is what cannot be set
        assert there_and_back(scaffold(clients=3))["local"]["inner"]["piece"] == "sgd"

    def test_grids(self):
        oracle = ClippedPerExample(1.0, 0.5, grid=Grid(16))
        local = LocalSGD(0.1, steps=1, oracle=oracle)
        tables = there_and_back(Algorithm(Uniform(3), local, uplink=(GridGaussian(1.0, 8.0, Grid(12, "system")),)))
        assert tables["uplink"][0]["grid"] == {"piece": "grid", "bits": 12, "source": "system"}
        tables["local"]["oracle"]["grid"] = {"bits": 8}  # there is but one kind of grid
        assert build(tables).algorithm.local.oracle.grid == Grid(8)
        tables = there_and_back(Algorithm(Uniform(3), LocalSGD(0.1, steps=1), channel=Noisy(0.5, grid=Grid(12))))
        assert tables["channel"]["grid"] == {"piece": "grid", "bits": 12, "source": "address"}
        tables["channel"]["grid"] = {"bits": 8}
        assert build(tables).algorithm.channel == Noisy(0.5, grid=Grid(8))
        assert "grid" not in tables_of(Algorithm(Uniform(3), local, channel=Noisy(0.5)))["channel"]

    def test_phases(self):
        tables = there_and_back(feddane(clients=5))
        assert [phase["server"]["piece"] for phase in tables["phases"]] == ["gather", "add"]
        assert "cohort" not in tables

    @pytest.mark.parametrize("name", COHORTS)
    def test_a_name_of_a_table_names_its_class(self, name):
        needed = {"size": 3, "rate": 0.5}
        taken = {field: value for field, value in needed.items() if field in schema(COHORTS[name])}
        found = build(PIECES | {"cohort": {"piece": name} | taken})
        assert type(found.algorithm.cohort) is COHORTS[name]

    def test_every_piece_has_one_name(self):
        for table in (*TABLES.values(), SCHEDULES):
            assert table
            for kind in table.values():
                assert table[name_of(object.__new__(kind))] is kind

    @pytest.mark.parametrize(
        "problem",
        [
            lambda: digits(5, classes_per_client=3, model="mlp", model_options={"hidden": (8, 4)}),
            lambda: linear_regression(4, 10, 3, noise=0.5),
        ],
    )
    def test_tasks(self, problem):
        tables = tables_of(fedavg(), problem())
        found = build(tomllib.loads(dumps(tables)))
        assert tables_of(found.algorithm, found.problem()) == tables

    def test_run_and_sweep(self):
        run = RunSettings(rounds=7, repetitions=(2, 5), keep_models=True, sweep={"local.lr": [1, 0.5]})
        tables = tables_of(fedavg(lr=0.1), None, run)
        assert tables["sweep"] == {"local.lr": [1.0, 0.5]}
        found = build(tomllib.loads(dumps(tables)))
        assert found.run == run
        assert found.tables == tables


class TestOwnPieces:
    def test_built_again_only_where_it_is_asked_for(self, tmp_path):
        algorithm = Algorithm(Uniform(3), Gradient(), uplink=(OwnStage(3.0),))
        tables = tables_of(algorithm)
        assert tables["uplink"] == [{"piece": f"{__name__}:OwnStage", "strength": 3.0}]
        with pytest.raises(SettingsError, match=r"^uplink\.0\.piece: .*OwnStage' is of somebody's own making"):
            build(tables)
        assert build(tomllib.loads(dumps(tables)), beside=tmp_path).algorithm == algorithm

    def test_a_function_as_a_step_size(self, tmp_path):
        tables = tables_of(fedavg(lr=optax.constant_schedule(0.1)))
        assert "constant_schedule" in tables["local"]["lr"]["piece"]
        with pytest.raises(SettingsError, match=r"^local\.lr\.piece: .*inside a function.*resume=True"):
            build(tables, beside=tmp_path)
        named = tables_of(fedavg(lr=halving))
        assert build(named, beside=tmp_path).algorithm.local.lr is halving

    def test_a_problem_of_ones_own(self, unequal, quadratic):
        for problem in (unequal, quadratic):
            found = build(tables_of(fedavg(), problem))
            assert found.task == {"name": "own"}
            with pytest.raises(SettingsError, match="own"):
                found.problem()

    def test_arrays_become_numbers(self):
        assert tables_of(fedavg(lr=jnp.float32(0.5)))["local"]["lr"] == 0.5


class TestPresets:
    def test_the_same_as_calling_it(self):
        assert build(FEDAVG).algorithm == fedavg(clients=4, steps=3, batch=8)
        assert build(FEDAVG).name == "fedavg"

    def test_a_whole_number_is_a_number(self):
        rate = build(FEDAVG | {"local": {"lr": 1}}).algorithm.local.lr
        assert (rate, type(rate)) == (1.0, float)

    def test_one_field_changes_alone(self):
        changed = build(FEDAVG | {"local": {"lr": 0.05, "batches": {"size": 4}}}).algorithm
        assert changed == fedavg(clients=4, steps=3, batch=4, lr=0.05)
        assert build(FEDAVG | {"local": {"piece": "sgd", "lr": 0.05}}).algorithm.local.steps == 3

    def test_another_piece_starts_from_nothing(self):
        assert build(FEDAVG | {"cohort": {"piece": "everyone"}}).algorithm.cohort == Everyone()
        assert build(FEDAVG | {"cohort": "everyone"}).algorithm.cohort == Everyone()
        with pytest.raises(SettingsError, match=r"^cohort\.rate: is missing; it must be a number"):
            build(FEDAVG | {"cohort": {"piece": "poisson"}})

    def test_entries_of_arrays_by_their_number(self):
        prox = {"algorithm": {"name": "fedprox", "clients": 4}}
        assert build(prox | {"local": {"direction": {"0": {"mu": 0.5}}}}).algorithm == fedprox(clients=4, mu=0.5)
        dane = {"algorithm": {"name": "feddane", "clients": 4}, "phases": {"1": {"local": {"lr": 0.5}}}}
        assert build(dane).algorithm == feddane(clients=4, lr=0.5)
        with pytest.raises(SettingsError, match=r"^local\.direction\.3: there are only 1"):
            build(prox | {"local": {"direction": {"3": {"mu": 0.5}}}})

    def test_a_stage_more(self):
        assert build(FEDAVG | {"uplink": [{"piece": "clip", "bound": 2}]}).algorithm.uplink == (Clip(2.0),)

    def test_slots_beside_phases(self):
        with pytest.raises(SettingsError, match=r"^local: feddane has 2 phases.*phases\.1\.local"):
            build({"algorithm": {"name": "feddane"}, "local": {"lr": 0.1}})

    @pytest.mark.parametrize("name", ALGORITHMS)
    def test_defaults(self, name):
        found = build(default_tables(name))
        assert found.run.rounds == (200 if name == "fa_ld" else 60)
        assert found.problem().population.clients == 20


REFUSED = [
    ({"locl": {}}, r"^locl: unknown table; did you mean 'local'\? known: algorithm,"),
    ({"algorithm": {"name": "fedavgg"}}, r"^algorithm\.name: unknown algorithm 'fedavgg'; did you mean 'fedavg'"),
    ({"algorithm": {"clients": 3}}, r"^algorithm\.name: is missing; known: "),
    ({"algorithm": "fedavg"}, r"^algorithm: must be a table, found 'fedavg'"),
    ({"algorithm": {"name": "fedavg", "step": 3}}, r"^algorithm\.step: unknown field; did you mean 'steps'"),
    ({}, r"^algorithm: is missing"),
    (PIECES | {"local": {"piece": "sdg"}}, r"^local\.piece: unknown piece 'sdg'; did you mean 'sgd'\? known: "),
    (
        PIECES | {"local": {"lr": 0.1}},
        r"^local\.piece: is missing; known: beside, clipped_to_broadcast, dynamic, gradient, ",
    ),
    (PIECES | {"local": {"piece": "sgd", "steps": 3}}, r"^local\.lr: is missing; it must be a number or a table"),
    (PIECES | {"local": {"piece": "sgd", "lr": 0.1}}, r"^local: local training takes either steps or epochs"),
    (PIECES | {"local": 3}, r"^local: must be a table with a piece .*found 3 \(a whole number\)"),
    (PIECES | {"cohort": {"piece": "uniform", "size": 2.5}}, r"^cohort\.size: must be a whole number, found 2\.5"),
    (PIECES | {"cohort": {"piece": "uniform", "size": True}}, r"^cohort\.size: .*found true"),
    (PIECES | {"cohort": {"piece": "uniform", "size": 0}}, r"^cohort: cohort size must be a whole number"),
    (PIECES | {"cohort": {"piece": "uniform", "size": 2, "sizes": 2}}, r"^cohort\.sizes: unknown field of uniform"),
    (PIECES | {"uplink": {"piece": "clip"}}, r"^uplink: must be an array, each a table with a piece \(clip"),
    (PIECES | {"uplink": [{"piece": "clip"}]}, r"^uplink\.0\.bound: is missing"),
    (PIECES | {"uplink": [{"piece": "clip", "bound": "a"}]}, r"^uplink\.0\.bound: must be a number, found 'a'"),
    (PIECES | {"server": "add_with_control"}, r"^server AddWithControl works from \['control'\]"),
    (PIECES | {"phases": [PIECES]}, r"^cohort: an algorithm has either phases or slots"),
    ({"phases": PIECES}, r"^phases: must be an array of tables"),
    ({"phases": [{"local": PIECES["local"]}]}, r"^phases\.0\.cohort: is missing"),
    ({"phases": [PIECES | {"task": {}}]}, r"^phases\.0\.task: unknown slot"),
    (FEDAVG | {"local": {"lr": {"piece": "inverse_time"}}}, r"^local\.lr\.initial: is missing"),
    (FEDAVG | {"local": {"lr": -1.0}}, r"^local: lr must be a positive number, found -1"),
    (FEDAVG | {"server": {"piece": "optimiser", "name": "adm", "settings": {}}}, r"^server: unknown optax.*'adam"),
    (FEDAVG | {"run": {"round": 3}}, r"^run\.round: unknown field; did you mean 'rounds'"),
    (FEDAVG | {"run": {"rounds": 0}}, r"^run: rounds must be a whole number of at least 1, found 0"),
    (FEDAVG | {"run": {"seed": -1}}, r"^run: seed"),
    (FEDAVG | {"run": {"repetitions": [1, 1]}}, r"^run: repetitions must be .*different"),
    (FEDAVG | {"run": {"repetitions": "many"}}, r"^run\.repetitions: must be a whole number or an array"),
    (FEDAVG | {"run": {"devices": 0}}, r"^run: devices"),
    (FEDAVG | {"task": {"name": "digit"}}, r"^task\.name: unknown task 'digit'; did you mean 'digits'"),
    (FEDAVG | {"task": {"clients": 3}}, r"^task\.name: is missing"),
    (FEDAVG | {"task": {"name": "digits", "client": 3}}, r"^task\.client: unknown setting of digits; .*'clients'"),
    (FEDAVG | {"task": {"name": "digits", "clients": "3"}}, r"^task\.clients: must be a whole number, found '3'"),
    (FEDAVG | {"task": {"name": "digits", "model": "lenet"}}, r"^task\.model: unknown model 'lenet'; .*'lenet5'"),
    (
        FEDAVG | {"task": {"name": "digits", "model": "mlp", "model_options": {"hiden": 3}}},
        r"^task\.model_options\.hiden: unknown option of mlp; did you mean 'hidden'",
    ),
    (FEDAVG | {"sweep": {"local.lrr": [0.1]}}, r"^sweep\.local\.lrr: no such number.*did you mean 'local\.lr'"),
    (FEDAVG | {"sweep": {"local": {"lr": 0.1}}}, r"^sweep\.local\.lr: must be an array of one or more numbers"),
    (FEDAVG | {"sweep": {"local.lr": ["a"]}}, r"^sweep\.local\.lr\.0: must be a number"),
    (
        FEDAVG | {"sweep": {"cohort.size": [10, 20]}},
        r"^sweep\.cohort\.size: is a whole number \(4 here\), each value .* program.*--set cohort\.size=4 --out",
    ),
    (FEDAVG | {"sweep": {"local": {"pace": ["step"]}}}, r"^sweep\.local\.pace: is a name .*hush compare"),
]


class TestRefusals:
    @pytest.mark.parametrize(("tables", "message"), REFUSED)
    def test_says_where_and_what(self, tables, message):
        with pytest.raises(SettingsError, match=message):
            build(tables)

    def test_what_only_the_task_knows(self):
        found = build(FEDAVG | {"task": {"name": "digits", "clients": 4, "dirichlet": 0.1, "power_law": 1.0}})
        with pytest.raises(SettingsError, match=r"^task: a partition is of one kind"):
            found.problem()

    def test_no_task(self):
        with pytest.raises(SettingsError, match=r"^task: is missing"):
            build(FEDAVG).problem()

    def test_it_is_a_value_error_with_a_place(self):
        with pytest.raises(ValueError, match="locl") as caught:
            build({"locl": {}})
        assert caught.value.place == "locl"


class TestSweep:
    def test_both_ways_to_write_it(self):
        swept = {"local.lr": [0.1, 1.0], "server.lr": [1.0]}
        assert build(FEDAVG | {"sweep": {"local.lr": [0.1, 1], "server": {"lr": [1]}}}).run.sweep == swept
        assert build(FEDAVG).run.sweep is None

    def test_settings_of_an_optimiser(self):
        tables = {"algorithm": {"name": "fedadam"}, "sweep": {"server": {"settings": {"learning_rate": [0.1, 0.2]}}}}
        assert build(tables).run.sweep == {"server.settings.learning_rate": [0.1, 0.2]}


class TestFiles:
    def test_read(self, tmp_path):
        path = tmp_path / "my.toml"
        path.write_text(dumps(default_tables()))
        assert read(path) == default_tables()

    def test_a_syntax_error_names_file_and_line(self, tmp_path):
        path = tmp_path / "my.toml"
        path.write_text('[local]\nlr = 0.1\nsteps 3\n"')
        with pytest.raises(SettingsError, match=r"my\.toml: is not TOML: .*line 3"):
            read(path)

    def test_files_that_are_none(self, tmp_path):
        (tmp_path / "other.toml").write_text("")
        with pytest.raises(SettingsError, match=r"no such file; there: other\.toml"):
            read(tmp_path / "my.toml")
        with pytest.raises(SettingsError, match="folder"):
            read(tmp_path)
        (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(SettingsError, match="not a text file"):
            read(tmp_path / "bytes.toml")

    def test_strings_survive(self):
        tables = {"a": {"b": 'quo"te\\', "c": "ζ\n", "d": [], "e": 1e-300, "f": True}}
        assert tomllib.loads(dumps(tables)) == tables


class TestOverride:
    @pytest.mark.parametrize(
        ("assignment", "value"),
        [
            ("a.b=0.05", 0.05),
            ("a.b = 3", 3),
            ("a.b=true", True),
            ("a.b=subset", "subset"),
            ('a.b="3"', "3"),
            ("a.b=[1, 2.0]", [1, 2.0]),
            ('a.b={piece = "full"}', {"piece": "full"}),
            ("a.b=x=y", "x=y"),
            ("a.b=1\nc = 2", "1\nc = 2"),
        ],
    )
    def test_values(self, assignment, value):
        changed = override({}, assignment)["a"]["b"]
        assert (changed, type(changed)) == (value, type(value))

    def test_leaves_the_original_alone(self):
        tables = {"local": {"lr": 0.1, "direction": [{"piece": "proximal", "mu": 1.0}]}}
        changed = override(tables, "local.direction.0.mu=0.5")
        assert changed["local"] == {"lr": 0.1, "direction": [{"piece": "proximal", "mu": 0.5}]}
        assert tables["local"]["direction"][0]["mu"] == 1.0
        assert override(tables, "local.direction.0=3")["local"]["direction"] == [3]

    @pytest.mark.parametrize(
        ("assignment", "message"),
        [
            ("local.lr", "name=value"),
            ("=3", "name=value"),
            ("local..lr=3", "name=value"),
            ("local.lr=", "name=value"),
            ("local.lr.x=3", r"^local\.lr: is no table .*found 0\.1"),
            ("local.direction.1.mu=3", r"^local\.direction\.1: is in an array of 1, counted from 0, found '1'"),
            ("local.direction.mu=3", r"^local\.direction\.mu: .*found 'mu'"),
            ("local.lr=[1, ", r"^local\.lr: is not a TOML value"),
        ],
    )
    def test_refusals(self, assignment, message):
        with pytest.raises(SettingsError, match=message):
            override({"local": {"lr": 0.1, "direction": [{"mu": 1.0}]}}, assignment)

    def test_reaches_into_a_preset(self):
        tables = override({"algorithm": {"name": "fedprox"}}, "local.direction.0.mu=0.25")
        assert build(tables).algorithm == fedprox(mu=0.25)
        tables = override(FEDAVG, "sweep.local.lr=[0.1, 0.2]")
        assert build(tables).run.sweep == {"local.lr": [0.1, 0.2]}


class TestSchema:
    def test_only_what_can_be_set(self):
        fields = schema(LocalSGD)
        assert list(fields) == ["lr", "steps", "epochs", "batches", "direction", "oracle", "optimiser", "send", "pace"]
        assert [name for name, field in fields.items() if field.required] == ["lr"]

    def test_the_default_of_a_factory(self):
        assert schema(Optax)["settings"].default == {}

    def test_every_type_that_a_piece_declares_can_be_given(self):
        """A piece with a field of a type that settings cannot express would be out of reach of every settings file."""
        from hush.settings.values import words

        for table in (*TABLES.values(), SCHEDULES, ALGORITHMS, TASKS):
            for name, made_by in table.items():
                for field in schema(made_by).values():
                    assert "<" not in words(field.hint), (name, field)

    def test_scheme_i_is_a_draw_by_weight(self):
        assert tables_of(Algorithm(SchemeI(3), Gradient()))["cohort"]["piece"] == "by_weight"

    def test_an_experiment_is_frozen(self):
        with pytest.raises(dataclasses.FrozenInstanceError):
            build(FEDAVG).run = {}
        assert isinstance(build(FEDAVG), Experiment)
        assert isinstance(build(FEDAVG).algorithm, eqx.Module)
        assert jax.tree.leaves(build(FEDAVG).algorithm)

"""Pieces, tasks and algorithms of one's own in a settings file, by `module:name`; and where nothing is imported."""

import sys
import tomllib
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.app import commands
from hush.core.contract import Stage
from hush.network.agreement import Agreement, agree
from hush.settings import RunSettings, SettingsError, build, dumps, read, tables_of
from hush.settings.own import import_nothing, importing
from hush.store.files import SETTINGS

PIECES = '''
"""Pieces of somebody's own."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import hush
from hush.core.contract import Channel, Cohort, Draw, LocalRule, Mixing, ServerRule, Stage

LOADED = "once"


class Round(Stage):
    grid: float
    bits: int = eqx.field(static=True, default=8)
    table: jax.Array | None = None

    def __call__(self, key, vector, state):
        return self.grid * jnp.round(vector / self.grid), state, {"bits": self.bits * vector.size}


class First(Cohort):
    size: int = eqx.field(static=True)

    def places(self, clients):
        return self.size

    def __call__(self, key, population, number=0):
        here = jnp.arange(self.size)
        return Draw(here, jnp.full(self.size, 1 / self.size), here >= 0, jnp.float32(1))


class Pull(LocalRule):
    lr: float = 0.1
    needs = ("model",)
    sends = ("update",)

    def __call__(self, key, broadcast, memory, data):
        gradient = data.gradient(data.unravel(broadcast["model"]), jnp.arange(2), jnp.ones(2) / 2)
        return {"update": -self.lr * gradient}, memory, {"steps": jnp.int32(1)}


class Plain(Channel):
    def __call__(self, key, draw, number, statistics):
        return Mixing(draw.weights * draw.active, 0.0)


class Step(ServerRule):
    inner: ServerRule = hush.server.Add()
    provides = ("model",)
    receives = ("update",)

    def init(self, model):
        return self.inner.init(model)

    def __call__(self, key, state, received, coverage):
        return self.inner(key, state, received, coverage)


class Group:
    class Inner(Plain):
        pass


def task(clients: int = 4, spread: float = 1.0):
    draws = np.random.default_rng(0)
    return hush.tasks.quadratic(draws.normal(size=(clients, 2, 3)), spread * draws.normal(size=(clients, 2)))


def slow(clients: int, *stages, lr=0.1):
    return hush.Algorithm(First(clients), Pull(lr))


def halving(count):
    return 0.5 ** (count + 1)


def broken(clients=3):
    raise KeyError("lost")


class Fussy(Stage):
    strength: float

    def __check_init__(self):
        raise ValueError("never strong enough")

    def __call__(self, key, vector, state):
        return vector, state, {}


class Hidden(Stage):
    strength: "Nowhere"

    def __call__(self, key, vector, state):
        return vector, state, {}


class Unfinished(Stage):
    pass


number = 3
'''

FILE = """
[task]
name = "mine:task"
clients = 5

[cohort]
piece = "mine:First"
size = 3

[local]
piece = "mine:Pull"
lr = 0.05

[[uplink]]
piece = "mine:Round"
grid = 1  # a whole number is a number
table = [[1.0, 2.0], [3.0, 4.0]]

[channel]
piece = "mine:Group.Inner"

[server]
piece = "mine:Step"
inner = { piece = "add", lr = { piece = "mine:halving" } }

[run]
rounds = 2
evaluate_every = 1
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a module `mine` and a settings file, and a working directory elsewhere."""
    (tmp_path / "home").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "home" / "mine.py").write_text(PIECES)
    (tmp_path / "home" / "my.toml").write_text(FILE)
    monkeypatch.chdir(tmp_path / "elsewhere")
    before = list(sys.path)
    yield tmp_path / "home"
    assert sys.path == before
    sys.modules.pop("mine", None)


def test_every_slot_and_the_task(folder):
    found = build(read(folder / "my.toml"), beside=folder)
    mine = sys.modules["mine"]
    algorithm = found.algorithm
    kinds = [type(piece) for piece in (algorithm.cohort, algorithm.local, *algorithm.uplink, algorithm.server)]
    assert kinds == [mine.First, mine.Pull, mine.Round, mine.Step]
    assert type(algorithm.channel) is mine.Group.Inner
    stage = algorithm.uplink[0]
    assert (stage.grid, type(stage.grid), stage.bits) == (1.0, float, 8)
    np.testing.assert_array_equal(stage.table, [[1, 2], [3, 4]])
    assert algorithm.server.inner.lr is mine.halving
    assert found.problem().population.clients == 5
    assert (found.name, found.task["name"]) == ("mine:Pull", "mine:task")
    again = build(tomllib.loads(dumps(found.tables)), beside=folder)
    assert again.tables == found.tables


def test_the_working_directory_will_do(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    assert build(read("my.toml"), beside=tmp_path / "elsewhere").algorithm.cohort.size == 3


def test_an_algorithm_of_ones_own(folder):
    tables = {"algorithm": {"name": "mine:slow", "clients": 2, "lr": 0.5}}
    found = build(tables, beside=folder)
    assert (found.algorithm.cohort.size, found.algorithm.local.lr) == (2, 0.5)
    changed = build(tables | {"local": {"lr": 0.25}, "uplink": ["mine:Plain"][:0]}, beside=folder)
    assert changed.algorithm.local == type(found.algorithm.local)(0.25)


REFUSED = [
    ({"uplink": [{"piece": "mine:Round"}]}, r"^uplink\.0\.grid: is missing; it must be a number"),
    ({"uplink": [{"piece": "mine:Round", "grid": "a"}]}, r"^uplink\.0\.grid: must be a number, found 'a'"),
    ({"uplink": [{"piece": "mine:Round", "gird": 1.0}]}, r"^uplink\.0\.gird: unknown field of mine:Round; did you"),
    (
        {"uplink": [{"piece": "mine:Round", "grid": 1.0, "table": [[1.0], [1.0, 2.0]]}]},
        r"table: must be numbers in rows",
    ),
    ({"uplink": [{"piece": "mine:Rond", "grid": 1.0}]}, r"^uplink\.0\.piece: .* is not there: did you mean 'Round'"),
    (
        {"uplink": ["mine:Plain"]},
        r"^uplink\.0\.piece: 'mine:Plain' must be a class of the kind Stage, found the class P",
    ),
    ({"uplink": ["mine:number"]}, r"^uplink\.0\.piece: .* must be a class of the kind Stage, found int"),
    ({"uplink": ["mine:task"]}, r"^uplink\.0\.piece: .* must be a class of the kind Stage, found function"),
    ({"uplink": [{"piece": "mine:Fussy", "strength": 1.0}]}, r"^uplink\.0: mine:Fussy fails with ValueError: never"),
    ({"uplink": [{"piece": "mine:Hidden", "strength": 1.0}]}, r"^uplink\.0\.piece: what 'mine:Hidden' takes cannot be"),
    (
        {"uplink": ["mine:Unfinished"]},
        r"^uplink\.0: mine:Unfinished fails with TypeError: uplink \(Unfinished\) must have",
    ),
    ({"uplink": ["yours:Round"]}, r"^uplink\.0\.piece: there is no module 'yours' in .*home or .*elsewhere"),
    ({"uplink": ["mine.deeper:Round"]}, r"there is no module 'mine.deeper'"),
    ({"uplink": ["mine:"]}, r"written module:name, found 'mine:'"),
    ({"uplink": [":Round"]}, r"written module:name"),
    ({"uplink": ["../mine:Round"]}, r"written module:name"),
    ({"uplink": ["mine.Round"]}, r"unknown piece 'mine\.Round'.*one of your own is written module:Class"),
    ({"uplink": ["__main__:Round"]}, r"stands in the program that was run.*resume=True"),
    ({"uplink": ["mine:task.<locals>.Round"]}, r"inside a function, where no command can reach it.*resume=True"),
    ({"local": {"piece": "sgd", "steps": 1, "lr": {"piece": "mine:halving", "a": 1}}}, r"has no settings, found a"),
    ({"task": {"name": "mine:task", "client": 3}}, r"^task\.client: unknown setting of mine:task; did you mean 'cl"),
    ({"task": {"name": "mine:task", "clients": 2.5}}, r"^task\.clients: must be a whole number"),
    ({"task": {"name": "mine:number"}}, r"^task\.name: 'mine:number' must be a function, found int"),
    ({"algorithm": {"name": "mine:task"}}, r"^algorithm\.name: mine:task must return an Algorithm, found Supervised"),
    ({"algorithm": {"name": "mine:broken"}}, r"^algorithm: mine:broken fails with KeyError: 'lost'"),
]


@pytest.mark.parametrize(("changed", "sentence"), REFUSED)
def test_what_is_refused(changed, sentence, folder):
    tables = {"algorithm": {"name": "fedavg", "clients": 4}} | changed
    with pytest.raises(SettingsError, match=sentence):
        build(tables, beside=folder)


def test_a_task_that_makes_none(folder):
    made = build({"algorithm": {"name": "fedavg"}, "task": {"name": "mine:slow", "clients": 2}}, beside=folder)
    with pytest.raises(SettingsError, match=r"^task\.name: mine:slow must return a Problem, found Algorithm"):
        made.problem()
    broken = build({"algorithm": {"name": "fedavg"}, "task": {"name": "mine:broken"}}, beside=folder)
    with pytest.raises(SettingsError, match=r"^task: mine:broken fails with KeyError"):
        broken.problem()


def test_a_module_that_does_not_load(folder):
    (folder / "faulty.py").write_text("import nothing_of_this_name\n")
    with pytest.raises(SettingsError, match="importing 'faulty' fails with ModuleNotFoundError: No module named 'noth"):
        importing(folder)("faulty:Piece", "local.piece")
    (folder / "garbled.py").write_text("def\n")
    with pytest.raises(SettingsError, match="importing 'garbled' fails with SyntaxError"):
        importing(folder)("garbled:Piece", "local.piece")


def test_another_module_of_the_same_name_is_not_taken_for_it(folder, tmp_path):
    """Two settings files of two folders, each with a module `mine`: Python keeps the first."""
    importing(folder)("mine:Round", "uplink")
    (tmp_path / "elsewhere" / "mine.py").write_text("Round = 3\n")
    with pytest.raises(SettingsError, match=r"elsewhere/mine\.py has the name of .*home/mine\.py, loaded"):
        importing(tmp_path / "elsewhere")("mine:Round", "uplink")


class TestFolders:
    """A run folder written with pieces of one's own is gone on with by the command."""

    def test_run_and_resume(self, folder, tmp_path, unpainted):
        out = tmp_path / "run"
        commands.run(folder / "my.toml", [], {}, out, False, False, None, True)
        written = read(SETTINGS.path(out))
        assert written["task"] == {"name": "mine:task", "clients": 5}
        assert written["local"]["piece"] == "mine:Pull"
        (out / "mine.py").write_text(PIECES)
        sys.modules.pop("mine")
        commands.resume(out, {"rounds": 3}, None, True)
        assert read(SETTINGS.path(out))["run"]["rounds"] == 3

    def test_written_from_python(self, folder):
        stage = importing(folder)("mine:Round", "uplink")(0.5)
        algorithm = hush.Algorithm(hush.cohort.Uniform(2), hush.local.Gradient(), (stage,))
        tables = tomllib.loads(dumps(tables_of(algorithm)))
        assert tables["uplink"] == [{"piece": "mine:Round", "grid": 0.5, "bits": 8}]
        assert build(tables, beside=folder).algorithm == algorithm

    def test_what_no_command_can_reach(self, folder):
        class Local(Stage):
            def __call__(self, key, vector, state):
                return vector, state, {}

        for algorithm in (
            hush.Algorithm(hush.cohort.Uniform(2), hush.local.Gradient(), (Local(),)),
            hush.fedavg(2, steps=1, lr=lambda count: 0.1),
        ):
            with pytest.raises(SettingsError, match=r"stands inside a function.*hush\.run\(…, folder=…, resume=True\)"):
                build(tomllib.loads(dumps(tables_of(algorithm))), beside=folder)


EVIL = """
from pathlib import Path
Path({mark!r}).touch()
"""


class TestNothingIsImported:
    """A table that came over a network is read with the names that are installed, and runs nobody's code."""

    @pytest.fixture
    def mark(self, tmp_path, monkeypatch):
        """A module in the working directory, and on Python's path, that leaves a trace when it is imported."""
        trace = tmp_path / "trace"
        (tmp_path / "evil.py").write_text(EVIL.format(mark=str(trace)))
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(str(tmp_path))
        yield trace
        assert "evil" not in sys.modules

    TABLES = (
        {"algorithm": {"name": "evil:f"}},
        {"algorithm": {"name": "fedavg"}, "task": {"name": "evil:f"}},
        {"algorithm": {"name": "fedavg"}, "local": "evil:f"},
        {"algorithm": {"name": "fedavg"}, "local": {"piece": "evil:f"}},
        {"algorithm": {"name": "fedavg"}, "local": {"lr": {"piece": "evil:f"}}},
        {"algorithm": {"name": "fedavg"}, "local": {"lr": "evil:f"}},
        {"algorithm": {"name": "fedavg"}, "cohort": {"piece": "evil:f"}},
        {"algorithm": {"name": "fedavg"}, "channel": {"piece": "noisy", "std": 1.0, "inner": "evil:f"}},
        {"algorithm": {"name": "fedavg"}, "uplink": ["evil:f"]},
        {"algorithm": {"name": "fedavg"}, "uplink": [{"piece": "error_feedback", "inner": {"piece": "evil:f"}}]},
        {"algorithm": {"name": "fedadam"}, "server": {"settings": {"learning_rate": {"piece": "evil:f"}}}},
        {"algorithm": {"name": "feddane"}, "phases": {"1": {"local": {"piece": "evil:f"}}}},
        {"algorithm": {"name": "fedavg"}, "run": {"metrics": ["accuracy", "evil:f"]}},
        {"algorithm": {"name": "fedavg"}, "run": {"metrics": {"good": "evil:f"}}},
    )

    @pytest.mark.parametrize("number", range(len(TABLES)))
    def test_of_an_agreement(self, number, mark):
        offered = Agreement(dumps({"agreement": {"protocol": 1}} | self.TABLES[number]))
        with pytest.raises(SettingsError, match="what devices agree to never imports anything"):
            offered.experiment.problem()
        with pytest.raises(SettingsError, match="imports anything"):
            build(self.TABLES[number])
        assert not mark.exists()

    def test_the_trap_would_have_sprung(self, mark, tmp_path):
        with pytest.raises(SettingsError, match="is not there"):
            importing(tmp_path)("evil:f", "local")
        assert mark.exists()
        sys.modules.pop("evil")

    def test_who_may_import(self):
        """Nothing in the network's packages hands `build` a folder, and the default looks nothing up."""
        network = Path(hush.__file__).parent / "network"
        assert not [path for path in network.rglob("*.py") if "beside=" in path.read_text(encoding="utf-8")]
        with pytest.raises(SettingsError):
            import_nothing("os:system", "local")

    def test_a_server_cannot_offer_it(self, folder, quadratic):
        stage = importing(folder)("mine:Round", "uplink")(0.5)
        algorithm = hush.Algorithm(hush.cohort.Uniform(2), hush.local.Gradient(), (stage,))
        offered = agree(algorithm, quadratic, RunSettings(rounds=2))
        with pytest.raises(SettingsError, match=r"^uplink\.0\.piece: 'mine:Round' is of somebody's own making"):
            _ = offered.experiment


def test_arrays_of_whole_numbers(folder):
    tables = {"algorithm": {"name": "fedavg"}, "uplink": [{"piece": "mine:Round", "grid": 1.0, "table": [1, 2]}]}
    assert build(tables, beside=folder).algorithm.uplink[0].table.dtype == jnp.int32

"""From plain tables to an algorithm, a problem and a run."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hush.algorithms import ALGORITHMS
from hush.core.algorithm import Algorithm, InTurn, check, named
from hush.core.check import nearest, shown
from hush.core.paths import float_settings, why_not_swept
from hush.execution.lanes import Sweep
from hush.models import MODELS
from hush.models.parts import adapted
from hush.settings.errors import SettingsError, found, inside
from hush.settings.experiment import Experiment
from hush.settings.network import NetworkSettings
from hush.settings.own import Find, check_function, import_nothing, importing, is_own_name, make_own, schema_of
from hush.settings.run import RunSettings, never_ends, run_table
from hush.settings.schema import model_schema, schema
from hush.settings.tables import CALLED, OWN, Tables, slots_of
from hush.settings.values import PIECE, convert, fill, is_count, make
from hush.tasks import TASKS
from hush.tasks.metrics import parsed

SLOTS = tuple(schema(Algorithm))
TOP = ("algorithm", *SLOTS, "phases", "task", "run", "sweep", "network")
ARRAYS = ("uplink", "phases")
ROUNDS = 100  # of a settings file that says nothing of what ends its run


def build(tables: Mapping[str, Any], *, beside: str | Path | None = None) -> Experiment:
    """What the tables ask for, every name and value checked; the data is not touched before `Experiment.problem()`.

    `beside` is the folder of the settings file: what is named `module:name` is imported, from there, from the working
    directory or as installed, which runs that module. Without it nothing is imported, and such names are refused.

    >>> found = build({"algorithm": {"name": "fedavg", "clients": 10, "steps": 5}, "local": {"lr": 0.05}})
    >>> found.algorithm.local.lr, found.algorithm.cohort.size, found.run.rounds
    (0.05, 10, 100)
    """
    for name, value in tables.items():
        if name not in TOP:
            raise SettingsError(name, f"unknown table; {nearest(name, TOP)}")
        if name not in (*ARRAYS, *SLOTS, "sweep") and not isinstance(value, dict):
            raise SettingsError(name, f"must be a table, {found(value)}")
    find = import_nothing if beside is None else importing(beside)
    algorithm = _algorithm(tables, find)
    task, made_by = _task(tables["task"], find) if "task" in tables else (None, None)
    return Experiment(
        algorithm,
        run=_run(tables.get("run", {}), _sweep(tables.get("sweep", {}), algorithm), find),
        task=task,
        network=_network(tables.get("network", {})),
        name=_name(tables),
        made_by=made_by,
    )


def _algorithm(tables: Mapping[str, Any], find: Find) -> Algorithm | InTurn:
    """The algorithm of slots as they are, or a named one with what is given beside it put over its slots.

    A name that is only what the slots are called makes nothing.
    """
    given = {name: value for name, value in tables.items() if name in (*SLOTS, "phases")}
    asked = tables.get("algorithm", {CALLED: ""})
    if set(asked) == {CALLED}:
        return named(_of_slots(given, find), convert(asked[CALLED], str, f"algorithm.{CALLED}"))
    made = _preset(asked, find)
    if not given:
        make(check, {"algorithm": made}, "")
        return made
    if isinstance(made, InTurn) and (stray := [name for name in given if name != "phases"]):
        raise SettingsError(
            stray[0],
            f"{asked['name']} has {len(made.phases)} phases, each with slots of its own: "
            f"say phases.0.{stray[0]} or phases.1.{stray[0]}",
        )
    return replace(_of_slots(_put_over(slots_of(made), given, ""), find), called=made.called)


def _preset(table: Mapping[str, Any], find: Find) -> Algorithm | InTurn:
    """The algorithm that a name and its arguments make."""
    preset, arguments = _named(table, ALGORITHMS, "algorithm", find)
    name = table["name"]
    if not is_own_name(name):
        return make(preset, fill(preset, arguments, "algorithm"), "algorithm")
    known = schema_of(preset, name, "algorithm.name")
    made = make_own(name, preset, fill(preset, arguments, "algorithm", known, find=find), "algorithm")
    if not isinstance(made, Algorithm | InTurn):
        raise SettingsError("algorithm.name", f"{name} must return an Algorithm, found {type(made).__name__}")
    return named(made, name)


def _put_over(base: Any, over: Any, place: str) -> Any:
    """`over` where it says something, `base` elsewhere; another piece is another table, and starts from nothing."""
    if isinstance(base, list) and isinstance(over, dict) and over and all(map(is_count, over)):
        entries = list(base)
        for key, value in over.items():
            if int(key) >= len(base):
                raise SettingsError(inside(place, key), f"there are only {len(base)} to choose from, counted from 0")
            entries[int(key)] = _put_over(base[int(key)], value, inside(place, key))
        return entries
    if not isinstance(base, dict) or not isinstance(over, dict) or over.get(PIECE, base.get(PIECE)) != base.get(PIECE):
        return over
    return base | {name: _put_over(base.get(name), value, inside(place, name)) for name, value in over.items()}


def _of_slots(slots: Tables, find: Find) -> Algorithm | InTurn:
    if "phases" in slots:
        if stray := [name for name in slots if name != "phases"]:
            raise SettingsError(stray[0], "an algorithm has either phases or slots of its own, found both")
        phases = slots["phases"]
        if not isinstance(phases, list) or not all(isinstance(phase, dict) for phase in phases):
            raise SettingsError("phases", f"must be an array of tables, {found(phases)}")
        made = tuple(_phase(phase, inside("phases", index), find) for index, phase in enumerate(phases))
        algorithm: Algorithm | InTurn = make(InTurn, {"phases": made}, "phases")
    else:
        if not slots:
            raise SettingsError("algorithm", f"is missing; a table with a name, known: {', '.join(ALGORITHMS)}")
        algorithm = _phase(slots, "", find)
    make(check, {"algorithm": algorithm}, "")
    return algorithm


def _phase(slots: Tables, place: str, find: Find) -> Algorithm:
    made: Algorithm = make(Algorithm, fill(Algorithm, slots, place, what="slot", find=find), place)
    return made


def _name(tables: Mapping[str, Any]) -> str:
    """What to call an algorithm: where it has no name, by its (last) local rule."""
    if asked := tables.get("algorithm"):
        return str(asked.get("name", asked.get(CALLED)))
    local = tables["phases"][-1]["local"] if "phases" in tables else tables["local"]
    return str(local if isinstance(local, str) else local.get(PIECE, OWN))


def _named(table: Mapping[str, Any], known: Mapping[str, Any], place: str, find: Find) -> tuple[Any, Tables]:
    """A table with a name: what it names, of ours or of one's own, and the rest."""
    rest = dict(table)
    name = rest.pop("name", None)
    if name is None:
        raise SettingsError(f"{place}.name", f"is missing; known: {', '.join(known)}")
    if is_own_name(name):
        found = find(name, f"{place}.name")
        check_function(found, name, f"{place}.name")
        return found, rest
    if not isinstance(name, str) or name not in known:
        raise SettingsError(f"{place}.name", f"unknown {place} {shown(name)}; {nearest(str(name), known)}")
    return known[name], rest


def _task(table: Mapping[str, Any], find: Find) -> tuple[dict[str, Any], Any]:
    """The task with its arguments; and, where it is of one's own, the function that makes it."""
    if table.get("name") == OWN:
        return {"name": OWN}, None
    made_by, arguments = _named(table, TASKS, "task", find)
    name = table["name"]
    if is_own_name(name):
        known = schema_of(made_by, name, "task.name")
        return {"name": name} | fill(made_by, arguments, "task", known, f"setting of {name}", find), made_by
    filled = fill(made_by, arguments, "task", what=f"setting of {name}")
    if "model" in schema(made_by):
        model = filled.get("model", schema(made_by)["model"].default)
        if not isinstance(model, str) or model not in MODELS:
            raise SettingsError("task.model", f"unknown model {shown(model)}; {nearest(str(model), MODELS)}")
        options = arguments.get("model_options", {})
        if options:
            filled["model_options"] = _options(model, options, "task.model_options")
    return {"name": name} | filled, None


def _options(model: str, options: Mapping[str, Any], place: str) -> dict[str, Any]:
    """What is said of a model by name: of its own, and which part of it is trained."""
    filled = fill(MODELS[model], options, place, model_schema(MODELS[model]), f"option of {model}")
    if "lora" in filled:
        known = schema(adapted, keyword_only=True)
        filled["lora"] = fill(adapted, options["lora"], f"{place}.lora", known, "setting of lora")
    return filled


def _run(table: Mapping[str, Any], sweep: Sweep | None, find: Find) -> RunSettings:
    asked = fill(RunSettings, table, "run", run_table())
    if "metrics" in asked:
        looked_up = {"asked": asked["metrics"], "find": lambda name: find(name, "run.metrics")}
        asked["metrics"] = make(parsed, looked_up, "run")
    if never_ends(asked):
        asked["rounds"] = ROUNDS
    made: RunSettings = make(RunSettings, asked | {"sweep": sweep}, "run")
    return made


def _network(table: Mapping[str, Any]) -> NetworkSettings:
    made: NetworkSettings = make(NetworkSettings, fill(NetworkSettings, table, "network"), "network")
    return made


def _sweep(tables: Any, algorithm: Algorithm | InTurn) -> Sweep | None:
    """A table is a grid, with an array for each setting; an array of tables is a list of points."""
    if isinstance(tables, list) and all(isinstance(point, dict) for point in tables):
        points = (_swept(point, algorithm, float, inside("sweep", index)) for index, point in enumerate(tables))
        return list(points) or None
    if not isinstance(tables, dict):
        raise SettingsError("sweep", f"must be a table, or an array of tables, {found(tables)}")
    return _swept(tables, algorithm, list[float], "sweep") or None


def _swept(table: Mapping[str, Any], algorithm: Algorithm | InTurn, kind: Any, within: str) -> dict[str, Any]:
    settings, swept = float_settings(algorithm), {}
    for path, value in _flat(table):
        place = inside(within, path)
        if path not in settings:
            raise SettingsError(place, why_not_swept(algorithm, path))
        if kind is not float and (not isinstance(value, list) or not value):
            raise SettingsError(place, f"must be an array of one or more numbers, {found(value)}")
        swept[path] = convert(value, kind, place)
    return swept


def _flat(table: Mapping[str, Any], place: str = "") -> list[tuple[str, Any]]:
    """`"local.lr" = […]` and `local.lr = […]` mean the same, though only TOML's second is a table in a table."""
    pairs: list[tuple[str, Any]] = []
    for name, value in table.items():
        path = inside(place, name)
        pairs += _flat(value, path) if isinstance(value, dict) else [(path, value)]
    return pairs

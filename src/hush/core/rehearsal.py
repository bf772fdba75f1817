"""A rehearsal: every slot by itself, by shapes alone, before anything is compiled.

Pieces, models and problems may be the user's own. What one of them returns is held to the contract here, where the
piece, its slot, what it returned and what is asked can still be named; in the compiled loop it would be a KeyError.
"""

import inspect
import traceback
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from hush.core.algorithm import Algorithm, InTurn, init_server
from hush.core.columns import check_column, check_measures
from hush.core.contract import Draw, Mixing, State, Statistics
from hush.core.counts import Count
from hush.core.evaluation import EVALUATE_AT_ONCE
from hush.core.flat import flat_shape
from hush.core.keys import root
from hush.core.problem import Batch, Population, Problem
from hush.core.round import broadcast

HERE = Path(__file__).parents[1]
# Whose classes and functions are no user's own: what stands in these packages is held to its contract by its own tests.
LIBRARIES = ("hush", "jax", "jaxlib", "equinox", "optax", "numpy", "builtins", "functools")
# What the engine itself does with an info of these names.
OWN_INFO = ("steps", "bits")


def rehearse(algorithm: Algorithm | InTurn, problem: Problem) -> None:
    """Refuse an algorithm or a problem whose pieces do not keep to the contract."""
    model = check_problem(problem)
    for index, phase in enumerate(algorithm.phases):
        where = f"phases[{index}]." if len(algorithm.phases) > 1 else ""
        _check_server_state(phase, model, where)
    state = jax.eval_shape(lambda model: init_server(algorithm, model), model)
    seen: set[str] = set()
    for index, phase in enumerate(algorithm.phases):
        where = f"phases[{index}]." if len(algorithm.phases) > 1 else ""
        seen |= _rehearse_phase(phase, problem, model, state, where)
    if is_own(problem):
        check_measures(measured := _measures(problem), seen)
        derived = shapes("the problem", problem, "derived", problem.derived, measured)
        check_measures({**measured, **derived} if isinstance(derived, Mapping) else derived, seen)


def _measures(problem: Problem) -> Any:
    """What the problem measures on all its tables, each measure of a batch as the one number it is summed up in."""
    found: dict[Any, Any] = {}
    for name, weights in problem.tables().items():
        batch = Batch(name, jnp.int32(0), min(EVALUATE_AT_ONCE, weights.size))
        each = shapes(
            "the problem", problem, "evaluate", lambda batch=batch: problem.evaluate(problem.init(root(0)), batch)
        )
        if not isinstance(each, Mapping):
            return each
        for measure, value in each.items():
            of_rows = getattr(value, "shape", None) == (batch.length,)
            found[measure] = jax.ShapeDtypeStruct((), value.dtype) if of_rows else value
    return found


def is_own(part: Any) -> bool:
    """Whether a piece, or one inside it, is the user's own. Of the others the long trace of training is spared."""
    if isinstance(part, dict):
        return any(map(is_own, part.values()))
    if isinstance(part, tuple | list):
        return any(map(is_own, part))
    if not isinstance(part, eqx.Module) and not callable(part):
        return False
    home = getattr(part if inspect.isroutine(part) else type(part), "__module__", None) or "builtins"
    if home.split(".")[0] not in LIBRARIES:
        return True
    return isinstance(part, eqx.Module) and any(is_own(getattr(part, each.name, None)) for each in fields(part))


def _rehearse_phase(phase: Algorithm, problem: Problem, model: Any, state: State, where: str) -> set[str]:
    draw = _cohort(phase, problem.population, where)
    message, seen = _template(phase, model, where), set[str]()
    if is_own(phase.local) or is_own(problem):
        seen = _local(phase, problem, model, message, state, where)
    for name, vector in message.items():
        seen |= {f"{name}_{info}" if name != "update" else info for info in _uplink(phase, name, vector, where)}
        seen.add(f"{name}_norm")
    _channel(phase, draw, where)
    _server(phase, state, message, where)
    return seen


# How a piece is called, and told.


def _named(slot: str, piece: Any) -> str:
    return f"{slot} ({type(piece).__name__})"


def shapes(slot: str, piece: Any, method: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """The answer of a piece, arrays by their shapes and anything else as it is; an error of its own is named."""
    try:
        return eqx.filter_eval_shape(function, *arguments)
    except Exception as error:
        if isinstance(error, ValueError) and _is_ours(error):
            raise
        said = str(error).strip().split("\n")[0]
        raise ValueError(f"{_named(slot, piece)}: {method} fails with {type(error).__name__}: {said}") from error


def _is_ours(error: Exception) -> bool:
    """Whether hush itself refused something: then it has been told well enough."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and HERE in Path(frames[-1].filename).parents


def _words(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{value.dtype} of shape {value.shape}"
    if isinstance(value, tuple):
        return f"{len(value)} things ({', '.join(map(_words, value))})"
    return "nothing" if value is None else type(value).__name__


def _refuse(slot: str, piece: Any, asked: str, found: Any) -> None:
    said = found if isinstance(found, str) else _words(found)
    raise ValueError(f"{_named(slot, piece)} must {asked}, found {said}")


def _is_array(value: Any, shape: tuple[int, ...], kind: Any = jnp.floating) -> bool:
    found = jnp.asarray(value) if isinstance(value, int | float) else value
    return hasattr(found, "shape") and found.shape == shape and jnp.issubdtype(found.dtype, kind)


def _is_vector(value: Any, like: Any) -> bool:
    return _is_array(value, like.shape) and value.dtype == like.dtype


def _unpacked(slot: str, piece: Any, asked: str, found: Any, count: int) -> Any:
    if not isinstance(found, tuple) or len(found) != count:
        _refuse(slot, piece, f"return {asked}", found)
    return found


def _same_tree(new: Any, old: Any) -> str:
    """How one state differs from another that it must be like; nothing if it does not."""
    if str(jax.tree.structure(new)) != str(jax.tree.structure(old)):
        return f"{_outline(new)} instead of {_outline(old)}"
    pairs = zip(jax.tree_util.tree_leaves_with_path(new), jax.tree.leaves(old), strict=True)
    for (path, leaf), before in pairs:
        if leaf.shape != before.shape or leaf.dtype != before.dtype:
            return f"{jax.tree_util.keystr(path)} as {_words(leaf)} instead of {_words(before)}"
    return ""


def _outline(tree: Any) -> str:
    return f"a dictionary of {', '.join(map(str, tree)) or 'nothing'}" if isinstance(tree, Mapping) else _words(tree)


# The slots.


def check_problem(problem: Problem) -> Any:
    """The model's shape, after the problem's own pieces have been looked at."""
    params = shapes("the problem", problem, "init", lambda: problem.init(root(0)))
    check_parameters(type(problem).__name__, params)
    return flat_shape(problem)


def check_parameters(who: str, params: Any) -> None:
    """Refuse parameters that are not float32, or none at all."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    for path, leaf in leaves:
        kind = leaf.dtype if hasattr(leaf, "dtype") else type(leaf).__name__
        if kind != jnp.float32 and not isinstance(leaf, float):
            place = jax.tree_util.keystr(path) or "the parameters"
            raise ValueError(f"parameters of {who} must be float32, found {kind} at {place}; cast them by jnp.float32")
    if not sum(getattr(leaf, "size", 1) for _, leaf in leaves):
        raise ValueError(f"init of {who} must return parameters to train, found none")


def _check_server_state(phase: Algorithm, model: Any, where: str) -> None:
    slot, rule = f"{where}server", phase.server
    state = shapes(slot, rule, "init", rule.init, model)
    if not isinstance(state, dict) or "model" not in state:
        _refuse(slot, rule, "begin with a state that holds 'model'", _outline(state))
    if not _is_vector(state["model"], model):
        _refuse(slot, rule, f"begin with a model like the problem's, {_words(model)}", state["model"])
    for name in rule.provides:
        if not isinstance(state.get(name), jax.ShapeDtypeStruct) or state[name].ndim != 1:
            _refuse(slot, rule, f"begin with a vector for each name it provides, {name!r} among them", state.get(name))


def _cohort(phase: Algorithm, population: Population, where: str) -> Draw:
    slot, cohort = f"{where}cohort", phase.cohort
    places = cohort.places(population.clients)
    draw = shapes(slot, cohort, "the draw", lambda: cohort(root(0), population, jnp.int32(0)))
    if not isinstance(draw, Draw):
        _refuse(slot, cohort, "return a Draw of ids, weights, active and coverage", draw)
    for name, kind in (("ids", jnp.integer), ("weights", jnp.floating), ("active", jnp.bool_)):
        if not _is_array(getattr(draw, name), (places,), kind):
            asked = f"draw {name} for its {places} places: {kind.__name__} of shape ({places},)"
            _refuse(slot, cohort, asked, getattr(draw, name))
    if not _is_array(draw.coverage, ()):
        _refuse(slot, cohort, "draw a coverage that is one number", draw.coverage)
    return draw


def _template(phase: Algorithm, model: Any, where: str) -> Any:
    slot, rule = f"{where}local", phase.local
    template = shapes(slot, rule, "template", rule.template, model)
    if not isinstance(template, dict) or set(template) != set(rule.sends):
        _refuse(slot, rule, f"have a template of {list(rule.sends)}", _outline(template))
    return template


def _local(phase: Algorithm, problem: Problem, model: Any, template: Any, state: State, where: str) -> set[str]:
    slot, rule = f"{where}local", phase.local
    before = shapes(slot, rule, "init", rule.init, model)
    data, rest = eqx.partition(problem, eqx.is_array)

    def announced(state: Any) -> Any:
        return broadcast(phase, state, root(0))

    def one(state: Any, before: Any, data: Any) -> Any:
        return rule(root(0), announced(state), before, eqx.combine(data, rest).client(0))

    found = shapes(slot, rule, "the call", one, state, before, data)
    message, memory, info = _unpacked(slot, rule, "a message, its memory and an info", found, 3)
    if not isinstance(message, dict) or set(message) != set(rule.sends):
        _refuse(slot, rule, f"send a dictionary of {list(rule.sends)}", _outline(message))
    for name, like in template.items():
        if not _is_vector(message[name], like):
            _refuse(slot, rule, f"send {name!r} as {_words(like)}", message[name])
    _check_info(slot, rule, info)
    if missing := sorted(set(rule.reports) - set(info)):
        _refuse(slot, rule, f"report {missing} in its info, as it declares", f"{sorted(info)}")
    if change := _same_tree(memory, before):
        _refuse(slot, rule, "return a memory like the one it began with", change)
    after = shapes(slot, rule, "commit", lambda s, b, m: rule.commit(announced(s), b, m), state, memory, message)
    if change := _same_tree(after, before):
        _refuse(slot, rule, "commit a memory like the one it began with", change)
    return set(info) - set(OWN_INFO)


def _check_info(slot: str, piece: Any, info: Any) -> None:
    if not isinstance(info, dict):
        _refuse(slot, piece, "return its info as a dictionary", info)
    for name, value in info.items():
        check_column(f"the info of {_named(slot, piece)}", name)
        if name == "bits":
            if not isinstance(value, Count | int) and not _is_array(value, (), jnp.integer):
                _refuse(slot, piece, "return its 'bits' as a whole number", value)
        elif not (_is_array(value, (), jnp.number) or _is_array(value, (), jnp.bool_)):
            _refuse(slot, piece, f"return one number for its info {name!r}", value)


def _uplink(phase: Algorithm, name: str, vector: Any, where: str) -> set[str]:
    seen: set[str] = set()
    for index, stage in enumerate(phase.uplink):
        slot = f"{where}uplink[{index}]"
        before = shapes(slot, stage, "init", stage.init, vector)
        found = shapes(slot, stage, "the call", lambda v, s, stage=stage: stage(root(0), v, s), vector, before)
        sent, after, info = _unpacked(slot, stage, "a vector, a state and an info", found, 3)
        if not _is_vector(sent, vector):
            _refuse(slot, stage, f"send {name!r} on as it came, {_words(vector)}", sent)
        if change := _same_tree(after, before):
            _refuse(slot, stage, "return a state like the one it began with", change)
        _check_info(slot, stage, info)
        seen |= set(info) - set(OWN_INFO)
    return seen


def _channel(phase: Algorithm, draw: Draw, where: str) -> None:
    slot, channel = f"{where}channel", phase.channel
    places = draw.ids.shape
    statistics = Statistics(jnp.float32(0), jnp.float32(0)) if channel.aware else Statistics()
    mixing = shapes(slot, channel, "the call", lambda d, s: channel(root(0), d, jnp.int32(0), s), draw, statistics)
    if not isinstance(mixing, Mixing):
        _refuse(slot, channel, "return a Mixing of coefficients, noise and transmit", mixing)
    if not _is_array(mixing.coefficients, places):
        _refuse(slot, channel, f"mix with coefficients of shape {places}", mixing.coefficients)
    for name, allowed in (("noise", ((),)), ("transmit", ((), places))):
        if not any(_is_array(getattr(mixing, name), shape) for shape in allowed):
            _refuse(slot, channel, f"mix with {name} of shape {' or '.join(map(str, allowed))}", getattr(mixing, name))


def _server(phase: Algorithm, state: State, message: Any, where: str) -> None:
    slot, rule = f"{where}server", phase.server
    coverage = jax.ShapeDtypeStruct((), jnp.float32)
    after = shapes(slot, rule, "the call", lambda *each: rule(root(0), *each), state, message, coverage)
    if not isinstance(after, dict):
        _refuse(slot, rule, "return a state", after)
    if strange := sorted(map(str, set(after) - set(state))):
        _refuse(slot, rule, f"return no more than it began with, {sorted(state)}", f"{strange} as well")
    if change := _same_tree(after, {name: state[name] for name in after}):
        _refuse(slot, rule, "return a state like the one it began with", change)

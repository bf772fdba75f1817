"""A rehearsal: every slot by itself, by shapes alone, before anything is compiled.

Pieces, models and problems may be the user's own. What one of them returns is held to the contract here, where the
piece, its slot, what it returned and what is asked can still be named; in the compiled loop it would be a KeyError.
"""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from hush.core.algorithm import Algorithm, InTurn, init_server
from hush.core.columns import check_column, check_measures
from hush.core.contract import Draw, LocalRule, Mixing, Stacked, State, Statistics
from hush.core.counts import Count
from hush.core.grid import Grid
from hush.core.keys import root
from hush.core.problem import Population, Problem
from hush.core.rehearsed_problem import check_parameters, check_problem, check_views, measured
from hush.core.round import broadcast
from hush.core.telling import (
    called,
    check_arrays,
    difference,
    is_array,
    is_number,
    is_own,
    is_vector,
    named,
    outline,
    refuse,
    shapes,
    unpacked,
    words,
)

__all__ = ["check_parameters", "check_problem", "is_own", "places_of", "rehearse", "shapes"]

# What the engine itself does with an info of these names.
OWN_INFO = ("steps", "bits")
# What the engine tells beside the server's state.
TOLD = ("round", "common")


def rehearse(algorithm: Algorithm | InTurn, problem: Problem) -> frozenset[str]:
    """Refuse an algorithm or a problem whose pieces do not keep to the contract.

    Returned are the columns that its pieces add to the records; of local rules, only where they are the user's own.
    """
    model = check_problem(problem)
    if is_own(problem):
        check_views(problem)
    places = _places(algorithm)
    for phase, where in places:
        _check_server_state(phase, model, where)
    state = jax.eval_shape(lambda model: init_server(algorithm, model), model)
    seen: set[str] = set()
    for phase, where in places:
        seen |= _rehearse_phase(phase, problem, model, state, where)
    if is_own(problem):
        check_measures(found := measured(problem), seen)
        derived = shapes("the problem", problem, "derived", problem.derived, found)
        check_measures({**found, **derived} if isinstance(derived, Mapping) else derived, seen)
    return frozenset(seen)


def _places(algorithm: Algorithm | InTurn) -> list[tuple[Algorithm, str]]:
    """Every phase, and how the names of its slots begin."""
    several = len(algorithm.phases) > 1
    return [(phase, f"phases[{index}]." if several else "") for index, phase in enumerate(algorithm.phases)]


def places_of(algorithm: Algorithm | InTurn, population: Population) -> list[int]:
    """How many places the cohort of each phase has."""
    found = []
    for phase, where in _places(algorithm):
        slot, cohort = f"{where}cohort", phase.cohort
        for method in ("places", "usual"):
            count = called(slot, cohort, method, getattr(cohort, method), population.clients)
            if not isinstance(count, int) or isinstance(count, bool) or count < 1:
                refuse(slot, cohort, f"return a whole number of at least 1 as its {method}", f"{count!r}")
        found.append(cohort.places(population.clients))
    return found


def _rehearse_phase(phase: Algorithm, problem: Problem, model: Any, state: State, where: str) -> set[str]:
    draw = _cohort(phase, problem.population, where)
    message, seen = _template(phase, model, where), set[str]()
    if is_own(phase.local) or is_own(problem):
        seen = _local(phase, problem, model, message, state, where)
    for name, vector in message.items():
        seen |= _uplink(phase, name, vector, where) | {f"{name}_norm"}
    _channel(phase, draw, where)
    _server(phase, state, message, draw, where)
    return seen


def _cohort(phase: Algorithm, population: Population, where: str) -> Draw:
    slot, cohort = f"{where}cohort", phase.cohort
    places = cohort.places(population.clients)
    draw = shapes(slot, cohort, "the draw", lambda: cohort(root(0), population, jnp.int32(0)))
    if not isinstance(draw, Draw):
        refuse(slot, cohort, "return a Draw of ids, weights, active and coverage", words(draw))
    for name, kind in (("ids", jnp.integer), ("weights", jnp.floating), ("active", jnp.bool_)):
        if not is_array(getattr(draw, name), (places,), kind):
            asked = f"draw {name} for its {places} places: {kind.__name__} of shape ({places},)"
            refuse(slot, cohort, asked, words(getattr(draw, name)))
    if not is_array(draw.coverage, ()):
        refuse(slot, cohort, "draw a coverage that is one number", words(draw.coverage))
    return draw


def _template(phase: Algorithm, model: Any, where: str) -> Any:
    slot, rule = f"{where}local", phase.local
    template = shapes(slot, rule, "template", rule.template, model)
    if not isinstance(template, dict) or set(template) != set(rule.sends):
        refuse(slot, rule, f"have a template of {list(rule.sends)}", outline(template))
    for name, vector in template.items():
        if getattr(vector, "ndim", None) != 1 or vector.dtype != model.dtype or not vector.size:
            refuse(slot, rule, f"have a template whose {name!r} is a vector of {model.dtype}", words(vector))
    return template


def _local(phase: Algorithm, problem: Problem, model: Any, template: Any, state: State, where: str) -> set[str]:
    slot, rule = f"{where}local", phase.local
    before = shapes(slot, rule, "init", rule.init, model)
    check_arrays(slot, rule, "begin with a memory of arrays", before)
    data, rest = eqx.partition(problem, eqx.is_array)

    def announced(state: Any) -> Any:
        return broadcast(phase, state, root(0))

    def one(state: Any, before: Any, data: Any, index: Any) -> Any:
        return rule(root(0), announced(state), before, eqx.combine(data, rest).client(index))

    found = shapes(slot, rule, "the call", one, state, before, data, jnp.int32(0))
    message, memory, info = unpacked(slot, rule, "a message, its memory and an info", found, 3)
    if not isinstance(message, dict) or set(message) != set(rule.sends):
        refuse(slot, rule, f"send a dictionary of {list(rule.sends)}", outline(message))
    for name, like in template.items():
        if not is_vector(message[name], like):
            refuse(slot, rule, f"send {name!r} as {words(like)}", words(message[name]))
    _check_info(slot, rule, info, *(f"{name}_norm" for name in rule.sends))
    if missing := sorted(set(rule.reports) - set(info)):
        refuse(slot, rule, f"report {missing} in its info, as it declares", f"{sorted(info)}")
    if change := difference(memory, before):
        refuse(slot, rule, "return a memory like the one it began with", change)
    commit = lambda state, memory, message: rule.commit(announced(state), memory, message)  # noqa: E731
    _memory(slot, rule, model, before, shapes(slot, rule, "commit", commit, state, memory, message))
    return set(info) - set(OWN_INFO)


def _memory(slot: str, rule: LocalRule, model: Any, before: Any, after: Any) -> None:
    """What a client remembers once its answer is sent, and the model that it makes of it."""
    if change := difference(after, before):
        refuse(slot, rule, "commit a memory like the one it began with", change)
    personal = shapes(slot, rule, "personal", rule.personal, model, after)
    if personal is not None and not is_vector(personal, model):
        refuse(slot, rule, f"have personal models like the problem's, {words(model)}, or None", words(personal))


def _check_info(slot: str, piece: Any, info: Any, *taken: str) -> None:
    if not isinstance(info, dict):
        refuse(slot, piece, "return its info as a dictionary", words(info))
    for name, value in info.items():
        check_column(f"the info of {named(slot, piece)}", name)
        if name in taken:
            refuse(slot, piece, "leave the lengths of messages to the engine", f"an info {name!r}")
        if name == "bits":
            if not isinstance(value, Count | int) and not is_array(value, (), jnp.integer):
                refuse(slot, piece, "return its 'bits' as a whole number", words(value))
        elif not is_number(value):
            refuse(slot, piece, f"return one number for its info {name!r}", words(value))


def _uplink(phase: Algorithm, name: str, vector: Any, where: str) -> set[str]:
    seen: set[str] = set()
    for index, stage in enumerate(phase.uplink):
        slot = f"{where}uplink[{index}]"
        _check_bound(slot, stage, "norm_bound")
        before = shapes(slot, stage, "init", stage.init, vector)
        check_arrays(slot, stage, "begin with a state of arrays", before)
        found = shapes(slot, stage, "the call", lambda v, s, stage=stage: stage(root(0), v, s), vector, before)
        sent, after, info = unpacked(slot, stage, "a vector, a state and an info", found, 3)
        if not is_vector(sent, vector):
            refuse(slot, stage, f"send {name!r} on as it came, {words(vector)}", words(sent))
        if change := difference(after, before):
            refuse(slot, stage, "return a state like the one it began with", change)
        _check_info(slot, stage, info, "update_norm" if name == "update" else "norm")
        seen |= {each if name == "update" else f"{name}_{each}" for each in set(info) - set(OWN_INFO)}
    return seen


def _check_bound(slot: str, piece: Any, name: str) -> None:
    """Refuse a bound that is no number: a method without `@property`, say."""
    bound = getattr(piece, name)
    if bound is not None and not is_number(bound):
        refuse(slot, piece, f"have a number, or None, as its {name}", words(bound))


def _channel(phase: Algorithm, draw: Draw, where: str) -> None:
    slot, channel = f"{where}channel", phase.channel
    places = draw.ids.shape
    _check_bound(slot, channel, "message_bound")
    statistics = Statistics(jnp.float32(0), jnp.float32(0)) if channel.aware else Statistics()
    mixing = shapes(slot, channel, "the call", lambda d, s: channel(root(0), d, jnp.int32(0), s), draw, statistics)
    if not isinstance(mixing, Mixing):
        refuse(slot, channel, "return a Mixing of coefficients, noise and transmit", words(mixing))
    if not is_array(mixing.coefficients, places):
        refuse(slot, channel, f"mix with coefficients of shape {places}", words(mixing.coefficients))
    for name, allowed in (("noise", ((),)), ("transmit", ((), places))):
        if not any(is_array(getattr(mixing, name), shape) for shape in allowed):
            refuse(
                slot,
                channel,
                f"mix with {name} of shape {' or '.join(map(str, allowed))}",
                words(getattr(mixing, name)),
            )
    if not isinstance(mixing.grid, Grid | None):
        refuse(slot, channel, "mix with a Grid, or None", words(mixing.grid))
    if channel.hands_each and not (isinstance(mixing.noise, float) and mixing.noise == 0):
        refuse(slot, channel, "hand on every message without noise, 0.0: there is no sum for it", words(mixing.noise))


def _check_server_state(phase: Algorithm, model: Any, where: str) -> None:
    slot, rule = f"{where}server", phase.server
    state = shapes(slot, rule, "init", rule.init, model)
    if not isinstance(state, dict) or "model" not in state:
        refuse(slot, rule, "begin with a state that holds 'model'", outline(state))
    if not is_vector(state["model"], model):
        refuse(slot, rule, f"begin with a model like the problem's, {words(model)}", words(state["model"]))
    if taken := sorted(set(state) & set(TOLD)):
        refuse(slot, rule, f"leave the names {', '.join(TOLD)} to the engine", f"{taken} in its state")
    check_arrays(slot, rule, "begin with a state of arrays", state, numbers=True)
    for name in rule.provides:
        if not jax.tree.leaves(state.get(name)):
            refuse(
                slot,
                rule,
                f"begin with an array for each name it provides, {name!r} among them",
                words(state.get(name)),
            )


def _server(phase: Algorithm, state: State, message: Any, draw: Draw, where: str) -> None:
    slot, rule = f"{where}server", phase.server
    received = message
    if phase.channel.hands_each:
        rows: Any = {
            name: jax.ShapeDtypeStruct((*draw.ids.shape, *each.shape), each.dtype) for name, each in message.items()
        }
        received = {name: Stacked(each, draw.weights, draw.active) for name, each in rows.items()}
    coverage = jax.ShapeDtypeStruct((), jnp.float32)
    after = shapes(slot, rule, "the call", lambda *each: rule(root(0), *each), state, received, coverage)
    if not isinstance(after, dict):
        refuse(slot, rule, "return a state", words(after))
    if strange := sorted(map(str, set(after) - set(state))):
        refuse(slot, rule, f"return no more than it began with, {sorted(state)}", f"{strange} as well")
    if "round" in after:
        refuse(slot, rule, "leave the number of the round to the engine", "'round' in its state")
    if change := difference(after, {name: state[name] for name in after}):
        refuse(slot, rule, "return a state like the one it began with", change)

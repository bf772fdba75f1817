"""A problem of a user's own, looked at by shapes alone: its model, its clients' views, its tables and measures."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hush.core.evaluation import EVALUATE_AT_ONCE
from hush.core.flat import flat_shape, unravelled
from hush.core.keys import root
from hush.core.problem import Batch, ClientData, Population, Problem
from hush.core.telling import called, difference, is_array, outline, refuse, shapes, words

PROBLEM, VIEW = "the problem", "a client of the problem"
ROWS = 2  # examples that a client's view is tried on


def check_problem(problem: Problem) -> Any:
    """The model's shape, after the problem's own pieces have been looked at."""
    params = shapes(PROBLEM, problem, "init", lambda: problem.init(root(0)))
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


def check_views(problem: Problem) -> None:
    """Refuse a problem whose clients' views do not compute what local rules ask of them."""
    data, rest = eqx.partition(problem, eqx.is_array)

    def viewed(data: Any, index: Any) -> Any:
        return eqx.combine(data, rest).client(index)

    # The index is known only when the program runs: so it is here.
    made = shapes(PROBLEM, problem, "client", viewed, data, jnp.int32(0))
    if not isinstance(made, ClientData):
        refuse(PROBLEM, problem, "give a client's view as a ClientData", words(made))
    if not isinstance(made.population, Population):
        refuse(VIEW, made, "know its Population", words(made.population))
    model = flat_shape(problem)
    params = jax.eval_shape(lambda vector: unravelled(problem, vector), model)
    rows = jnp.zeros(ROWS, jnp.int32), jnp.ones(ROWS)

    def of_view(method: str, function: Any, *arguments: Any) -> Any:
        return shapes(VIEW, made, method, lambda *each: function(viewed(*each[:2]), *each[2:]), data, 0, *arguments)

    size = of_view("size", lambda view: view.size)
    if not is_array(size, (), jnp.integer):
        refuse(VIEW, made, "have a whole number as its size", words(size))
    _same(made, "unravel", of_view("unravel", lambda view, vector: view.unravel(vector), model), params)
    _same(made, "gradient", of_view("gradient", lambda view, p, r, w: view.gradient(p, r, w), params, *rows), params)
    stacked = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((ROWS, *leaf.shape), leaf.dtype), params)
    each = _offered(of_view, "example_gradients", lambda view, p, r: view.example_gradients(p, r), params, rows[0])
    if each is not None:
        _same(made, "example_gradients", each, stacked)
    own = _offered(of_view, "evaluate", lambda view, p, r: view.evaluate(p, r), params, rows[0])
    if own is not None and not (isinstance(own, Mapping) and all(is_array(it, (ROWS,)) for it in own.values())):
        refuse(VIEW, made, f"evaluate to measures of shape ({ROWS},) for {ROWS} examples", _measures_in_words(own))


def _offered(of_view: Any, method: str, *asked: Any) -> Any:
    """What a method answers; None where the view says that it has none."""
    try:
        return of_view(method, *asked)
    except ValueError as error:
        if isinstance(error.__cause__, NotImplementedError):
            return None
        raise


def _same(view: Any, method: str, found: Any, like: Any) -> None:
    if change := difference(found, like):
        what = "like the parameters" if method != "example_gradients" else "like the parameters, stacked over examples"
        refuse(VIEW, view, f"return from {method} what is {what}", change)


def _measures_in_words(found: Any) -> str:
    if not isinstance(found, Mapping):
        return words(found)
    return ", ".join(f"{name} as {words(value)}" for name, value in found.items()) or "nothing"


def measured(problem: Problem) -> Any:
    """What the problem measures on all its tables, each measure of a batch as the one number it is summed up in."""
    found: dict[Any, Any] = {}
    for name, weights in _tables(problem).items():
        batch = Batch(name, jnp.int32(0), min(EVALUATE_AT_ONCE, weights.size))
        each = shapes(PROBLEM, problem, "evaluate", lambda batch=batch: problem.evaluate(problem.init(root(0)), batch))
        if not isinstance(each, Mapping):
            return each
        for measure, value in each.items():
            of_rows = getattr(value, "shape", None) == (batch.length,)
            found[measure] = jax.ShapeDtypeStruct((), value.dtype) if of_rows else value
    return found


def _tables(problem: Problem) -> Mapping[str, Any]:
    tables = called(PROBLEM, problem, "tables", problem.tables)
    if not isinstance(tables, Mapping):
        refuse(PROBLEM, problem, "return its tables by name", outline(tables))
    for name, weights in tables.items():
        if not hasattr(weights, "dtype") or np.ndim(weights) != 1 or not np.size(weights):
            refuse(
                PROBLEM, problem, f"give the weight of every row of the table {name!r}, an array [rows]", words(weights)
            )
    return tables

"""A problem of a user's own, looked at by shapes alone: its model, its clients' views, its tables and measures."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hush.core.evaluation import EVALUATE_AT_ONCE
from hush.core.flat import flat_shape, unravelled
from hush.core.keys import root
from hush.core.problem import Batch, ClientData, Population, Problem
from hush.core.telling import called, difference, is_array, is_ours, outline, refuse, shapes, words

PROBLEM, VIEW = "the problem", "a client of the problem"
ROWS = 2  # examples that a client's view is tried on
Ask = Callable[..., Any]  # a method's name, how it is called, and with what: its answer by shapes


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
    if type(made).__module__.startswith("hush."):  # it keeps to the contract, whatever is inside it
        return

    def ask(method: str, function: Callable[..., Any], *arguments: Any) -> Any:
        asked = lambda data, *each: function(viewed(data, 0), *each)  # noqa: E731
        return shapes(VIEW, made, method, asked, data, *arguments)

    model = flat_shape(problem)
    _check_client(made, ask)
    if not is_ours(type(made)):  # ours may refuse two rows, and say it well
        _check_gradients(made, ask, model, jax.eval_shape(lambda vector: unravelled(problem, vector), model))


def _check_client(view: Any, ask: Ask) -> None:
    """Who it is one of, and how many examples it holds."""
    if not isinstance(view.population, Population):
        refuse(VIEW, view, "know its Population", words(view.population))
    size = ask("size", lambda view: view.size)
    if not is_array(size, (), jnp.integer):
        refuse(VIEW, view, "have a whole number as its size", words(size))


def _check_gradients(view: Any, ask: Ask, model: Any, params: Any) -> None:
    """What it computes of a model: like the parameters, for each example where it says so."""
    rows, weights = jnp.zeros(ROWS, jnp.int32), jnp.ones(ROWS)
    _same(view, "unravel", ask("unravel", lambda view, vector: view.unravel(vector), model), params)
    _same(view, "gradient", ask("gradient", lambda view, *each: view.gradient(*each), params, rows, weights), params)
    each = _offered(ask, "example_gradients", lambda view, *each: view.example_gradients(*each), params, rows)
    if each is not None:
        stacked = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((ROWS, *leaf.shape), leaf.dtype), params)
        _same(view, "example_gradients", each, stacked)
    own = _offered(ask, "evaluate", lambda view, *each: view.evaluate(*each), params, rows)
    if own is not None and not (isinstance(own, Mapping) and all(is_array(it, (ROWS,)) for it in own.values())):
        refuse(VIEW, view, f"evaluate to measures of shape ({ROWS},) for {ROWS} examples", _measures_in_words(own))


def _offered(ask: Ask, method: str, *asked: Any) -> Any:
    """What a method answers; None where the view says that it has none."""
    try:
        return ask(method, *asked)
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

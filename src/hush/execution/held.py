"""How much memory a traced program holds at the most: known without compiling it."""

from collections.abc import Iterator
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from hush.core.memory import bytes_of


def most_held(program: Jaxpr) -> int:
    """The most bytes of results that lie in memory at once, if operations are done by themselves and in order.

    What goes into the program is not counted. A compiler that fuses operations needs less, but may lay an array out
    twice: this says that work fits where there is room to spare, and nothing more exact.

    >>> import jax
    >>> twice_and_sum = jax.make_jaxpr(lambda x: ((x + 1) * (x + 2)).sum())(jax.numpy.zeros(1000))
    >>> most_held(twice_and_sum.jaxpr)  # both factors and their product, 1000 numbers of four bytes each
    12000
    """
    return _most_held(program, {})


def _most_held(program: Jaxpr, known: dict[int, int]) -> int:
    last = {each: place for place, step in enumerate(program.eqns) for each in _variables(step.invars)}
    last |= dict.fromkeys(_variables(program.outvars), len(program.eqns))
    held = most = 0
    ours: set[Any] = set()
    for place, step in enumerate(program.eqns):
        for inner in _programs(step.params.values()):
            if id(inner) not in known:  # the same one may be called many times
                known[id(inner)] = _most_held(inner, known)
        within = max((known[id(inner)] for inner in _programs(step.params.values())), default=0)
        most = max(most, held + within + sum(bytes_of(each.aval) for each in step.outvars))
        kept = {each for each in step.outvars if each in last}
        gone = {each for each in _variables(step.invars) if last[each] == place} & ours
        held += sum(bytes_of(each.aval) for each in kept) - sum(bytes_of(each.aval) for each in gone)
        ours |= kept
    return most


def _variables(names: Any) -> Iterator[Any]:
    return (each for each in names if not isinstance(each, Literal))


def _programs(values: Any) -> Iterator[Jaxpr]:
    """The programs within an operation: the body of a loop, the branches of a condition, a function that is called."""
    for value in values:
        if isinstance(value, ClosedJaxpr):
            yield value.jaxpr
        elif isinstance(value, Jaxpr):
            yield value
        elif isinstance(value, tuple | list):
            yield from _programs(value)

"""What is computed once, and lies in memory for all that use it."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


@jax.custom_jvp
def once(tree: Any) -> Any:
    """The same, on a CPU computed once: XLA fuses what is cheap into each of its uses, and reckons that badly.

    What goes into a loop lies in memory. This one has no turns, of which the compiler hears too late to take it out.
    """
    if jax.default_backend() != "cpu":
        return tree
    never = lax.optimization_barrier(False)
    return lax.while_loop(lambda _: never, lambda tree: jax.tree.map(jnp.zeros_like, tree), tree)


@once.defjvp
def _(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    return once(*primals), tangents[0]

"""What the models of all lanes make of the test examples."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

from hush.core.flat import unravelled
from hush.core.problem import Params
from hush.execution.engine import on_mesh, over_lanes
from hush.execution.phase import Layout


@eqx.filter_jit
def of_each_lane(
    function: Callable[[Any, Params], jax.Array], problem: Any, models: jax.Array, layout: Layout
) -> jax.Array:
    """`function(problem, params)` of every lane's model, [lanes, …]; models are [lanes, d]."""
    data, static = eqx.partition(problem, eqx.is_array)

    def of_lanes(data: Any, models: Any, _: Any) -> jax.Array:
        whole = eqx.combine(data, static)
        return over_lanes(lambda model: function(whole, unravelled(whole, model)), layout.lanes_at_once)(models)

    return on_mesh(of_lanes, layout, data, models)

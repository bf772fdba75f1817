"""Low-rank adaptation: a linear layer learns by two thin matrices beside its own (Hu et al. 2022, arXiv:2106.09685)."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from hush.core.check import integer, positive
from hush.models.layers import LINEAR, Linear, normal
from hush.models.partly import Partly, Where, chosen, trainable, whole
from hush.models.products import product


class LowRank(eqx.Module):
    """x ↦ W x + b + (α/r) B A x, A [r, inputs] and B [outputs, r]: equation 3."""

    base: Any
    A: Array
    B: Array
    scale: float = eqx.field(static=True)

    def __call__(self, x: Array, *, key: Array | None = None) -> Array:
        return self.base(x) + product(self.scale * product(x, self.A.T), self.B.T)

    def merged(self) -> Any:
        """The layer that W + (α/r) B A makes: as fast as before, and nothing beside it."""
        return eqx.tree_at(lambda base: base.weight, self.base, self.base.weight + self.scale * self.B @ self.A)


def lora(
    model: Any, rank: int = 4, alpha: float = 8.0, *, key: Array, where: Where = ("*",), also: Where = ()
) -> Partly:
    """A module whose linear layers learn by matrices of a low rank, for `model=` of a task; all else is frozen.

    Adapted are the layers of `eqx.nn.Linear` and of hush's own whose names `where` chooses, such as
    `.blocks[0].attention.query`. A is drawn from `key` and B is zero, so that training starts from the module itself.
    `also` chooses arrays to train as they are, such as `["*head*"]`. Of a model of `result.model()`, `merged` makes the
    plain module again.

    >>> module = eqx.nn.MLP(4, 3, 8, depth=1, key=jax.random.key(0))
    >>> adapted = lora(module, rank=2, key=jax.random.key(1))
    >>> sum(leaf.size for leaf in jax.tree.leaves(adapted.start)) == 2 * (4 + 8) + 2 * (8 + 3)
    True
    """
    integer("rank", rank)
    positive("alpha", alpha)
    module = whole(model)
    found = jax.tree_util.tree_flatten_with_path(module, is_leaf=_is_layer)[0]
    if any(isinstance(layer, LowRank) for _, layer in found):
        raise ValueError(
            f"{type(module).__name__} has low-rank matrices already: merge them first, by hush.models.merged"
        )
    layers = [jax.tree_util.keystr(path) for path, layer in found if _is_linear(layer)]
    if not layers:
        raise ValueError(
            f"{type(module).__name__} has no linear layers to adapt: eqx.nn.Linear, hush.models.layers.Linear"
        )
    keys = {name: jax.random.fold_in(key, place) for place, name in enumerate(layers) if name in chosen(layers, where)}

    def adapt(path: Any, layer: Any) -> Any:
        name = jax.tree_util.keystr(path)
        return _adapted(layer, rank, alpha, keys[name]) if name in keys else layer

    adapted = jax.tree_util.tree_map_with_path(adapt, module, is_leaf=_is_layer)
    return trainable(adapted, _matrices(adapted, also))


def merged(model: Any) -> Any:
    """A module with every low-rank pair put into the weights of its layer: the same answers, but for rounding."""
    return jax.tree.map(
        lambda layer: layer.merged() if isinstance(layer, LowRank) else layer, whole(model), is_leaf=_is_layer
    )


def _is_linear(layer: Any) -> bool:
    """A matrix that is multiplied by one vector; an equinox layer of "scalar" inputs or outputs is none."""
    return type(layer) in (eqx.nn.Linear, Linear) and layer.weight.ndim == 2 and _takes_vectors(layer)


def _takes_vectors(layer: Any) -> bool:
    sizes = (getattr(layer, "in_features", 0), getattr(layer, "out_features", 0))
    return "scalar" not in sizes


def _is_layer(part: Any) -> bool:
    return isinstance(part, LowRank) or _is_linear(part)


def _adapted(layer: Any, rank: int, alpha: float, key: Array) -> LowRank:
    outputs, inputs = layer.weight.shape
    return LowRank(layer, normal(key, (rank, inputs), inputs, LINEAR), jnp.zeros((outputs, rank)), alpha / rank)


def _matrices(adapted: Any, also: Where) -> Where:
    """The names of all A and B, and of what is trained beside them."""
    layers = jax.tree_util.tree_flatten_with_path(adapted, is_leaf=_is_layer)[0]
    pairs = {
        f"{jax.tree_util.keystr(path)}.{matrix}"
        for path, layer in layers
        if isinstance(layer, LowRank)
        for matrix in ("A", "B")
    }
    if callable(also):
        return lambda name: name in pairs or also(name)
    arrays = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(adapted)]
    beside: Sequence[str] = chosen(arrays, also)
    return lambda name: name in pairs or name in beside

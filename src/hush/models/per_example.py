"""The sum of clipped example gradients of a model, at about the price of its ordinary gradient.

Of an example's gradient a layer's share follows from the layer's input a and from δ, the gradient with respect to its
output. One backward pass finds every δ; for a linear layer both the norm and the weighted sum of the shares come from
a and δ directly, so that no example's gradient is ever written down (Goodfellow 2015, arXiv:1510.01799; with the δ kept
for the sum, as here, Bu et al. 2023, arXiv:2210.00038). Other layers have their own shares written down, side by side.

**With products in bfloat16** (`hush.models.products`) the bound holds as it does in float32, by the same argument. What
is clipped need not be the exact gradient of anything: it must be one vector g_r for each example that follows from that
example and the parameters alone, and the norm must be of the very g_r that is summed. Both are so. Every a and δ comes
from products in which an example meets the parameters and no other example; rounding them changes which vector g_r is.
The share of a linear layer is δ aᵀ of the float32 δ and a as they are found, and both its norm and the sum are reckoned
from these, the sum in full float32; the shares of other layers are written down as float32 arrays, however roughly they
were computed, and those arrays are measured and summed. No product is taken in bfloat16 after a norm: the factor
min(1, C/‖g_r‖) and the sum over examples are never rounded to it. What is left beyond the bound is what float32 leaves
without bfloat16 too, some 10⁻⁶ of it. A number that is rounded beyond the range becomes infinite, and such an example
counts as zero.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from hush.core.clipping import Factors, clipping, scaled, weighted_sum
from hush.core.norms import full, norms, power_of_two, reciprocal
from hush.models.convolution import PATCHES
from hush.models.layers import Convolution, DepthwiseConvolution, GroupNorm, Linear, Residual, Sequential, traced_once
from hush.models.products import FLOAT32, products_in, settled

LAYERS = (Linear, Convolution, DepthwiseConvolution, GroupNorm)

Call = Callable[[Any, Array], Array]  # (layer, its input) -> its output
Sum = Callable[[Factors], Any]  # factors [b] -> Σ_r factors_r · this layer's share of g_r


def is_covered(network: Any) -> bool:
    """Whether every parameter sits in a layer that is known here, and known to be called once.

    Exact types only: a class derived from these, or any other container, may call a layer twice or in another way.
    """
    return _parameters(_layers(network)) == _parameters(network)


def _parameters(tree: Any) -> int:
    return len(jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array)))


def _layers(node: Any) -> list[Any]:
    """The layers with parameters, in the order of the leaves, which is the order in which `_through` calls them."""
    if type(node) is Sequential:
        return [layer for part in node.layers for layer in _layers(part)]
    if type(node) is Residual:
        return _layers(node.branch) + _layers(node.shortcut)
    return [node] if type(node) in LAYERS else []


def _through(node: Any, x: Array, call: Call) -> Array:
    """The network applied to one example, every layer with parameters by `call`."""
    if type(node) is Sequential:
        for part in node.layers:
            x = _through(part, x, call)
        return x
    if type(node) is Residual:
        return _through(node.branch, x, call) + _through(node.shortcut, x, call)
    return call(node, x) if type(node) in LAYERS else traced_once(node, x)


def clipped_gradient(
    network: Any,
    loss: Callable[[Array, Array], Array],
    inputs: Array,
    targets: Array,
    weights: Array,
    bound: float | Array,
    precision: str = FLOAT32,
) -> Any:
    """Σ_r w_r · g_r · min(1, bound/‖g_r‖), g_r the gradient of loss(network(inputs_r), targets_r), shaped as `network`.

    The network must be covered; `precision` is that of its products, and of nothing else.
    """
    layers, found = _layers(network), _inputs_and_deltas(network, loss, inputs, targets, precision)
    shares = [_share(*each, precision) for each in zip(layers, *found, strict=True)]
    factors = clipping(norms([share for share, _ in shares]), weights, bound)
    leaves = jax.tree.leaves([total(factors) for _, total in shares])
    return jax.tree.unflatten(jax.tree.structure(eqx.filter(network, eqx.is_inexact_array)), leaves)


def _inputs_and_deltas(
    network: Any, loss: Callable[[Array, Array], Array], inputs: Array, targets: Array, precision: str
) -> tuple[list[Array], list[Array]]:
    """Every layer's input, and the gradient of the loss with respect to its output, each [b, …]."""

    def outputs(x: Array) -> list[Array]:
        found: list[Array] = []

        def call(layer: Any, a: Array) -> Array:
            found.append(traced_once(layer, a))
            return found[-1]

        _through(network, x, call)
        return found

    def one(shifts: list[Array], x: Array, target: Array) -> tuple[Array, list[Array]]:
        seen: list[Array] = []

        def call(layer: Any, a: Array) -> Array:
            seen.append(a)
            return traced_once(layer, a) + shifts[len(seen) - 1]

        with products_in(precision):
            output = _through(network, x, call)
        return loss(output, target), seen

    # Outputs shifted by zero are the outputs; the gradient with respect to the shift is δ.
    with products_in(precision):  # a float32 zero would make an image of bfloat16 float32
        shaped = jax.eval_shape(outputs, inputs[0])
    zeros = [jnp.zeros(output.shape, output.dtype) for output in shaped]
    deltas, seen = jax.vmap(jax.grad(one, has_aux=True), in_axes=(None, 0, 0))(zeros, inputs, targets)
    return [settled(a) for a in seen], [settled(delta) for delta in deltas]


def _share(layer: Any, a: Array, delta: Array, precision: str) -> tuple[Array, Sum]:
    """The norm of the layer's share of every g_r, and the shares' weighted sum."""
    if type(layer) is Linear and a.ndim == 2:
        return _outer(layer, a, delta)
    return _stacked(layer, a, delta, precision)


def _outer(layer: Linear, a: Array, delta: Array) -> tuple[Array, Sum]:
    """∂ℓ/∂W = δ aᵀ and ∂ℓ/∂b = δ for an input that is one vector: ‖·‖ = ‖δ‖ · ‖(a, 1)‖."""
    delta = full(delta)
    lengths, breadths = norms(delta), norms((a, jnp.ones(len(a))), skip=True)
    # A tiny δ and a huge a may make a share of any length: each gets a length of about one before it is multiplied.
    unit, wide = power_of_two(lengths), power_of_two(breadths)

    def total(factors: Factors) -> Any:
        weights = jnp.where(factors.weight > 0, factors.weight * (factors.scale * (unit * wide)), 0)
        left = weights[:, None] * scaled(factors._replace(scale=reciprocal(unit)), delta)
        right = scaled(factors._replace(scale=reciprocal(wide)), a)
        # Rounded before they are multiplied, the factors would make a share longer than its norm said.
        weight = jnp.tensordot(left, right, (0, 0), precision="highest")
        return eqx.tree_at(
            lambda layer: (layer.weight, layer.bias), layer, (weight, jnp.sum(reciprocal(wide)[:, None] * left, axis=0))
        )

    return lengths * breadths, total


def _stacked(layer: Any, a: Array, delta: Array, precision: str) -> tuple[Array, Sum]:
    """Any layer: the examples' gradients of its own parameters.

    A convolution's by patches: with weights of their own for every example too, a library would have a group for each.
    """
    way = (PATCHES,) if type(layer) is Convolution else ()

    def one(a: Array, delta: Array) -> Any:
        with products_in(precision):
            output, pull = jax.vjp(lambda layer: layer(a, *way), layer)
            return pull(delta.astype(output.dtype))[0]

    gradients = jax.vmap(one)(a, delta)
    return norms(gradients, skip=True), lambda factors: weighted_sum(factors, gradients)

"""Products of matrices inside a model, in the precision that the problem asks for: the one place where it is known.

With bfloat16 both factors of a product are rounded to the nearest bfloat16 (8 significant bits, float32's range), those
of the backward pass too, where the gradient that comes in is one factor. Products of such numbers are exact in float32,
and are added up in float32. What a convolution hands on is rounded to bfloat16, and images between layers stay so; what
comes back through them is bfloat16 as well. All else is float32: parameters and their gradients, what linear layers
hand on, the statistics of a normalisation and sums over pixels, losses; and the products and sums of a depthwise
convolution, which is no product of matrices, inside it.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from hush.core.check import known
from hush.core.keys import Key
from hush.core.problem import Params

FLOAT32, BFLOAT16 = "float32", "bfloat16"
PRECISIONS = (FLOAT32, BFLOAT16)
_asked: ContextVar[str] = ContextVar("precision of products", default=FLOAT32)
_anywhere: ContextVar[bool] = ContextVar("bfloat16 on any backend", default=False)


def in_bfloat16() -> bool:
    """Whether what is traced now takes its products in bfloat16."""
    return _asked.get() == BFLOAT16


@contextmanager
def products_in(precision: str) -> Iterator[None]:
    """What is traced in here takes its products in this precision; in float32, as without it.

    JAX is told as well: what it has traced in one precision it then never takes for the other.
    """
    if precision == FLOAT32:
        yield
        return
    before = _asked.set(precision)
    try:
        with jax.default_matmul_precision(precision):
            yield
    finally:
        _asked.reset(before)


def product(a: Array, b: Array, answer: Any = jnp.float32) -> Array:
    """a @ b of vectors or stacks of them [..., k] and a matrix [k, n]; with bfloat16 its sums are told as `answer`."""
    if not in_bfloat16():
        return a @ b
    return _of_rounded(a.reshape(1, -1, a.shape[-1]), b[None], answer).reshape(*a.shape[:-1], b.shape[-1])


def einsum(subscripts: str, a: Array, b: Array) -> Array:
    """A product of two arrays in Einstein's words, such as "qhf,khf->hqk"."""
    if not in_bfloat16():
        return jnp.einsum(subscripts, a, b)
    given, out = subscripts.split("->")
    left, right = given.split(",")
    sizes = dict(zip(left, a.shape, strict=True)) | dict(zip(right, b.shape, strict=True))
    shared = [axis for axis in left if axis in right and axis in out]
    summed = [axis for axis in left if axis in right and axis not in out]
    rows, columns = ([axis for axis in each if axis not in shared + summed] for each in (left, right))

    def stacked(array: Array, axes: str, *groups: list[str]) -> Array:
        order = [axes.index(axis) for group in groups for axis in group]
        return array.transpose(order).reshape([math.prod(sizes[axis] for axis in group) for group in groups])

    pair = stacked(a, left, shared, rows, summed), stacked(b, right, shared, summed, columns)
    found = _of_rounded(*pair, jnp.float32)
    axes = shared + rows + columns
    return found.reshape([sizes[axis] for axis in axes]).transpose([axes.index(axis) for axis in out])


def halved(x: Array) -> Array:
    """What a layer hands on where products are in bfloat16: the nearest bfloat16. Elsewhere it stays what it is."""
    return _nearest(x).astype(jnp.bfloat16) if in_bfloat16() else x


def wide(x: Array) -> Array:
    """At least float32: half precision is too coarse for long sums."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def rounded(x: Array, kind: Any) -> Array:
    """The nearest number of this kind, bfloat16 or what x is already."""
    return x if x.dtype == kind else _nearest(x).astype(kind)


def product_of(a: Array, b: Array) -> Array:
    """[s, m, k] times [s, k, n], s products: in bfloat16 if the factors are, answered in float32."""
    return _of_rounded(a, b, jnp.float32) if a.dtype == jnp.bfloat16 else a @ b


def settled(x: Array) -> Array:
    """An array of bfloat16 as float32, to whoever reads it the same numbers.

    A compiler may hand the float32 that a bfloat16 was made of to one reader, and the bfloat16 to another.
    """
    return _nearest(x.astype(jnp.float32)) if x.dtype == jnp.bfloat16 else x


def _of_rounded(a: Array, b: Array, answer: Any) -> Array:
    """[s, m, k] times [s, k, n], each of s products of matrices by itself, with factors in bfloat16.

    A primitive of JAX's, for the sake of the backward pass. The product that JAX has could take factors in bfloat16 and
    answer in float32; but its gradient would then be a product of float32 and bfloat16, which no matrix unit takes.
    """
    found: Array = _product.bind(a, b, answer=jnp.dtype(answer))
    return found


_product = Primitive("product_in_bfloat16")


_product.def_impl(jax.jit(_of_rounded, static_argnums=2))  # by hand too it is compiled for where it runs


def _in_halves(a: Array, b: Array, *, answer: Any) -> Array:
    """Where there are matrix units for it: they add up in float32, and tell it as `answer`."""
    return _dots(_nearest(a).astype(jnp.bfloat16), _nearest(b).astype(jnp.bfloat16), answer)


def _in_floats(a: Array, b: Array, *, answer: Any) -> Array:
    """Where there are none: the same numbers, and the same but for the order in which they are added."""
    found = _dots(_nearest(a).astype(jnp.float32), _nearest(b).astype(jnp.float32), jnp.float32)
    return found if answer == jnp.float32 else _nearest(found).astype(answer)


def _dots(a: Array, b: Array, answer: Any) -> Array:
    return lax.dot_general(a, b, (((2,), (1,)), ((0,), (0,))), preferred_element_type=answer)


def _nearest(x: Array) -> Array:
    """The nearest bfloat16, in the type of x: a change of type alone is what a compiler may leave out."""
    x = x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.float32)  # inputs may be whole numbers
    return lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7)


def _shaped(a: Any, b: Any, *, answer: Any) -> Any:
    return a.update(shape=(*a.shape[:2], b.shape[2]), dtype=answer)


def _batched(pair: tuple[Array, Array], axes: tuple[Any, Any], *, answer: Any) -> tuple[Array, int]:
    """Of many pairs: more products, or where one factor is the same in all of them, a longer one."""
    a, b = pair
    at_a, at_b = axes
    if at_a is None:
        found, axis = _batched((_turned(b, at_b), a.swapaxes(1, 2)), (0, at_a), answer=answer)
        return found.swapaxes(2, 3), axis
    a = jnp.moveaxis(a, at_a, 0)
    many, stack, rows, inner = a.shape
    if at_b is None:
        found = _of_rounded(a.swapaxes(0, 1).reshape(stack, many * rows, inner), b, answer)
        return found.reshape(stack, many, rows, b.shape[-1]).swapaxes(0, 1), 0
    b = jnp.moveaxis(b, at_b, 0)
    found = _of_rounded(a.reshape(many * stack, rows, inner), b.reshape(many * stack, *b.shape[2:]), answer)
    return found.reshape(many, stack, rows, b.shape[-1]), 0


def _turned(b: Array, axis: int) -> Array:
    """Matrices turned, with the axis of the many in front."""
    return jnp.moveaxis(b, axis, 0).swapaxes(2, 3)


_product.def_abstract_eval(_shaped)
# A gradient is told in the type of what it is a gradient of.
ad.defbilinear(
    _product,
    lambda back, a, b, answer: _of_rounded(back, b.swapaxes(1, 2), a.aval.dtype),
    lambda back, a, b, answer: _of_rounded(a.swapaxes(1, 2), back, b.aval.dtype),
)
batching.primitive_batchers[_product] = _batched
mlir.register_lowering(_product, mlir.lower_fun(_in_halves, multiple_results=False))
mlir.register_lowering(_product, mlir.lower_fun(_in_floats, multiple_results=False), platform="cpu")


class Rounded(eqx.Module):
    """A model whose products are in another precision than float32; its parameters and its answers are float32."""

    inner: Any
    precision: str = eqx.field(static=True)

    def init(self, key: Key) -> Params:
        return self.inner.init(key)

    def apply(self, params: Params, inputs: Array) -> Array:
        """Inputs [b, …] in, outputs [b, …] out."""
        with products_in(self.precision):
            outputs: Array = self.inner.apply(params, inputs)
        return outputs

    def rebuild(self, params: Params) -> Any:
        """The network itself, with these parameters in it: called by hand it computes in float32."""
        return self.inner.rebuild(params)


@contextmanager
def on_any_backend() -> Iterator[None]:
    """A problem made in here may ask for bfloat16 on a CPU too: to look there at what an accelerator computes."""
    before = _anywhere.set(True)
    try:
        yield
    finally:
        _anywhere.reset(before)


def check_precision(precision: str, model: Any, ours: tuple[str, ...]) -> None:
    """Refuse a precision that is not known, or not of this model, or not of this machine.

    Of a model that is not hush's own it is not known which products are statistics, or sums that must not be rounded.
    """
    known("precision", precision, PRECISIONS)
    if precision == FLOAT32:
        return
    if not isinstance(model, str) or model not in ours:
        found = repr(model) if isinstance(model, str) else f"a model of your own, {type(model).__name__}"
        raise ValueError(
            f'precision="{precision}" is for the models {", ".join(ours)}, by their names, found {found}, whose '
            f'products are not hush\'s; allowed: precision="{FLOAT32}", or what the model itself asks of JAX'
        )
    if jax.default_backend() == "cpu" and not _anywhere.get():
        raise ValueError(
            f'precision="{precision}" is for GPUs and other accelerators; JAX computes on a CPU here, where it '
            f'would be slower than float32 and less exact; allowed: precision="{FLOAT32}"'
        )

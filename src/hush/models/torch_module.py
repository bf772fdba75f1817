"""A PyTorch module as a model: JAX calls back into torch for its outputs and for their gradients.

Every local step leaves the compiled program twice, so this is slower than a model written in JAX. It is for the module
that you have already.
"""

import contextlib
import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from hush.core.keys import Key
from hush.extras import require

try:
    import torch
except ImportError:
    require("torch")
    raise  # it is there, and broken

Array = np.ndarray[Any, Any]
Weights = dict[str, jax.Array]  # a module's trained parameters by name

# What jax.pure_callback does, but for one thing: that hands over arrays of JAX, and large ones are still to be copied
# by the very threads that call back. With a device on every core each of them would wait for another, for ever.
_call = Primitive("call_torch")
_call.multiple_results = True


def _one_by_one(arguments: Any, axes: Any, **settings: Any) -> Any:
    mapped = {i: jnp.moveaxis(arguments[i], axis, 0) for i, axis in enumerate(axes) if axis is not None}

    def one(mapped: dict[int, jax.Array]) -> Any:
        return _call.bind(*(mapped.get(i, whole) for i, whole in enumerate(arguments)), **settings)

    found = lax.map(one, mapped)
    return found, [0] * len(found)


def _compiled(context: Any, *operands: Any, function: Any, shapes: Any) -> Any:
    types = context.avals_in, context.avals_out
    emit = partial(mlir.emit_python_callback, has_side_effect=False, returns_token=False)
    return emit(context, function, None, operands, *types)[0]


_call.def_abstract_eval(lambda *_, function, shapes: [jax.core.ShapedArray(shape, jnp.float32) for shape in shapes])
_call.def_impl(lambda *arguments, function, shapes: [jnp.array(array) for array in function(*arguments)])
batching.primitive_batchers[_call] = _one_by_one
mlir.register_lowering(_call, _compiled)


def _call_back(function: Callable[..., list[Array]], like: Any, *arguments: Any) -> Any:
    """A function of the arguments' leaves, outside of the compiled program; its answer has the shapes of `like`."""
    leaves, structure = jax.tree.flatten(like)
    shapes = tuple(leaf.shape for leaf in leaves)
    return jax.tree.unflatten(structure, _call.bind(*jax.tree.leaves(arguments), function=function, shapes=shapes))


def _tensor(array: Any) -> torch.Tensor:
    # A copy: this memory is JAX's, and a layer may write into what it is given.
    return torch.from_numpy(np.array(array))


def _arranged(inputs: torch.Tensor) -> torch.Tensor:
    """Images as torch wants them: [b, H, W, C] -> [b, C, H, W]; anything else as it is."""
    return inputs.permute(0, 3, 1, 2).contiguous() if inputs.ndim == 4 else inputs


class Wrapped:
    """The torch side: one module, never changed, and the copies of it that are at work.

    Two of these are equal only when they are the same, so that a compiled program belongs to one module.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = copy.deepcopy(module).cpu()
        # In the order in which JAX has a dictionary.
        self.names = sorted(name for name, value in self.module.named_parameters() if value.requires_grad)
        self._idle: list[torch.nn.Module] = []
        self._outputs: dict[tuple[int, ...], tuple[int, ...]] = {}
        # As many callbacks as devices may run at once: together they take the threads that torch has, and no more.
        self._threads = max(1, torch.get_num_threads() // jax.local_device_count())

    @property
    def depends_on(self) -> torch.nn.Module:
        """What makes it another model, for a run's fingerprint."""
        return self.module

    @contextlib.contextmanager
    def _working(self) -> Iterator[torch.nn.Module]:
        """A copy for one caller at a time: a functional call swaps the weights of its module while it runs."""
        try:
            module = self._idle.pop()
        except IndexError:
            module = copy.deepcopy(self.module).eval()
        before = torch.get_num_threads()  # of this thread, which may be the user's own
        torch.set_num_threads(self._threads)
        try:
            yield module
        finally:
            torch.set_num_threads(before)
            self._idle.append(module)

    def forward(self, *arrays: Any) -> list[Array]:
        """The outputs, from the weights and the inputs."""
        *weights, inputs = map(_tensor, arrays)
        with self._working() as module, torch.no_grad():
            named = dict(zip(self.names, weights, strict=True))
            outputs = torch.func.functional_call(module, named, (_arranged(inputs),))
        return [outputs.contiguous().numpy()]

    def backward(self, *arrays: Any, to_inputs: bool = False) -> list[Array]:
        """The gradients for the weights, from the weights, the inputs and the outputs' cotangent."""
        *weights, inputs, cotangent = map(_tensor, arrays)
        wanted = [*weights, inputs] if to_inputs else weights
        for leaf in wanted:
            leaf.requires_grad_()
        with self._working() as module, torch.enable_grad():
            named = dict(zip(self.names, weights, strict=True))
            # Not the leaf itself: a first layer that works in place would be refused.
            outputs = torch.func.functional_call(module, named, (_arranged(inputs.clone()),))
            found = torch.autograd.grad(outputs, wanted, cotangent, allow_unused=True, materialize_grads=True)
        return [gradient.contiguous().numpy() for gradient in found]

    def backward_to_inputs(self, *arrays: Any) -> list[Array]:
        """The same, and the gradient for the inputs."""
        return self.backward(*arrays, to_inputs=True)

    def outputs(self, inputs: tuple[int, ...]) -> jax.ShapeDtypeStruct:
        """What inputs of shape [b, …] are answered by; the module is tried once for each shape of an example."""
        if inputs[1:] not in self._outputs:
            self._outputs[inputs[1:]] = _tried(copy.deepcopy(self.module), inputs[1:])
        return jax.ShapeDtypeStruct((inputs[0], *self._outputs[inputs[1:]]), jnp.float32)


def _tried(module: torch.nn.Module, example: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of one output; refuses what would go wrong later, where the user still sees what it was."""
    kind = type(module).__name__
    # From [0, 1), so that a module which takes its inputs for the numbers of words finds the first one.
    inputs = _arranged(torch.from_numpy(np.random.default_rng(0).random((2, *example), np.float32)))
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        try:
            outputs, again = module.eval()(inputs.clone()), module(inputs.clone())
        except Exception as error:
            raise ValueError(f"the model {kind} failed on a batch {tuple(inputs.shape)}: {error}") from error
        # A layer that cannot work in training mode cannot collect anything in it either.
        with contextlib.suppress(Exception):
            module.train()(inputs.clone())
    for name, buffer in module.named_buffers():
        if not torch.equal(before[name], buffer):
            raise ValueError(_statistics(f"buffer {name!r}", kind))
    if not isinstance(outputs, torch.Tensor) or outputs.dtype != torch.float32 or outputs.shape[:1] != (2,):
        found = [*outputs.shape, outputs.dtype] if isinstance(outputs, torch.Tensor) else type(outputs).__name__
        raise ValueError(f"the model {kind} must answer a batch of 2 by one float32 tensor [2, …], found {found}")
    if not outputs.requires_grad:
        raise ValueError(f"the outputs of the model {kind} do not depend on the parameters to train")
    if not torch.equal(outputs, again):
        raise ValueError(
            f"the model {kind} answers the same inputs differently each time, though it is in evaluation mode: "
            "such randomness cannot be repeated; use layers that stop it there, such as torch.nn.Dropout"
        )
    return tuple(outputs.shape[1:])


def _statistics(what: str, model: str) -> str:
    return (
        f"the {what} of the model {model} holds running statistics, which training changes without a gradient: "
        "clients would disagree about them; use a layer without, such as torch.nn.GroupNorm"
    )


def _check(module: torch.nn.Module) -> None:
    """Refuse what cannot be trained by gradients alone."""
    kind = type(module).__name__
    for name, layer in module.named_modules():
        # Batch normalisation without running statistics still lets the examples of a batch see each other.
        batch = isinstance(layer, torch.nn.modules.batchnorm._BatchNorm)
        if batch or getattr(layer, "track_running_stats", False):
            raise ValueError(_statistics(f"layer {name!r} ({type(layer).__name__})", kind))
    for name, value in module.named_parameters():
        if torch.nn.parameter.is_lazy(value):
            raise ValueError(f"the parameter {name!r} of the model {kind} has no shape yet: call the model once before")
        if value.requires_grad and value.dtype != torch.float32:
            raise ValueError(f"parameters must be float32, found {value.dtype} for {name!r}: convert them by .float()")
    if not any(value.requires_grad for value in module.parameters()):
        raise ValueError(f"the model {kind} has no parameters to train: none with requires_grad=True")


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _apply(wrapped: Wrapped, params: Weights, inputs: jax.Array) -> jax.Array:
    return _call_back(wrapped.forward, wrapped.outputs(inputs.shape), params, inputs)


def _forward(wrapped: Wrapped, params: Any, inputs: Any) -> Any:
    weights = {name: primal.value for name, primal in params.items()}
    # Whether gradients for the inputs are asked for is part of the program: training never asks.
    asked = () if inputs.perturbed else None
    return _apply(wrapped, weights, inputs.value), (weights, inputs.value, asked)


def _backward(wrapped: Wrapped, kept: Any, cotangent: Any) -> Any:
    params, inputs, asked = kept
    if isinstance(cotangent, SymbolicZero):
        return None, None
    if asked is None:
        return _call_back(wrapped.backward, params, params, inputs, cotangent), None
    return _call_back(wrapped.backward_to_inputs, (params, inputs), params, inputs, cotangent)


_apply.defvjp(_forward, _backward, symbolic_zeros=True)


class TorchModule(eqx.Module):
    """A user's `torch.nn.Module`, written for a batch; every repetition starts from the weights it came with.

    Images come channels last in hush and are handed over channels first, as torch has them: inputs of four axes
    [b, H, W, C] become [b, C, H, W]; inputs of any other number of axes are handed over as they are.

    The module always runs in evaluation mode, so dropout does nothing: its randomness would have no address and could
    not be repeated. Parameters with `requires_grad=False` and buffers stay as they came. Refused are layers that
    keep running statistics (batch normalisation), parameters that are not float32, and modules with none to train.
    The module is copied: what happens to the user's own afterwards changes nothing here, and the other way round.
    """

    start: Weights
    wrapped: Wrapped = eqx.field(static=True)

    def __init__(self, module: torch.nn.Module) -> None:
        if not isinstance(module, torch.nn.Module):
            raise ValueError(f"the model must be a torch.nn.Module, found {type(module).__name__}")
        _check(module)
        self.wrapped = Wrapped(module)
        weights = dict(self.wrapped.module.named_parameters())
        self.start = {name: jnp.array(weights[name].detach().numpy()) for name in self.wrapped.names}

    def init(self, key: Key) -> Weights:
        return self.start

    def apply(self, params: Weights, inputs: jax.Array) -> jax.Array:
        integers = jnp.issubdtype(inputs.dtype, jnp.integer)  # tokens stay what they are; torch looks up by either size
        return _apply(self.wrapped, params, inputs if integers else jnp.asarray(inputs, jnp.float32))

    def rebuild(self, params: Weights) -> torch.nn.Module:
        """A copy of the module on the CPU, with these weights, in the mode (training or evaluation) it came in."""
        module = copy.deepcopy(self.wrapped.module)
        module.load_state_dict({name: _tensor(value) for name, value in params.items()}, strict=False)
        return module

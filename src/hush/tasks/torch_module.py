"""A PyTorch module as a model: JAX calls back into torch for its outputs and for their gradients.

Every local step leaves the compiled program twice, so this is slower than a model written in JAX. It is for the module
that you have already.
"""

import contextlib
import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from hush.core.keys import Key

try:
    import torch
except ImportError as error:
    raise ImportError('a torch.nn.Module as a model needs PyTorch: pip install "hush[torch]"') from error

Array = np.ndarray[Any, Any]
Weights = dict[str, jax.Array]  # a module's trained parameters by name
Tensors = dict[str, torch.Tensor]


def _tensor(array: Any) -> torch.Tensor:
    # A copy: this memory is JAX's, and a layer may write into what it is given.
    return torch.from_numpy(np.array(array))


def _arranged(inputs: torch.Tensor) -> torch.Tensor:
    """Images as torch wants them: [b, H, W, C] -> [b, C, H, W]; anything else as it is."""
    return inputs.permute(0, 3, 1, 2).contiguous() if inputs.ndim == 4 else inputs


class Held:
    """The torch side: one module, never changed, and the copies of it that are at work.

    Two of these are equal only when they are the same, so that a compiled program belongs to one module.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = copy.deepcopy(module).cpu()
        self.name = type(module).__name__
        self._idle: list[torch.nn.Module] = []
        self._shapes: dict[tuple[int, ...], tuple[int, ...]] = {}
        # As many callbacks as devices may run at once: together they take the threads that torch has, and no more.
        self._threads = max(1, torch.get_num_threads() // jax.local_device_count())

    @contextlib.contextmanager
    def _working(self) -> Iterator[torch.nn.Module]:
        """A copy for one caller at a time: a functional call swaps the weights of its module while it runs."""
        try:
            module = self._idle.pop()
        except IndexError:
            module = copy.deepcopy(self.module).eval()
        before = torch.get_num_threads()
        torch.set_num_threads(self._threads)
        try:
            yield module
        finally:
            torch.set_num_threads(before)
            self._idle.append(module)

    def forward(self, params: dict[str, Any], inputs: Any) -> Array:
        """The outputs."""
        weights = {name: _tensor(value) for name, value in params.items()}
        with self._working() as module, torch.no_grad():
            outputs = torch.func.functional_call(module, weights, (_arranged(_tensor(inputs)),))
            return outputs.contiguous().numpy()

    def backward(self, params: dict[str, Any], inputs: Any, cotangent: Any) -> dict[str, Array]:
        """What the outputs' cotangent is for the weights."""
        return self._pull_back(params, inputs, cotangent, False)[0]

    def backward_to_inputs(self, params: dict[str, Any], inputs: Any, cotangent: Any) -> tuple[dict[str, Array], Array]:
        """What the outputs' cotangent is for the weights and for the inputs."""
        return self._pull_back(params, inputs, cotangent, True)

    def _pull_back(
        self, params: dict[str, Any], inputs: Any, cotangent: Any, to_inputs: bool
    ) -> tuple[dict[str, Array], Array]:
        weights = {name: _tensor(value).requires_grad_() for name, value in params.items()}
        given = _tensor(inputs).requires_grad_(to_inputs)
        wanted = [*weights.values(), *([given] if to_inputs else [])]
        with self._working() as module, torch.enable_grad():
            # Not the leaf itself: a first layer that works in place would be refused.
            outputs = torch.func.functional_call(module, weights, (_arranged(given.clone()),))
            found = torch.autograd.grad(outputs, wanted, _tensor(cotangent), allow_unused=True, materialize_grads=True)
        arrays = [gradient.contiguous().numpy() for gradient in found]
        return dict(zip(weights, arrays, strict=False)), arrays[-1]

    def shape(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the outputs for inputs [b, …]; tries the module once for every shape of an example."""
        if inputs[1:] not in self._shapes:
            self._shapes[inputs[1:]] = self._try(inputs[1:])
        return (inputs[0], *self._shapes[inputs[1:]])

    def _try(self, example: tuple[int, ...]) -> tuple[int, ...]:
        """Refuse what would go wrong later, where the user still sees which layer it was."""
        # From [0, 1), so that a module which takes its inputs for the numbers of words finds the first one.
        inputs = _arranged(torch.from_numpy(np.random.default_rng(0).random((2, *example), np.float32)))
        module = copy.deepcopy(self.module).eval()
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            try:
                outputs, again = module(inputs.clone()), module(inputs.clone())
            except Exception as error:
                shape = ("b", *inputs.shape[1:])
                raise ValueError(f"the model {self.name} failed on inputs of shape {shape}: {error}") from error
            if not isinstance(outputs, torch.Tensor) or outputs.dtype != torch.float32 or outputs.shape[:1] != (2,):
                found = f"{outputs.dtype} {tuple(outputs.shape)}" if isinstance(outputs, torch.Tensor) else type(outputs)
                raise ValueError(f"the model {self.name} must answer a batch of 2 by a float32 [2, …], found {found}")
            if not outputs.requires_grad:
                raise ValueError(f"the outputs of the model {self.name} do not depend on its trained parameters")
            if not torch.equal(outputs, again):
                raise ValueError(
                    f"the model {self.name} answers the same inputs differently in evaluation mode: its own randomness "
                    "cannot be repeated; take it out, or let it stop in evaluation mode as torch.nn.Dropout does"
                )
            before = {name: buffer.clone() for name, buffer in module.named_buffers()}
            # A layer that cannot work in training mode cannot collect anything in it either.
            with contextlib.suppress(Exception):
                module.train()(inputs.clone())
        for name, buffer in module.named_buffers():
            if not torch.equal(before[name], buffer):
                raise ValueError(_changes(f"buffer {name!r}", self.name))
        return tuple(outputs.shape[1:])


def _changes(what: str, model: str) -> str:
    return (
        f"the {what} of the model {model} keeps running statistics, which change in training and are no parameters: "
        "clients would not agree on them; use a layer without, such as torch.nn.GroupNorm"
    )


def _check(module: torch.nn.Module) -> None:
    """Refuse what cannot be trained by gradients alone."""
    if not isinstance(module, torch.nn.Module):
        raise ValueError(f"the model must be a torch.nn.Module, found {type(module).__name__}")
    kind = type(module).__name__
    for name, layer in module.named_modules():
        # Batch normalisation without running statistics still lets the examples of a batch see each other.
        batch = isinstance(layer, torch.nn.modules.batchnorm._BatchNorm)
        if batch or getattr(layer, "track_running_stats", False):
            raise ValueError(_changes(f"layer {name!r} ({type(layer).__name__})", kind))
    for name, value in module.named_parameters():
        if torch.nn.parameter.is_lazy(value):
            raise ValueError(f"the parameter {name!r} of the model {kind} has no shape yet: call the model once before")
        if value.requires_grad and value.dtype != torch.float32:
            raise ValueError(
                f"the parameters must be float32, found {value.dtype} for {name!r}: convert the model by .float()"
            )
    if not any(value.requires_grad for value in module.parameters()):
        raise ValueError(f"the model {kind} has no parameters to train (none with requires_grad)")


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _outputs(held: Held, params: Weights, inputs: jax.Array) -> jax.Array:
    shape = jax.ShapeDtypeStruct(held.shape(inputs.shape), jnp.float32)
    return jax.pure_callback(held.forward, shape, params, inputs, vmap_method="sequential")


def _forward(held: Held, params: Any, inputs: Any) -> Any:
    values = jax.tree.map(lambda primal: primal.value, params, is_leaf=lambda leaf: hasattr(leaf, "perturbed"))
    # Whether gradients for the inputs are asked for is part of the program: training never asks.
    asked = () if inputs.perturbed else None
    return _outputs(held, values, inputs.value), (values, inputs.value, asked)


def _backward(held: Held, kept: Any, cotangent: Any) -> Any:
    params, inputs, asked = kept
    if isinstance(cotangent, SymbolicZero):
        return None, None
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), (params, inputs))
    if asked is None:
        found = jax.pure_callback(held.backward, shapes[0], params, inputs, cotangent, vmap_method="sequential")
        return found, None
    return jax.pure_callback(held.backward_to_inputs, shapes, params, inputs, cotangent, vmap_method="sequential")


_outputs.defvjp(_forward, _backward, symbolic_zeros=True)


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
    held: Held = eqx.field(static=True)

    def __init__(self, module: torch.nn.Module) -> None:
        _check(module)
        self.held = Held(module)
        trained = [(name, value) for name, value in self.held.module.named_parameters() if value.requires_grad]
        self.start = {name: jnp.array(value.detach().numpy()) for name, value in trained}

    def init(self, key: Key) -> Weights:
        return self.start

    def apply(self, params: Weights, inputs: jax.Array) -> jax.Array:
        return _outputs(self.held, params, jnp.asarray(inputs, jnp.float32))

    def whole(self, params: Weights) -> torch.nn.Module:
        """A copy of the module on the CPU, with these weights and in the mode (training or evaluation) it came in."""
        module = copy.deepcopy(self.held.module)
        with torch.no_grad():
            for name, value in module.named_parameters():
                if name in params:
                    value.copy_(_tensor(params[name]))
        return module

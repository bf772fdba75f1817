"""A PyTorch module as a model: JAX calls back into torch for its outputs and for their gradients.

Every local step leaves the compiled program twice, so this is slower than a model written in JAX. It is for the module
that you have already.
"""

import copy
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from hush.core.keys import Key
from hush.extras import require

try:
    import torch
except ImportError:
    require("torch")
    raise  # it is there, and broken

from hush.models.torch_callback import call_back
from hush.models.torch_trial import check
from hush.models.torch_wrapped import Wrapped, tensor

Weights = dict[str, jax.Array]  # a module's trained parameters by name


def _of_integers(inputs: Any) -> bool:
    return bool(jnp.issubdtype(inputs.dtype, jnp.integer))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _apply(wrapped: Wrapped, params: Weights, inputs: jax.Array) -> jax.Array:
    return call_back(wrapped.forward, wrapped.outputs(inputs), params, inputs)


def _forward(wrapped: Wrapped, params: Any, inputs: Any) -> Any:
    weights = {name: primal.value for name, primal in params.items()}
    # Whether gradients for the inputs are asked for is part of the program: training never asks, and tokens have none.
    asked = () if inputs.perturbed and not _of_integers(inputs.value) else None
    return _apply(wrapped, weights, inputs.value), (weights, inputs.value, asked)


def _backward(wrapped: Wrapped, kept: Any, cotangent: Any) -> Any:
    params, inputs, asked = kept
    if isinstance(cotangent, SymbolicZero):
        return None, None
    if asked is None:
        return call_back(wrapped.backward, params, params, inputs, cotangent), None
    return call_back(wrapped.backward_to_inputs, (params, inputs), params, inputs, cotangent)


_apply.defvjp(_forward, _backward, symbolic_zeros=True)


class TorchModule(eqx.Module):
    """A user's `torch.nn.Module`, written for a batch; every repetition starts from the weights it came with.

    Images come channels last in hush and are handed over channels first, as torch has them: inputs of four axes
    [b, H, W, C] become [b, C, H, W]. Where the module cannot work on that, and can on the inputs as they are, they are
    taken to be channels first already. All other inputs are handed over as they are, integers as 64 bits.

    The module runs in evaluation mode. A layer that came in training mode and would do otherwise in it (dropout) is
    refused by name, since its randomness would have no address; one that came in evaluation mode is taken as it is.
    Parameters with `requires_grad=False` and buffers stay as they came. Refused are layers in training mode that keep
    running statistics (batch normalisation), parameters that are not float32, and modules with none to train.
    The module is copied: what happens to the user's own afterwards changes nothing here, and the other way round.
    """

    start: Weights
    wrapped: Wrapped = eqx.field(static=True)

    def __init__(self, module: torch.nn.Module) -> None:
        check(module)
        self.wrapped = Wrapped(module)
        weights = dict(self.wrapped.module.named_parameters())
        self.start = {name: jnp.array(weights[name].detach().numpy()) for name in self.wrapped.names}

    def init(self, key: Key) -> Weights:
        return self.start

    def apply(self, params: Weights, inputs: jax.Array) -> jax.Array:
        return _apply(self.wrapped, params, inputs if _of_integers(inputs) else jnp.asarray(inputs, jnp.float32))

    def rebuild(self, params: Weights) -> torch.nn.Module:
        """A copy of the module on the CPU, with these weights, in the mode (training or evaluation) it came in."""
        module = copy.deepcopy(self.wrapped.module)
        module.load_state_dict({name: tensor(value) for name, value in params.items()}, strict=False)
        return module


def save(model: Any, path: str | Path) -> None:
    """Write the state_dict of a module, for `torch.load` and `load_state_dict`."""
    if not isinstance(model, torch.nn.Module):
        raise ValueError(
            f"only a torch.nn.Module has a state_dict to save, found a model that is a {type(model).__name__}"
        )
    torch.save(model.state_dict(), path)

"""The torch side of a PyTorch module as a model: its outputs and their gradients, for any callers at once."""

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import torch

from hush.models.torch_callback import Array, Level
from hush.models.torch_mapping import mapped
from hush.models.torch_trial import arranged, close, examples, tried


def tensor(array: Any) -> torch.Tensor:
    """A copy: this memory is JAX's, and a layer may write into what it is given. Integers are of 64 bits in torch."""
    found = torch.from_numpy(np.array(array))
    return found if found.is_floating_point() else found.long()


def _array(found: torch.Tensor) -> Array:
    array: Array = found.contiguous().numpy()
    return array


class Trial(NamedTuple):
    """What is known of a module on examples of one shape."""

    outputs: tuple[int, ...]  # the shape of one
    moved: bool  # whether images are handed over with the channels first, where they came last
    together: bool  # whether torch can do examples side by side


class Wrapped:
    """One module, never changed, and the copies of it that are at work.

    Two of these are equal only when they are the same, so that a compiled program belongs to one module.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = copy.deepcopy(module).cpu()
        # In the order in which JAX has a dictionary.
        self.names = sorted(name for name, value in self.module.named_parameters() if value.requires_grad)
        self._idle: list[torch.nn.Module] = []
        self._trials: dict[tuple[tuple[int, ...], bool], Trial] = {}
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

    def outputs(self, inputs: Any) -> jax.ShapeDtypeStruct:
        """What inputs [b, …] are answered by; the module is tried once for each shape of an example."""
        shape, integers = inputs.shape[1:], jnp.issubdtype(inputs.dtype, jnp.integer)
        if (shape, integers) not in self._trials:
            batch = examples(shape, integers)
            outputs, moved = tried(self.module, batch)
            self._trials[shape, integers] = Trial(outputs, moved, self._go_together(batch, outputs, moved))
        return jax.ShapeDtypeStruct((inputs.shape[0], *self._trials[shape, integers].outputs), jnp.float32)

    def forward(self, *arrays: Any, levels: Sequence[Level] = ()) -> list[Array]:
        """The outputs, from the weights and the inputs."""
        tensors = [tensor(array) for array in arrays]
        trial = self._trial(tensors, levels)
        with self._working() as module, torch.no_grad():
            function = partial(self._call, module, trial.moved)
            found = mapped(lambda *each: [function(each[:-1], each[-1])], levels, self._side_by_side(trial))(*tensors)
        return [_array(each) for each in found]

    def backward(self, *arrays: Any, levels: Sequence[Level] = (), to_inputs: bool = False) -> list[Array]:
        """The gradients for the weights, from the weights, the inputs and the outputs' cotangent."""
        tensors = [tensor(array) for array in arrays]
        trial = self._trial(tensors, levels)
        together = self._side_by_side(trial)
        with self._working() as module:
            rule = _functional_gradients if any(map(together, levels)) else _gradients
            function = partial(rule, partial(self._call, module, trial.moved), to_inputs)
            found = mapped(function, levels, together)(*tensors)
        return [_array(each) for each in found]

    def backward_to_inputs(self, *arrays: Any, levels: Sequence[Level] = ()) -> list[Array]:
        """The same, and the gradient for the inputs."""
        return self.backward(*arrays, levels=levels, to_inputs=True)

    def _call(
        self, module: torch.nn.Module, moved: bool, weights: Sequence[torch.Tensor], inputs: torch.Tensor
    ) -> torch.Tensor:
        named = dict(zip(self.names, weights, strict=True))
        outputs: torch.Tensor = torch.func.functional_call(module, named, (arranged(inputs, moved),))
        return outputs

    def _trial(self, tensors: Sequence[torch.Tensor], levels: Sequence[Level]) -> Trial:
        inputs = tensors[len(self.names)]
        axes = 1 + sum(level[len(self.names)] for level in levels)
        return self._trials[tuple(inputs.shape[axes:]), not inputs.is_floating_point()]

    def _side_by_side(self, trial: Trial) -> Callable[[Level], bool]:
        # Of the same weights only: a convolution by as many kernels as clients would be slower than one by one.
        return lambda level: trial.together and not any(level[: len(self.names)])

    def _go_together(self, inputs: torch.Tensor, outputs: tuple[int, ...], moved: bool) -> bool:
        """Whether torch finds the same gradients for two examples side by side as one by one."""
        weights = dict(self.module.named_parameters())
        cotangents = torch.from_numpy(np.random.default_rng(1).normal(size=(2, 1, *outputs)).astype(np.float32))
        given = [*(weights[name].detach().clone() for name in self.names), inputs[:, None], cotangents]
        level = (*(False for _ in self.names), True, True)
        with self._working() as module, warnings.catch_warnings():
            # Where torch has no rule for a layer it does one by one itself, and warns of that every time.
            warnings.filterwarnings("error", message=".*performance drop")
            call = partial(self._call, module, moved)
            one_by_one = mapped(partial(_gradients, call, False), [level], lambda level: False)(*given)
            try:
                together = mapped(partial(_functional_gradients, call, False), [level], lambda level: True)(*given)
            except Exception:
                return False
        return all(map(close, together, one_by_one))


Call = Callable[[Sequence[torch.Tensor], torch.Tensor], torch.Tensor]  # of weights and inputs


def _gradients(call: Call, to_inputs: bool, *tensors: torch.Tensor) -> list[torch.Tensor]:
    *weights, inputs, cotangent = tensors
    wanted = [each.detach().requires_grad_() for each in ([*weights, inputs] if to_inputs else weights)]
    leaf = wanted[-1] if to_inputs else inputs
    with torch.enable_grad():
        # Not the leaf itself: a first layer that works in place would be refused.
        outputs = call(wanted[: len(weights)], leaf.clone())
        found = torch.autograd.grad(outputs, wanted, cotangent, allow_unused=True, materialize_grads=True)
    return [each.to_dense() if each.is_sparse else each for each in found]


def _functional_gradients(call: Call, to_inputs: bool, *tensors: torch.Tensor) -> list[torch.Tensor]:
    """The same, as torch can batch it; layers with derivatives of their own may not allow it."""
    *weights, inputs, cotangent = tensors
    if to_inputs:
        pull = torch.func.vjp(lambda *wanted: call(wanted[:-1], wanted[-1].clone()), *weights, inputs)[1]
    else:
        pull = torch.func.vjp(lambda *wanted: call(wanted, inputs.clone()), *weights)[1]
    return list(pull(cotangent))

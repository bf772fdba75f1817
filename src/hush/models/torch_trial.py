"""A PyTorch module looked at, and tried once, before it is trained: what would go wrong later is refused here."""

import contextlib
import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch


def close(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether these are two ways of computing the same in float32, such as a layer's fast path for evaluation."""
    return bool(torch.allclose(one, other, rtol=1e-3, atol=1e-5, equal_nan=True))


def check(module: Any) -> None:
    """Refuse what cannot be trained by gradients alone."""
    if not isinstance(module, torch.nn.Module):
        raise ValueError(f"the model must be a torch.nn.Module, found {type(module).__name__}")
    kind = type(module).__name__
    for name, layer in module.named_modules():
        what = f"layer {name!r} ({type(layer).__name__})"
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm) and not layer.track_running_stats:
            raise ValueError(
                f"the {what} of the model {kind} takes its statistics over a batch, whose examples then see each "
                "other; use torch.nn.GroupNorm"
            )
        if layer.training and getattr(layer, "track_running_stats", False):
            raise ValueError(_statistics(what, kind))
    for name, value in module.named_parameters():
        if torch.nn.parameter.is_lazy(value):
            raise ValueError(f"the parameter {name!r} of the model {kind} has no shape yet: call the model once before")
        if value.requires_grad and value.dtype != torch.float32:
            raise ValueError(f"parameters must be float32, found {value.dtype} for {name!r}: convert them by .float()")
    if not any(value.requires_grad for value in module.parameters()):
        raise ValueError(f"the model {kind} has no parameters to train: none with requires_grad=True")


def _statistics(what: str, model: str) -> str:
    return (
        f"the {what} of the model {model} holds running statistics, which training changes without a gradient: "
        "clients would disagree about them; use a layer without, such as torch.nn.GroupNorm, or keep the statistics "
        "as they are by .eval()"
    )


def arranged(inputs: torch.Tensor, moved: bool) -> torch.Tensor:
    """Images from channels last to channels first, [b, H, W, C] -> [b, C, H, W], where they are to be `moved`."""
    return inputs.permute(0, 3, 1, 2).contiguous() if moved else inputs


def examples(shape: tuple[int, ...], integers: bool) -> torch.Tensor:
    """Two examples to try a module on: numbers from [0, 1), or the first of all words."""
    if integers:
        return torch.zeros((2, *shape), dtype=torch.int64)
    return torch.from_numpy(np.random.default_rng(0).random((2, *shape), np.float32))


class Seen(NamedTuple):
    """What a run of a module showed."""

    outputs: Any
    drew: bool  # random numbers
    changed: str | None  # what is wrong with what it has changed in itself


def tried(module: torch.nn.Module, inputs: torch.Tensor) -> tuple[tuple[int, ...], bool]:
    """The shape of one output, and whether the axes of images are moved.

    Channels last is hush's own order and is tried first, so that it holds wherever the module could work on both.
    """
    kind, failures = type(module).__name__, []
    for moved in (True, False) if inputs.ndim == 4 and inputs.is_floating_point() else (False,):
        batch = arranged(inputs, moved)
        try:
            seen, again = _run(module, batch), _run(module, batch)
        except Exception as error:
            failures.append((f"the model {kind} failed on a batch {tuple(batch.shape)}: {error}", error))
            continue
        _check_evaluation(kind, seen, again)
        _check_training(module, batch, seen)
        return tuple(seen.outputs.shape[1:]), moved
    raise ValueError("; ".join(message for message, _ in failures)) from failures[0][1]


def _run(module: torch.nn.Module, inputs: torch.Tensor, training: Sequence[str] = ()) -> Seen:
    """A copy in evaluation mode, but for the layers of these names."""
    copied = copy.deepcopy(module).eval()
    for name in training:
        copied.get_submodule(name).training = True
    buffers = {name: buffer.clone() for name, buffer in copied.named_buffers()}
    versions = {name: value._version for name, value in copied.named_parameters()}
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        state = torch.random.get_rng_state()
        outputs = copied(inputs.clone())
        drew = not torch.equal(state, torch.random.get_rng_state())
    return Seen(outputs, drew, _changed(copied, buffers, versions))


def _changed(module: torch.nn.Module, buffers: dict[str, torch.Tensor], versions: dict[str, int]) -> str | None:
    kind = type(module).__name__
    for name, buffer in module.named_buffers():
        if name not in buffers or not torch.equal(buffers[name], buffer):
            return _statistics(f"buffer {name!r}", kind)
    for name, value in module.named_parameters():
        if versions.get(name) != value._version:
            return (
                f"the model {kind} writes into its parameter {name!r} as it runs, as an embedding with max_norm does: "
                "examples would see each other through it; train a model whose parameters gradients alone move"
            )
    return None


def _check_evaluation(kind: str, seen: Seen, again: Seen) -> None:
    """Refuse outputs that are no function of the parameters and the inputs, or of another shape than [2, …]."""
    outputs = seen.outputs
    if seen.changed:
        raise ValueError(seen.changed)
    if not isinstance(outputs, torch.Tensor) or outputs.dtype != torch.float32 or outputs.shape[:1] != (2,):
        found = [*outputs.shape, outputs.dtype] if isinstance(outputs, torch.Tensor) else type(outputs).__name__
        raise ValueError(f"the model {kind} must answer a batch of 2 by one float32 tensor [2, …], found {found}")
    if not outputs.requires_grad:
        raise ValueError(f"the outputs of the model {kind} do not depend on the parameters to train")
    if seen.drew or not torch.allclose(outputs, again.outputs, rtol=0, atol=0, equal_nan=True):
        raise ValueError(
            f"the model {kind} answers the same inputs differently each time, though it is in evaluation mode: "
            "such randomness cannot be repeated; use layers that stop it there, such as torch.nn.Dropout"
        )


def _check_training(module: torch.nn.Module, inputs: torch.Tensor, evaluated: Seen) -> None:
    """Refuse by name what would work in training as it came, and not in evaluation mode, in which hush runs it."""

    def differs(names: Sequence[str]) -> bool:
        # A layer that fails in training mode can do nothing in it.
        with contextlib.suppress(Exception):
            seen = _run(module, inputs, names)
            if not isinstance(seen.outputs, torch.Tensor) or seen.outputs.shape != evaluated.outputs.shape:
                return True
            return seen.drew or bool(seen.changed) or not close(seen.outputs, evaluated.outputs)
        return False

    kind, training = type(module).__name__, [name for name, layer in module.named_modules() if layer.training]
    if not differs(training):
        return
    changed = _run(module, inputs, training).changed
    if changed:
        raise ValueError(changed)
    guilty = [name for name in training if differs([name])] or [""]
    said = ", ".join(f"{name!r} ({type(module.get_submodule(name)).__name__})" if name else "itself" for name in guilty)
    raise ValueError(
        f"the model {kind} works otherwise in training mode than in evaluation mode, by its layers: {said}; hush "
        "runs it in evaluation mode, since what torch draws at random could not be repeated: set dropout to p=0, or "
        "switch it off by .eval() of the layer or of the model, which is then taken as it is"
    )

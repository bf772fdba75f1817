"""A torch function over axes in front of its arguments: side by side by `torch.func.vmap`, or one by one."""

from collections.abc import Callable, Sequence

import torch

from hush.models.torch_callback import Level

Function = Callable[..., list[torch.Tensor]]


def side_by_side(function: Function, level: Level) -> Function:
    """All places at once; the function must be one that torch can batch."""
    batched: Function = torch.func.vmap(function, in_dims=tuple(0 if has else None for has in level))
    return batched


def one_by_one(function: Function, level: Level) -> Function:
    """One place after the other: right for every function."""

    def stacked(*tensors: torch.Tensor) -> list[torch.Tensor]:
        size = next(len(tensor) for tensor, has in zip(tensors, level, strict=True) if has)
        rows = (
            function(*(tensor[i] if has else tensor for tensor, has in zip(tensors, level, strict=True)))
            for i in range(size)
        )
        return [torch.stack(each) for each in zip(*rows, strict=True)]

    return stacked


def mapped(function: Function, levels: Sequence[Level], together: Callable[[Level], bool]) -> Function:
    """The function over every level, the outermost first; `together` says which of them go side by side."""
    for level in reversed(levels):
        function = (side_by_side if together(level) else one_by_one)(function, level)
    return function

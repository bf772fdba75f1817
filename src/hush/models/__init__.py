"""Models by name, each written for one example: x [height, width, channels] in, logits [classes] out.

Those of text take a window of tokens [length], and answer by logits of the next token at every place.

>>> import jax
>>> model = build("mlp", (28, 28, 1), 10, jax.random.key(0), hidden=(32, 16))
>>> model(jax.numpy.zeros((28, 28, 1))).shape
(10,)
"""

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

import equinox as eqx
from jax import Array

from hush.core.check import integer, known
from hush.models.alexnet import alexnet
from hush.models.gpt import gpt
from hush.models.gru import gru
from hush.models.lenet5 import lenet5
from hush.models.lora import lora, merged
from hush.models.mlp import mlp
from hush.models.mobilenet_v2 import mobilenet_v2
from hush.models.over_devices import over_devices
from hush.models.partly import frozen, trainable
from hush.models.resnet18 import resnet18
from hush.models.softmax import softmax

# Of windows of tokens; all others are of images, or of rows of numbers.
TEXT_MODELS: dict[str, Callable[..., eqx.Module]] = {"gpt": gpt, "gru": gru}

MODELS: dict[str, Callable[..., eqx.Module]] = {
    "softmax": softmax,
    "mlp": mlp,
    "lenet5": lenet5,
    "alexnet": alexnet,
    "mobilenet_v2": mobilenet_v2,
    "resnet18": resnet18,
    **TEXT_MODELS,
}


def build(name: str, shape: tuple[int, int, int], classes: int, key: Array, **options: Any) -> Any:
    """The named model for images of `shape` (height, width, channels), its weights drawn from `key`."""
    known("model", name, MODELS)
    if len(shape) != 3 or not all(isinstance(size, int) and size > 0 for size in shape):
        raise ValueError(f"shape is {shape!r}; allowed: three positive integers (height, width, channels)")
    integer("classes", classes)
    parameters = signature(MODELS[name]).parameters.values()
    settable = [parameter.name for parameter in parameters if parameter.kind is Parameter.KEYWORD_ONLY]
    for option in options:
        known(f"option of {name}", option, settable)
    return MODELS[name](shape, classes, key, **options)


__all__ = ["MODELS", "TEXT_MODELS", "build", "frozen", "lora", "merged", "over_devices", "trainable"]

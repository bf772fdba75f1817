"""Any model in one shape: `init(key) -> params` and `apply(params, inputs [b, …]) -> outputs [b, …]`.

`whole(params)` gives it back to the user as the kind of thing it was.
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

from hush.core.check import LARGEST, integer, shown
from hush.core.keys import Key
from hush.core.memory import check_room
from hush.core.problem import Params
from hush.models import MODELS, build
from hush.models.over_devices import OverDevices
from hush.models.partly import Partly, Rebuilt
from hush.models.parts import apart, parted, start_key
from hush.models.products import FLOAT32, Rounded, check_precision

# The cell of a gated unit is equinox's, and takes its products by itself.
IN_BFLOAT16 = tuple(name for name in MODELS if name != "gru")


def _parameters(module: Any) -> tuple[Params, Any]:
    is_parameter = lambda leaf: eqx.is_inexact_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)  # noqa: E731
    return eqx.partition(module, is_parameter)


class Named(Rebuilt):
    """One of the models here by its name; every repetition starts from weights of its own."""

    name: str = eqx.field(static=True)
    shape: tuple[int, int, int] = eqx.field(static=True)
    classes: int = eqx.field(static=True)
    options: tuple[tuple[str, Any], ...] = eqx.field(static=True)
    skeleton: Any

    def __init__(
        self, name: str, shape: tuple[int, int, int], classes: int, options: dict[str, Any], devices: int = 1
    ) -> None:
        """`devices` is over how many the model is to be cut: each has to have room for its part."""
        self.name, self.shape, self.classes = name, shape, classes
        # A list would be no fixed setting of a compiled program.
        fixed = {option: tuple(value) if isinstance(value, list) else value for option, value in options.items()}
        self.options = tuple(sorted(fixed.items()))
        params, self.skeleton = _parameters(eqx.filter_eval_shape(self._build, jax.random.key(0)))
        count = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))
        if count > LARGEST:
            raise ValueError(f"the model {name} would have {count:,} parameters, at most {LARGEST:,} can be counted")
        together = 1 if jax.default_backend() == "cpu" else devices  # the devices of a CPU share its memory
        parts = {f"its {count:,} parameters": 4 * count // together}
        check_room(f"the model {name}", parts, "take a smaller one, or smaller model_options")

    def _build(self, key: Key) -> Any:
        return build(self.name, self.shape, self.classes, key, **dict(self.options))

    def init(self, key: Key) -> Params:
        return _parameters(self._build(key))[0]


class Module(Rebuilt):
    """A user's equinox module, written for one example; every repetition starts from the weights it came with."""

    start: Params
    skeleton: Any

    def __init__(self, module: eqx.Module) -> None:
        self.start, self.skeleton = _parameters(module)
        if not jax.tree.leaves(self.start):
            raise ValueError(f"the model {type(module).__name__} has no floating-point arrays to train")

    def init(self, key: Key) -> Params:
        return self.start


class Functions(eqx.Module):
    """A pair of pure functions: init(key) -> params, apply(params, inputs [b, …]) -> outputs [b, …]."""

    init: Callable[[Key], Params] = eqx.field(static=True)
    apply: Callable[[Params, jax.Array], jax.Array] = eqx.field(static=True)

    def rebuild(self, params: Params) -> Any:
        """The parameters are all there is."""
        return params


def wrap(
    model: Any,
    shape: tuple[int, ...],
    classes: int,
    options: dict[str, Any] | None = None,
    precision: str = FLOAT32,
) -> Any:
    """A model's name, an equinox module or part of one, a pair (init, apply) or a PyTorch module, as one of these."""
    check_precision(precision, model, IN_BFLOAT16)
    if options is not None and not isinstance(options, dict):
        raise ValueError(f"model_options must be a dictionary, found {type(options).__name__}: {shown(options)}")
    if isinstance(model, str):
        own, of_parts = apart(options or {})
        devices = own.pop("devices", 1)
        integer("devices of a model", devices)
        named = Named(model, as_image(shape), classes, own, devices)
        made: Any = parted(named.rebuild(named.init(start_key())), **of_parts) if of_parts else named
        made = made if precision == FLOAT32 else Rounded(made, precision)
        return made if devices == 1 else OverDevices(made, devices)
    if options:
        raise ValueError(f"model_options go with a model's name, found {options} with {type(model).__name__}")
    if isinstance(model, eqx.Module):
        return model if isinstance(model, Partly | OverDevices) else Module(model)
    if isinstance(model, tuple) and len(model) == 2 and all(callable(part) for part in model):
        return Functions(*model)
    if of_torch(model):
        from hush.models.torch_module import TorchModule

        return TorchModule(model)
    raise ValueError(
        "a model is a name, an equinox module, a pair of functions (init, apply) or a torch.nn.Module, "
        f"found {f'the class {model.__name__} itself' if isinstance(model, type) else shown(model)}"
    )


def itself(model: Any) -> Any:
    """The model without what says how it is computed: cut over devices, or in another precision."""
    while isinstance(model, OverDevices | Rounded):
        model = model.inner
    return model


def precision_of(model: Any) -> str:
    """The precision of a model's products."""
    model = model.inner if isinstance(model, OverDevices) else model
    return model.precision if isinstance(model, Rounded) else FLOAT32


def looks_up(model: Any) -> bool:
    """Whether a model has an embedding layer, which takes integers: one of equinox's, or of PyTorch's."""
    if isinstance(model, eqx.Module):
        is_embedding = lambda part: isinstance(part, eqx.nn.Embedding)  # noqa: E731
        return any(map(is_embedding, jax.tree.leaves(model, is_leaf=is_embedding)))
    parts = model.modules() if of_torch(model) else ()
    return any(type(part).__name__ in ("Embedding", "EmbeddingBag") for part in parts)


def of_torch(model: Any) -> bool:
    """Whether a model is a module of PyTorch, which need not be installed to tell."""
    return any(kind.__module__.startswith("torch.") for kind in type(model).__mro__)


def as_image(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Inputs of any shape as height × width × channels: a vector is a row of one channel."""
    if 0 in shape:
        raise ValueError(f"inputs must have features, found shape {shape}")
    if len(shape) > 3:
        raise ValueError(f"named models take inputs of at most three axes, found shape {shape}; bring your own model")
    height, width, channels = {0: (1, 1, 1), 1: (1, *shape, 1), 2: (*shape, 1), 3: shape}[len(shape)]
    return height, width, channels

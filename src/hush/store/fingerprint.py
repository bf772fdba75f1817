"""What a run depends on, told apart by name: the settings of every piece, the values of schedules, the data, the model.

A checkpoint carries this, so that a run goes on only with what it was begun with. Settings are compared as they are,
data by a digest of every byte, schedules by the step sizes they give: a function's name says nothing about these.
"""

import dataclasses
import functools
import hashlib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hush.core.algorithm import Algorithm, InTurn
from hush.core.aside import Aside
from hush.core.problem import Problem
from hush.tasks.problem import Source

Array = np.ndarray[Any, Any]
# Functions of these packages are known by their names; of any other, the source is part of what a run depends on.
KNOWN = ("hush.", "jax.", "jaxlib.", "equinox.", "optax.", "numpy.", "torch.")
DEEPEST = 4  # functions in the closures of functions
# A schedule is looked at here: at every one of the first counts, and then at 64 for each doubling.
COUNTS = np.unique(np.r_[np.arange(2**16), np.geomspace(2**16, 2**24, 64 * 8)].astype(np.int32))
MOST = 8  # differences that are told one by one
SAME = 1e-5  # relative: another machine may round a step size differently, and that is no other schedule


@dataclasses.dataclass(frozen=True)
class Fingerprint:
    """Texts and values by name; two runs with the same are the same run."""

    texts: dict[str, str]
    values: dict[str, Array]

    def state(self) -> dict[str, Array]:
        """As arrays of a checkpoint."""
        return {"fingerprint": np.array(json.dumps(self.texts))} | {
            f"fingerprint/{name}": value for name, value in self.values.items()
        }

    @classmethod
    def restore(cls, state: Mapping[str, Array]) -> "Fingerprint":
        """The reverse of `state`."""
        mark = "fingerprint/"
        values = {name.removeprefix(mark): value for name, value in state.items() if name.startswith(mark)}
        return cls(json.loads(str(state["fingerprint"])), values)

    def of_problem(self) -> "Fingerprint":
        """What is of the problem alone."""
        return Fingerprint({name: text for name, text in self.texts.items() if name.partition(".")[0] == PROBLEM}, {})

    def differences(self, now: "Fingerprint") -> list[str]:
        """What is not as it was, each in a few words."""
        found, others = [], list[str]()
        for name in sorted(self.texts.keys() | now.texts.keys()):
            before, after = self.texts.get(name, "nothing"), now.texts.get(name, "nothing")
            if before != after and not name.startswith(tuple(others)):  # another piece has other settings, of course
                others.append(f"{name}.")
                found.append(name if _DIGEST in before + after else f"{name} ({before} before, {after} now)")
        for name in sorted(self.values.keys() & now.values.keys()):
            one, other = self.values[name], now.values[name]
            same = one.shape == other.shape and np.isclose(one, other, rtol=SAME, atol=0, equal_nan=True)
            if not np.all(same):
                found.append(f"{name} (other step sizes, from count {COUNTS[np.argmin(same)]} on)")
        return found if len(found) <= MOST else [*found[:MOST], f"and {len(found) - MOST} more"]


_DIGEST = "digest "
PROBLEM = "problem"


def fingerprint(algorithm: Algorithm | InTurn, problem: Problem, run: Mapping[str, Any]) -> Fingerprint:
    """Of an algorithm, a problem, and how the one is run on the other."""
    values: dict[str, Array] = {}

    def schedule(name: str, function: Callable[..., Any]) -> str | None:
        try:
            sizes = jax.vmap(lambda count: jnp.asarray(function(count), jnp.float32))(jnp.asarray(COUNTS))
        except Exception:  # no function of a count: whatever it may be, it is compared by its source
            return None
        values[name] = np.asarray(sizes)
        return "a schedule"

    texts = dict(_texts(algorithm, "algorithm", schedule))
    texts |= of_problem(problem).texts
    texts |= dict(_texts(dict(run), "run", lambda *_: None))
    return Fingerprint({_short(name): text for name, text in texts.items()}, {_short(n): v for n, v in values.items()})


def of_problem(problem: Problem) -> Fingerprint:
    """Of data, model and loss, whatever is run on them."""
    return Fingerprint(dict(_texts(problem, PROBLEM, lambda *_: None)), {})


def _short(name: str) -> str:
    """A setting as a settings file calls it: `local.lr`, not `algorithm.local.lr`."""
    return name.removeprefix("algorithm.")


def _texts(value: Any, name: str, schedule: Callable[[str, Any], str | None]) -> Iterator[tuple[str, str]]:
    """Every part of a value by its dotted name."""
    inner: Sequence[tuple[Any, Any]] = ()
    if isinstance(value, Aside):  # what a thing is called is no part of what it is
        return
    if value is None or isinstance(value, bool | int | float | str):
        yield name, str(value)
    elif isinstance(value, jax.Array | np.ndarray | np.generic):
        yield name, _digest_of_array(value)
    elif isinstance(value, Source):  # what lies there, wherever that is
        yield name, _DIGEST + value.digest
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield name, _kind(type(value))
        inner = [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    elif isinstance(value, Mapping):
        inner = list(value.items())
    elif isinstance(value, list | tuple):
        inner = list(enumerate(value))
    elif hasattr(value, "named_modules"):  # of PyTorch, which must not be loaded for this
        inner = list(_torch(value))
    elif hasattr(value, "depends_on"):
        inner = [("", value.depends_on)]
    elif callable(value):
        yield name, schedule(name, value) or _source(value)
    else:
        said = repr(value)
        yield name, type(value).__qualname__ if " at 0x" in said else said
    for part, each in inner:
        yield from _texts(each, f"{name}.{part}" if part != "" else name, schedule)


def _torch(module: Any) -> Iterator[tuple[str, Any]]:
    """What a module of PyTorch is, but for the weights that are trained: its layers and all that is set in them."""
    for name, layer in module.named_modules():
        yield name, _kind(type(layer))
        settings = {key: value for key, value in vars(layer).items() if not key.startswith("_") and key != "training"}
        yield name, settings
        hooks = {key: list(value.values()) for key, value in vars(layer).items() if key.endswith("_hooks") and value}
        yield name, hooks
    fixed = {name: value for name, value in module.named_parameters() if not value.requires_grad}
    for name, tensor in (fixed | dict(module.named_buffers())).items():
        yield name, tensor.detach().cpu().numpy()


def _digest_of_array(value: Any) -> str:
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    array = np.asarray(value)
    if array.ndim == 0 and array.dtype.kind in "biuf":
        return str(array.item())
    array = np.ascontiguousarray(array)
    return f"{array.dtype}{list(array.shape)} {_digest(array.reshape(-1).view(np.uint8).data)}"


def _digest(content: Any) -> str:
    return _DIGEST + hashlib.blake2b(content, digest_size=12).hexdigest()


def _kind(kind: type) -> str:
    """A class by its name, and one of the user's own by its source too."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    return kind.__qualname__ if name.startswith(KNOWN) else f"{name} {_digest_of_source(kind)}"


def _source(function: Any, depth: int = DEEPEST) -> str:
    """A function by its name, and one of the user's own by its source and by what it was made with."""
    if isinstance(function, functools.partial):
        settings = dict(_texts([function.args, function.keywords], "", lambda *_: None))
        return f"{_source(function.func, depth)} {_digest(json.dumps(settings).encode())}"
    if isinstance(function, type):
        return _kind(function)
    function = inspect.unwrap(function)
    name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"
    if name.startswith(KNOWN):
        return name
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or () if _filled(cell)]
    kept = [cell for cell in cells if not inspect.ismodule(cell)]  # a module is named in the source

    def named(_: str, inner: Any) -> str:  # no deeper, where functions hold each other
        return _source(inner, depth - 1) if depth else str(getattr(inner, "__qualname__", type(inner).__qualname__))

    try:
        made_with = json.dumps(dict(_texts([kept, getattr(function, "__defaults__", None)], "", named)))
    except RecursionError:  # things that hold each other: of these, the source must do
        made_with = ""
    return f"{name} {_digest(made_with.encode())} {_digest_of_source(function)}{_constants(function)}"


def _constants(function: Any) -> str:
    """Of a function without a name: two of them may stand on one line, which is all that is known of their source."""
    code = getattr(function, "__code__", None)
    if code is None or getattr(function, "__name__", "") != "<lambda>":
        return ""
    plain = [value for value in code.co_consts if isinstance(value, bool | int | float | complex | str | bytes)]
    return f" {_digest(repr((plain, code.co_names)).encode())}"


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # a function that names itself before it exists
        return False


def _digest_of_source(thing: Any) -> str:
    try:
        return _digest(inspect.getsource(thing).encode())
    except (OSError, TypeError):  # typed in, or compiled
        code = getattr(thing, "__code__", None)
        return _digest(b"" if code is None else code.co_code + repr(code.co_names).encode())

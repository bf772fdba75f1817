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
from hush.core.problem import Problem
from hush.tasks.problem import Aside

Array = np.ndarray[Any, Any]
# Functions of these packages are known by their names; of any other, the source is part of what a run depends on.
KNOWN = ("hush.", "jax.", "jaxlib.", "equinox.", "optax.", "numpy.")
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
    texts |= dict(_texts(problem, "problem", lambda *_: None))
    texts |= dict(_texts(dict(run), "run", lambda *_: None))
    return Fingerprint({_short(name): text for name, text in texts.items()}, {_short(n): v for n, v in values.items()})


def _short(name: str) -> str:
    """A setting as a settings file calls it: `local.lr`, not `algorithm.local.lr`."""
    return name.removeprefix("algorithm.")


def _texts(value: Any, name: str, schedule: Callable[[str, Any], str | None]) -> Iterator[tuple[str, str]]:
    """Every part of a value by its dotted name."""
    inner: Sequence[tuple[Any, Any]] = ()
    if isinstance(value, Aside):  # how a problem is called is no part of what it is
        return
    if value is None or isinstance(value, bool | int | float | str):
        yield name, str(value)
    elif isinstance(value, jax.Array | np.ndarray | np.generic):
        yield name, _digest_of_array(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield name, _kind(type(value))
        inner = [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    elif isinstance(value, Mapping):
        inner = list(value.items())
    elif isinstance(value, list | tuple):
        inner = list(enumerate(value))
    elif callable(value):
        yield name, schedule(name, value) or _source(value)
    else:
        said = repr(value)
        yield name, type(value).__qualname__ if " at 0x" in said else said
    for part, each in inner:
        yield from _texts(each, f"{name}.{part}", schedule)


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


def _source(function: Any) -> str:
    """A function by its name, and one of the user's own by its source and by what it was made with."""
    if isinstance(function, functools.partial):
        settings = dict(_texts([function.args, function.keywords], "", lambda *_: None))
        return f"{_source(function.func)} {_digest(json.dumps(settings).encode())}"
    function = inspect.unwrap(function)
    name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"
    if name.startswith(KNOWN):
        return name
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or () if _filled(cell)]
    plain = [cell for cell in cells if isinstance(cell, bool | int | float | str | np.ndarray | jax.Array)]
    made_with = json.dumps(dict(_texts([plain, getattr(function, "__defaults__", None)], "", lambda *_: None)))
    return f"{name} {_digest(made_with.encode())} {_digest_of_source(function)}"


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

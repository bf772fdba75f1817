"""Several processes, one run: arrays over the devices of all of them, and decisions that one takes for all.

Every process runs the same program on the same problem, and holds its part of what lies on the devices. What they could
decide differently (by a clock, a signal, free memory) process 0 decides and tells the others; it alone writes files and
shows progress. In one process all of this is nothing.

They talk in two ways: programs on the devices exchange arrays, in step; words go through the store of names and values
that JAX's process 0 keeps, which has all the time in the world, and hears of failures meanwhile.
"""

import contextlib
from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import numpy as np
from jax._src import distributed  # the store has no public name
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from hush.execution.watch import Watch
from hush.execution.words import HostLost, hear, in_words, say

T = TypeVar("T")
P = ParamSpec("P")

SECONDS_TO_MEET = 3600  # while others make their problem
# How libraries say that another process is gone, in errors of many kinds.
GONE = ("Gloo", "NCCL", "UNAVAILABLE", "coordination", "Connection closed by peer", "Connection reset by peer")


class _Talk:
    """What one run has said so far."""

    def __init__(self) -> None:
        self.messages = 0
        self.depth = 0
        self.apart = False  # whether the processes are no longer in step
        self.alone = False  # whether process 0 is doing something by itself


_talk = _Talk()


def processes() -> int:
    """How many processes there are. Does not start JAX's devices."""
    return int(distributed.global_state.num_processes) if distributed.global_state.client is not None else 1


def process() -> int:
    """Which of them this is."""
    return int(distributed.global_state.process_id) if processes() > 1 else 0


def speaks() -> bool:
    """Whether this process is the one that writes files, shows progress and tells trackers."""
    return process() == 0


@cache
def watch() -> Watch:
    """Who looks after the other processes, from its first use on."""
    made = Watch(distributed.global_state.client, process(), processes())
    made.begin()
    return made


@contextlib.contextmanager
def together() -> Iterator[None]:
    """What all processes do in step; where one of them fails, the others are told. One inside another is the same."""
    if processes() == 1:
        yield
        return
    if _talk.depth == 0:
        watch().enter()
        _talk.messages, _talk.apart = 0, False
    _talk.depth += 1
    try:
        with noticing():
            yield
            if _talk.depth == 1:
                agreed(None)  # process 0 has more to do, and ends last
    except BaseException as error:
        if _talk.depth == 1 and not isinstance(error, HostLost):
            watch().note(error)
        raise
    finally:
        _talk.depth -= 1
        if _talk.depth == 0:
            watch().exit()


@contextlib.contextmanager
def noticing() -> Iterator[None]:
    """Turn what libraries say of a process that is gone into one kind of error."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        if processes() == 1 or isinstance(error, HostLost) or not any(word in str(error) for word in GONE):
            raise
        # Whoever has failed may have left a note, and says more than a closed connection.
        raise HostLost(watch().bad_news or "another process of this run is gone") from error


def go_apart() -> None:
    """From here on this process waits for no other: it ends at once, or they are gone."""
    _talk.apart = True


def advise(text: str) -> None:
    """How to go on, for whoever is ended because another process is."""
    if processes() > 1:
        watch().advise(text)


def agreed(value: T) -> T:
    """What process 0 says: numbers, texts, lists and tables of them.

    Outside of what is done together nobody is asked, and it is what is given.
    """
    return first(lambda: value) if _in_step() else value


def _in_step() -> bool:
    return processes() > 1 and _talk.depth > 0 and not _talk.apart


def first(action: Callable[[], T]) -> T:
    """Done by process 0 alone, and its plain result told to all; what fails there fails everywhere, and nobody waits.

    Outside of what is done together, and after the processes have lost step, the others do nothing.
    """
    if processes() == 1 or _talk.alone:
        return action()
    if not _in_step():
        return action() if speaks() else None  # type: ignore[return-value]
    name = f"hush/said/{watch().part}/{_talk.messages}"
    _talk.messages += 1
    if not speaks():
        return hear(watch(), name)
    if watch().bad_news:
        raise HostLost(watch().bad_news)
    _talk.alone = True
    try:
        found = action()
    except Exception as error:
        say(watch(), name, {"error": in_words(error)})
        raise
    finally:
        _talk.alone = False
    say(watch(), name, {"value": found})
    return found


def by_first(function: Callable[P, object]) -> Callable[P, None]:
    """A function that process 0 carries out for all, and whose result nobody needs."""

    @wraps(function)
    def wrapped(*arguments: P.args, **keywords: P.kwargs) -> None:
        def done() -> None:
            function(*arguments, **keywords)

        first(done)

    return wrapped


def asked_to_stop(signal: int) -> int:
    """The signal by which any process was told to stop, as far as process 0 knows: to be agreed on with the rest."""
    if processes() == 1 or _talk.depth == 0:
        return signal
    name = f"hush/stop/{watch().part}/"
    if signal and not speaks():
        watch().client.key_value_set(f"{name}{process()}", str(int(signal)), True)
    if signal or not speaks():
        return signal
    return max((int(number) for _, number in watch().client.key_value_dir_get(name)), default=0)


def place(tree: Any, mesh: Mesh, *axes: str) -> Any:
    """Put every array of a tree on the mesh, its leading axis cut along `axes`, or whole on each device."""
    sharding, put = NamedSharding(mesh, PartitionSpec(*axes)), _put_here
    if processes() > 1:
        _connect(mesh)
        put = _put
    return jax.tree.map(lambda leaf: put(leaf, sharding) if eqx.is_array(leaf) else leaf, tree)


@cache
def _connect(mesh: Mesh) -> None:
    """Let the devices of a mesh find each other, along each of its axes and altogether.

    They have half a minute for that, when a program first needs it, and one process may compile for longer than
    another. So it is done here, at one time.
    """

    def sums(ones: Any) -> Any:
        return [jax.lax.psum(ones, axes) for axes in (*mesh.axis_names, mesh.axis_names)]

    whole = PartitionSpec(mesh.axis_names)
    program = jax.jit(jax.shard_map(sums, mesh=mesh, in_specs=whole, out_specs=whole, check_vma=False))
    ones = jax.make_array_from_callback(
        (mesh.size,), NamedSharding(mesh, whole), lambda index: np.ones(mesh.size, np.float32)[index]
    )
    ready = program.lower(ones).compile()
    _meet(f"connect/{_connect.cache_info().misses}")
    jax.block_until_ready(ready(ones))


def _meet(where: str) -> None:
    """Wait until all processes are here."""
    watch().client.wait_at_barrier(f"hush/{where}", SECONDS_TO_MEET * 1000)


def _put_here(leaf: Any, sharding: NamedSharding) -> Any:
    return jax.device_put(leaf, sharding)


def _put(leaf: Any, sharding: NamedSharding) -> Any:
    """The same where each process lays down its own part of an array that all of them have."""
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:  # lies on the devices of all, perhaps otherwise
        return _laid_out(sharding)(leaf)
    if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(_put(jax.random.key_data(leaf), sharding), impl=jax.random.key_impl(leaf))
    whole = np.asarray(leaf)
    return jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])


@cache
def _laid_out(sharding: NamedSharding) -> Callable[[Any], Any]:
    return jax.jit(lambda arrays: arrays, out_shardings=sharding)


def at_first(action: Callable[[], Any], like: Any) -> Any:
    """Arrays that process 0 finds, and zeros in the others; `like` says their shapes."""
    # Of what fails there the others must hear before they wait for arrays.
    found: list[Any] = []
    first(lambda: found.append(action()))
    return found[0] if found else jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), like)


def fetch(tree: Any) -> Any:
    """Every array of a tree, whole, in the memory of every process."""
    if processes() == 1:
        return jax.device_get(tree)
    leaves, structure = jax.tree.flatten(tree)
    cut = {
        index: leaf
        for index, leaf in enumerate(leaves)
        if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable and not leaf.is_fully_replicated
    }
    if cut:
        mesh: Mesh = next(iter(cut.values())).sharding.mesh  # type: ignore[attr-defined]
        whole = _laid_out(NamedSharding(mesh, PartitionSpec()))(list(cut.values()))
        for index, leaf in zip(cut, whole, strict=True):
            leaves[index] = leaf
    return jax.tree.unflatten(structure, [np.asarray(leaf) for leaf in leaves])

"""How much memory a run needs at the least, and how much there is: told before it is asked for.

Nothing is allocated to find out. The figure is a lower bound, so that nothing is refused that could have run.
"""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

MEMINFO, CGROUPS = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")


def size_of(tree: Any) -> int:
    """The bytes of a tree's arrays, which may be known by their shapes alone."""
    leaves = [leaf for leaf in jax.tree.leaves(tree) if eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)]
    return sum(map(bytes_of, leaves))


def bytes_of(array: Any) -> int:
    """The bytes of one array, or of what has the shape and the kind of numbers of one."""
    keys = jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key)
    return math.prod(array.shape) * (8 if keys else int(np.dtype(array.dtype).itemsize))


def in_words(count: float) -> str:
    """A number of bytes, for people."""
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if count < 1000 or unit == "PB":
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1000
    raise AssertionError


def available() -> int | None:
    """Bytes there are for a run: an accelerator's, or this machine's that are free; None where nobody says."""
    if jax.default_backend() != "cpu":
        memory = jax.local_devices()[0].memory_stats() or {}
        return int(memory["bytes_limit"]) if "bytes_limit" in memory else None
    return on_host()


def on_host() -> int | None:
    """Bytes of main memory that are free, within the limits set for this process."""
    limits = [limit for limit in (_of_machine(), _of_group()) if limit is not None]
    return min(limits, default=None)


def _of_machine() -> int | None:
    try:
        for line in MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:  # where there is no such file, all memory there is: less than that is surely not enough
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _of_group() -> int | None:
    """What the control groups of this process leave it, in both versions there are; files may be given back."""
    try:
        lines = [line.split(":", 2) for line in OWN_GROUPS.read_text().splitlines()]
    except OSError:
        return None
    left = []
    for _, controllers, place in (line for line in lines if len(line) == 3):
        if controllers == "":
            base, names = CGROUPS, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            base, names = CGROUPS / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = base / place.lstrip("/")
        for folder in (group, *group.parents):
            left.append(_left_in(folder, *names))
            if folder == base:
                break
    return min((found for found in left if found is not None), default=None)


def _left_in(folder: Path, limit: str, used: str, inactive: str) -> int | None:
    try:
        most, now = (int((folder / name).read_text()) for name in (limit, used))
        statistics = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no such file, or "max"
        return None
    return max(0, most - now + int(statistics.get(inactive, 0)))


def check_room(what: str, parts: Mapping[str, int], advice: str, room: int | None = None) -> None:
    """Refuse what needs more memory than there is: how much each part needs, and what to make smaller."""
    needed, room = sum(parts.values()), available() if room is None else room
    if room is None or needed <= room:
        return
    each = ", ".join(f"{in_words(size)} for {name}" for name, size in sorted(parts.items(), key=lambda part: -part[1]))
    raise ValueError(
        f"{what} needs at least {in_words(needed)} of memory, and there are {in_words(room)} here: {each}; {advice}"
    )

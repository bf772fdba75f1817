"""The menu of a family: its options, a few good choices to begin with, and the neighbours of a choice."""

from collections.abc import Mapping, Sequence
from typing import Any

from hush.plans.choices import steps_and_batch
from hush.plans.families import Family
from hush.plans.scene import Scene

Choices = Mapping[str, Any]
ORDER = ("clients", "rounds", "coding", "local", "bands")  # in which choices are moved

# What to begin with: the nearest that a menu has to it.
FIRST = {
    "": [
        {"local": "10 x 10", "clients": 0.1, "coding": "1/256 dense", "rounds": 80, "bands": 4},
        {"local": "10 x 20", "clients": 0.2, "coding": "1 elias", "rounds": 40, "bands": 4},
    ],
    "private": [
        {"local": "10 x 20", "clients": 0.2, "coding": "7/256 dense", "rounds": 80, "bands": 4},
        {"local": "20 x 20", "clients": 0.2, "coding": "none", "rounds": 40, "bands": 8},
    ],
}


def options_of(scene: Scene, family: Family, choices: Choices | None = None) -> dict[str, Sequence[Any]]:
    """What a family lets one choose, by name."""
    found: dict[str, Sequence[Any]] = {}

    def note(name: str, options: Sequence[Any]) -> Any:
        found[name] = options
        return (choices or {}).get(name, options[0])

    family(scene, note)
    return found


def first_choices(name: str, scene: Scene, family: Family) -> list[Choices]:
    """Where the search of a family begins."""
    options, kind = options_of(scene, family), "private" if scene.private else ""
    wanted = FIRST[kind] if name in ("fedpaq", "dp_fedavg", "private_fedpaq") else FIRST[kind][:1]
    return [{each: nearest(each, values, choice, scene) for each, values in options.items()} for choice in wanted]


def nearest(name: str, options: Sequence[Any], choice: Choices, scene: Scene) -> Any:
    """The option that comes next to what is wanted."""
    wanted = choice[name]
    if wanted in options:
        return wanted
    if name == "clients":
        return min(options, key=lambda size: abs(size - wanted * scene.clients))
    if name == "local":
        steps, batch = steps_and_batch(wanted)
        return min(options, key=lambda each: _apart(steps_and_batch(each), (steps, batch)))
    return options[-1]


def _apart(one: tuple[int, int | None], other: tuple[int, int | None]) -> float:
    whole = 100  # examples that stand for all of them
    return abs(one[0] - other[0]) + abs((one[1] or whole) - (other[1] or whole)) / 4


def neighbours(choices: Choices, options: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """One choice moved by one place, up and down; local work by its steps or by its batch."""
    found = []
    for name in sorted(choices, key=ORDER.index):
        if name in options:
            near = (
                _near_work(choices[name], options[name]) if name == "local" else _beside(choices[name], options[name])
            )
            found += [dict(choices) | {name: value} for value in near]
    return found


def _beside(value: Any, options: Sequence[Any]) -> list[Any]:
    place = list(options).index(value)
    return [options[at] for at in (place + 1, place - 1) if 0 <= at < len(options)]


def _near_work(value: str, options: Sequence[str]) -> list[str]:
    steps, batch = steps_and_batch(value)
    parsed = {steps_and_batch(option): option for option in options}
    steps_here = sorted(each for each, size in parsed if size == batch)
    batches = sorted((size for each, size in parsed if each == steps), key=lambda size: size or 10**9)
    more = [(each, batch) for each in _beside(steps, steps_here)] + [(steps, size) for size in _beside(batch, batches)]
    return [parsed[each] for each in more]

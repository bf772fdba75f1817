"""What a plan is made on: data that is not private, in place of the task's own."""

from collections.abc import Mapping
from typing import Any

from hush.core.check import nearest, shown
from hush.data import datasets
from hush.data.partitions import set_aside
from hush.settings.errors import SettingsError, found
from hush.settings.schema import REQUIRED, schema
from hush.tasks import OF_FILES, TASKS

ASIDE = "set-aside"
CHOICES = f"""a plan is made on data that is not private, its proxy; say one of
  [proxy] name = "fashion_mnist"   another task, with all that [task] says and the other knows
  [proxy] name = "synthetic"       made-up examples, of the sizes of the task's own
  [proxy] use = "{ASIDE}"         the examples that [task] keeps from all clients, by set_aside = 0.1, say
or tune on the private data itself, and pay for it in ε: --private-data, hush.plans.tune"""

KINDS = ("classes_per_client", "dominant_classes", "dirichlet", "power_law")
# A proxy that gives one of the first has done with all of the second: a partition has one kind, options are a model's.
REPLACED = ((KINDS, (*KINDS, "examples_per_client", "overlap")), (("model",), ("model_options",)))
# These are about the task's own data, and mean nothing for others.
OF_THE_DATA = ("set_aside", "use")
# MNIST and the digits of EMNIST come from the same forms that NIST gathered: examples of one may be among the other's.
KIN = ({"mnist", "emnist_digits"},)
# Not whose examples are not here, nor files, of which nobody knows whether they are the private ones.
PROXIES = tuple(name for name in TASKS if name not in ("remote", *OF_FILES))

Table = dict[str, Any]


def proxy_of(task: Mapping[str, Any], proxy: Mapping[str, Any] | None) -> Table:
    """The task table to plan on, from `[task]`, as `build` takes it, and `[proxy]`; refused where there is no proxy.

    In a run with examples set aside, `set_aside` and `partition_seed` must stay those of the task that was planned for:
    with others, clients would get what the plan has looked at.

    >>> proxy_of({"name": "mnist", "clients": 50, "dirichlet": 0.3}, {"name": "fashion_mnist"})["dirichlet"]
    0.3
    >>> proxy_of({"name": "mnist", "set_aside": 0.1}, {"use": "set-aside"})
    {'name': 'mnist', 'set_aside': 0.1, 'use': 'set-aside'}
    """
    if not proxy:
        raise ValueError(CHOICES)
    if proxy.get("name", task.get("name")) == task.get("name"):
        return _aside(task, proxy)
    return _other(task, proxy)


def _aside(task: Mapping[str, Any], proxy: Mapping[str, Any]) -> Table:
    """The task's own examples, but those that no client gets."""
    if "use" not in proxy:
        raise SettingsError("proxy", f"names no data but the task's own\n{CHOICES}")
    if proxy["use"] != ASIDE:
        raise SettingsError("proxy.use", f'must be "{ASIDE}", {found(proxy["use"])}')
    if task.get("set_aside") is None:
        raise SettingsError("proxy.use", f'"{ASIDE}" needs task.set_aside, a share such as 0.1 that no client gets')
    _check_known(str(task["name"]), proxy)
    # Another share or another seed would set aside examples that clients hold in the run that is planned.
    own = _settings(task)
    for setting in ("set_aside", "partition_seed"):
        if proxy.get(setting, own[setting]) != own[setting]:
            place = f"proxy.{setting}"
            raise SettingsError(place, f"must be the task's own, {shown(own[setting])}, {found(proxy[setting])}")
    return _left(task, proxy) | dict(proxy)


def _other(task: Mapping[str, Any], proxy: Mapping[str, Any]) -> Table:
    """Another task, with every setting of this one that it knows, given or not."""
    name, private = proxy["name"], task.get("name")
    if not isinstance(name, str) or name not in PROXIES:
        raise SettingsError("proxy.name", f"unknown proxy {shown(name)}; {nearest(str(name), PROXIES)}")
    if any({name, private} <= kin for kin in KIN):
        raise SettingsError("proxy.name", f"{name} may have examples that are also in {private}; name other data")
    _check_known(name, proxy)
    for setting in OF_THE_DATA:
        if setting in proxy:
            raise SettingsError(f"proxy.{setting}", f"is about the task's own data, found it with {name}")
    taken = _left(_settings(task), proxy)
    if name == "synthetic":
        taken |= _sizes(task, proxy)
    usable = [setting for setting in schema(TASKS[name]) if setting not in OF_THE_DATA]
    return {setting: taken[setting] for setting in usable if taken.get(setting) is not None} | dict(proxy)


def _settings(task: Mapping[str, Any]) -> Table:
    """All that a task is made with, its defaults among them; nothing of one that is the user's own."""
    made_by = TASKS.get(str(task.get("name")))
    fields = schema(made_by).values() if made_by else ()
    return {field.name: field.default for field in fields if field.default is not REQUIRED} | dict(task)


def _left(settings: Mapping[str, Any], proxy: Mapping[str, Any]) -> Table:
    """The settings that the proxy does not replace by others."""
    gone = {name for given, replaced in REPLACED if set(given) & set(proxy) for name in replaced}
    return {name: value for name, value in settings.items() if name not in gone}


def _check_known(name: str, proxy: Mapping[str, Any]) -> None:
    known = schema(TASKS[name])
    for setting in proxy:
        if setting not in ("name", *known):
            raise SettingsError(f"proxy.{setting}", f"unknown setting of {name}; {nearest(setting, known)}")


def _sizes(task: Mapping[str, Any], proxy: Mapping[str, Any]) -> Table:
    """How large the task's own data is, as everybody knows who has never looked into it."""
    name = task.get("name")
    if name in datasets.NAMES:
        return _published(task)
    if name == "remote" and task.get("kind", "classification") == "classification":
        sizes = task["sizes"]
        each = max(round(sum(sizes) / len(sizes)), 1)
        shape, classes = list(task["shape"]), task.get("outputs", 1)
        return {"clients": len(sizes), "examples_per_client": each, "features": shape, "classes": classes}
    for setting in ("clients", "examples_per_client", "features", "classes"):
        if setting not in proxy:
            raise SettingsError(f"proxy.{setting}", f"is missing: the sizes of the task {shown(name)} are not known")
    return {}


def _published(task: Mapping[str, Any]) -> Table:
    sizes, settings = datasets.sizes(task["name"]), _settings(task)
    examples = sizes.train
    if (share := settings["set_aside"]) is not None:
        examples = len(set_aside(examples, share, settings["partition_seed"])[2])
    return {
        "examples_per_client": settings["examples_per_client"] or max(examples // settings["clients"], 1),
        "features": list(sizes.image),
        "classes": sizes.classes,
        "test_examples": sizes.test,
    }

"""The pages of the reference: every public name of hush, from the packages' own lists, so that none is forgotten.

A name is documented once, on the page of the first package that lists it; the page of `hush` itself comes last and
points to the others. What a page shows of a name (signature, docstring, example) is made by `tools/signatures.py`.
"""

import inspect
import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import hush

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs" / "reference" / "examples"
# In the order of the site. Packages that hush does not list itself, but whose names users are told to use: models.
FIRST = (
    "algorithms",
    "tasks",
    "models",
    "cohort",
    "local",
    "uplink",
    "channel",
    "server",
    "privacy",
    "plans",
    "audits",
)


@dataclass(frozen=True)
class Name:
    """One public name: the page that documents it, what users write, and where it is defined."""

    page: str
    said: str  # hush.uplink.QSGD
    path: str  # hush.uplink.levels.QSGD
    value: Any
    other: "Name | None" = None  # the name under which the same thing is documented


def listed(module: ModuleType) -> list[str]:
    """The public names of a module: its `__all__`, or what it defines itself."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    here = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    return [name for name in here if not name.startswith("_")]


def modules() -> dict[str, ModuleType]:
    """The public modules by the name of their page, that of `hush` last."""
    public = {name: getattr(hush, name) for name in hush.__all__ if isinstance(getattr(hush, name), ModuleType)}
    public["models"] = import_module("hush.models")
    found = {name: public.pop(name) for name in FIRST} | public
    return {**found, "hush": hush}


def title(module: ModuleType) -> str:
    """What users write for a module: that of keys, metrics and schedules is shorter than where they lie."""
    return "hush" if module is hush else f"hush.{module.__name__.rpartition('.')[2]}"


def _defined_at(package: ModuleType, name: str, value: Any) -> str:
    """The path of a function or class where its source is; of anything else, where it is listed."""
    path = f"{getattr(value, '__module__', None)}.{getattr(value, '__qualname__', None)}"
    module, _, last = path.rpartition(".")
    if module.startswith("hush.") and getattr(import_module(module), last, None) is value:
        return path
    return f"{package.__name__}.{name}"


def is_code(value: Any) -> bool:
    """Whether a value is a function or a class, which wants an example; a table or another name of a type is none."""
    return inspect.isclass(value) or inspect.isfunction(value)


@cache
def names() -> tuple[Name, ...]:
    """Every public name but modules, once."""
    found: list[Name] = []
    for page, module in modules().items():
        for name in sorted(listed(module), key=lambda each: (each.isupper() and len(each) > 4, each.lower())):
            value = getattr(module, name)
            other = next((each for each in found if each.value is value and is_code(value)), None)
            if isinstance(value, ModuleType) or (other is not None and other.said.endswith(f".{name}")):
                continue
            short = getattr(hush, name, None) is value and is_code(value)
            said = f"hush.{name}" if short else f"{title(module)}.{name}"
            found.append(Name(page, said, _defined_at(module, name, value), value, other))
    return tuple(found)


@cache
def examples() -> dict[str, str]:
    """What the files of examples show for a name, as Markdown: those whose docstring has none of its own."""
    found: dict[str, str] = {}
    for file in sorted(EXAMPLES.glob("*.md")):
        for part in re.split(r"^## ", file.read_text(encoding="utf-8"), flags=re.M)[1:]:
            said, _, text = part.partition("\n")
            found[said.strip()] = text.strip()
    return found


def example_of(name: Name) -> str | None:
    """The example of a name from the files; None if its docstring has one, or if it is a value and no function."""
    if not is_code(name.value) or ">>>" in (inspect.getdoc(name.value) or ""):
        return None
    return examples().get(name.said)


def without_example() -> list[str]:
    """Public functions and classes that no docstring and no file shows in use."""
    wanted = [name for name in names() if is_code(name.value) and name.other is None]
    shown = {name.said for name in wanted if ">>>" in (inspect.getdoc(name.value) or "") or name.said in examples()}
    return [name.said for name in wanted if name.said not in shown]


def _entry(name: Name) -> str:
    if name.other is not None:
        return f"## {name.said}\n\nAnother name of [`{name.other.said}`][{name.other.path}].\n"
    label = name.said.split(".")[-1]
    return f'::: {name.path}\n    options:\n      heading: "{name.said}"\n      toc_label: "{label}"\n'


def _summary(value: Any) -> str:
    """The first sentence of what a name says of itself, fit for a table."""
    if not is_code(value):
        return "What settings files may name." if isinstance(value, dict) else f"`{value!r}`".replace("|", "\\|")
    return (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")


def page(which: str) -> str:
    """One page: what the package says of itself, a table of its names, and every name."""
    module = modules()[which]
    here = [name for name in names() if name.page == which]
    said = (inspect.getdoc(module) or "").split("\n\n")[0]
    rows = [f"| [`{name.said}`][{name.path}] | {_summary(name.value)} |" for name in here]
    if which == "hush":
        said = "What is called most. Everything else is in the packages, of which `hush` names the algorithms too."
        rows += [f"| [`{name.said}`][{name.path}] | {_summary(name.value)} |" for name in _elsewhere()]
    table = "\n".join(["| name | |", "|---|---|", *rows])
    return f"# {title(module)}\n\n{said}\n\n{table}\n\n" + "\n".join(_entry(name) for name in here)


def _elsewhere() -> list[Name]:
    """What `hush` names itself and another page documents."""
    mine = {id(getattr(hush, name)) for name in hush.__all__}
    return [name for name in names() if id(name.value) in mine and name.page != "hush"]


def index() -> str:
    """All names on one page, by package."""
    parts = ["# Reference", "Every public name, with its signature and an example."]
    for which, module in modules().items():
        here = ", ".join(f"[`{name.said}`][{name.path}]" for name in names() if name.page == which)
        said = "" if which == "hush" else (inspect.getdoc(module) or "").split("\n\n")[0]
        parts += [f"## [{title(module)}]({which}.md)", said, here]
    return "\n\n".join(part for part in parts if part) + "\n"


def pages() -> dict[str, str]:
    """All pages of the reference, by their path in the site."""
    return {"reference/index.md": index()} | {f"reference/{which}.md": page(which) for which in modules()}

"""What the reference shows of a name, where the source alone does not tell: an extension of griffe.

Pieces are equinox modules, whose signature is made when they are; some functions are made by other functions; fields
are explained by comments beside them; docstrings are plain text, with columns and doctests. All of that is made into
what mkdocstrings understands.
"""

import inspect
import re
from typing import Any

import griffe
import reference

KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: griffe.ParameterKind.positional_only,
    inspect.Parameter.POSITIONAL_OR_KEYWORD: griffe.ParameterKind.positional_or_keyword,
    inspect.Parameter.KEYWORD_ONLY: griffe.ParameterKind.keyword_only,
    inspect.Parameter.VAR_POSITIONAL: griffe.ParameterKind.var_positional,
    inspect.Parameter.VAR_KEYWORD: griffe.ParameterKind.var_keyword,
}
PIPE = "\\|"  # a bar within a cell of a table
COLUMN = re.compile(r"^(\S.*?\S|\S)\s{2,}(\S.*)$")


def as_markdown(docstring: str) -> str:
    """A docstring's paragraphs: doctests as code, columns as a table, indented lines as code, the rest as text.

    >>> as_markdown("Text.\\n\\nlr    a step\\n      size\\nbatch  how many")
    'Text.\\n\\n| | |\\n|---|---|\\n| `lr` | a step size |\\n| `batch` | how many |'
    """
    return "\n\n".join(_paragraph(each) for each in re.split(r"\n\s*\n", inspect.cleandoc(docstring)))


def _paragraph(text: str) -> str:
    lines = text.splitlines()
    if lines[0].startswith("```"):
        return text
    if any(line.lstrip().startswith(">>>") for line in lines):
        return _doctest(lines)
    if COLUMN.match(lines[0]) and not lines[0].startswith("|"):
        return _columns(lines)
    return text


def _doctest(lines: list[str]) -> str:
    """What stands before the first prompt is text; all after it is a session."""
    first = next(index for index, line in enumerate(lines) if line.lstrip().startswith(">>>"))
    session = inspect.cleandoc("\n".join(lines[first:]))
    return "\n".join([*lines[:first], *([""] if first else []), "```pycon", session, "```"])


def _columns(lines: list[str]) -> str:
    rows: list[list[str]] = []
    for line in lines:
        if found := COLUMN.match(line):
            rows.append([f"`{found[1]}`".replace(", ", "`, `"), found[2]])
        else:
            rows[-1][1] += " " + line.strip()
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {said.replace('|', PIPE)} |" for name, said in rows)])


def parameters(value: Any, fields: dict[str, Any]) -> griffe.Parameters:
    """A signature as it is when hush runs, with annotations as they are written where that is known."""
    found = []
    for each in inspect.signature(value).parameters.values():
        written = fields[each.name].annotation if each.name in fields else None
        given = each.annotation is not inspect.Parameter.empty
        annotation = written or (_annotation(each.annotation) if given else None)
        default = None if each.default is inspect.Parameter.empty else _default(each.default)
        found.append(griffe.Parameter(each.name, annotation=annotation, kind=KINDS[each.kind], default=default))
    return griffe.Parameters(*found)


def _annotation(annotation: Any) -> str:
    """A type without the modules it lies in, and what may be a schedule by its name."""
    said = re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", inspect.formatannotation(annotation))
    return said.replace("float | Callable[[Array], Array]", "Rate")


def _default(value: Any) -> str:
    said = re.sub(r"<function (\w+) at 0x\w+>", r"\1", repr(value))
    return "…" if said.startswith("<") or len(said) > 60 else said


class Signatures(griffe.Extension):
    """Run by mkdocstrings once hush is loaded."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        if pkg.name != "hush":
            return
        for name in reference.names():
            if name.other is None:
                self._complete(pkg, name)
        for module in _modules(pkg):
            _rewrite(module)

    def _complete(self, pkg: griffe.Module, name: reference.Name) -> None:
        """Give one public name its signature, and its docstring the example that a file holds."""
        path = name.path.removeprefix("hush.")
        found = pkg[path]
        if inspect.isfunction(name.value) and not _as_written(found, name.value):
            found = _function(found, name.value)
        if inspect.isfunction(name.value) and found.docstring is None:  # put together when its module is loaded
            found.docstring = griffe.Docstring(inspect.getdoc(name.value) or "", parent=found)
        if isinstance(name.value, type) and not issubclass(name.value, BaseException):
            fields = {key: member for key, member in found.members.items() if member.is_attribute}
            found.set_member("__init__", griffe.Function("__init__", parameters=parameters(name.value, fields)))
        if not reference.is_code(name.value):
            found.docstring = griffe.Docstring(_table(name.value), parent=found)
        example = reference.example_of(name)
        if example is not None:
            said = found.docstring.value if found.docstring else ""
            found.docstring = griffe.Docstring(f"{said}\n\n{example}", parent=found)


def _as_written(found: Any, value: Any) -> bool:
    """Whether the source has the signature that a function has when hush runs: decorators and makers change it."""
    return found.is_function and [each.name for each in found.parameters] == list(inspect.signature(value).parameters)


def _function(attribute: Any, value: Any) -> griffe.Function:
    """A function that another function made, in the place of the attribute that it is in the source."""
    made = griffe.Function(
        attribute.name,
        parameters=parameters(value, {}),
        returns=_annotation(inspect.signature(value).return_annotation),
        lineno=attribute.lineno,
        endlineno=attribute.endlineno,
    )
    made.docstring = griffe.Docstring(inspect.getdoc(value) or "", parent=made)
    attribute.parent.set_member(attribute.name, made)
    return made


def _table(value: Any) -> str:
    """What a table or a list of names holds."""
    if isinstance(value, dict):
        rows = [f"| `{key!r}` | {_shown(each)} |" for key, each in value.items()]
        return "\n".join(["| name | stands for |", "|---|---|", *rows])
    return f"`{value!r}`"


def _shown(value: Any) -> str:
    documented = {id(name.value): name for name in reference.names()}
    if id(value) in documented:
        return f"[`{documented[id(value)].said}`][{documented[id(value)].path}]"
    return f"`{getattr(value, '__name__', value)}`"


def _modules(module: griffe.Module) -> list[griffe.Module]:
    mine = [each for each in module.members.values() if not each.is_alias and each.is_module]
    return [module, *(below for each in mine for below in _modules(each))]


def _rewrite(module: griffe.Module) -> None:
    """Docstrings into Markdown, and comments beside fields into docstrings, in one module."""
    lines = module.lines
    for each in _members(module):
        if each.docstring is not None:
            each.docstring.value = as_markdown(each.docstring.value)
        elif each.is_attribute and each.lineno and "  # " in lines[each.lineno - 1]:
            comment = lines[each.lineno - 1].split("  # ", 1)[1]
            if not comment.startswith(("type:", "noqa", "pragma")):
                each.docstring = griffe.Docstring(comment[:1].upper() + comment[1:] + ".", parent=each)


def _members(parent: Any) -> list[Any]:
    """Classes, functions and attributes of a module, at any depth, imported names apart."""
    mine = [each for each in parent.members.values() if not each.is_alias and not each.is_module]
    return mine + [below for each in mine if each.is_class for below in _members(each)]

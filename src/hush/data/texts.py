"""Texts of clients: read from files, or found in the Python that is running."""

import ast
import functools
import importlib.util
import json
from pathlib import Path
from typing import Any

from hush.core.check import integer

Texts = tuple[list[str], list[str]]  # one text after the other, and whose each is

# Modules of the standard library, since 3.11 and in 3.13 still, that are written in Python and say much of themselves.
MODULES = (
    "argparse", "ast", "bdb", "collections", "configparser", "contextlib", "difflib", "doctest", "enum", "fileinput",
    "fractions", "ftplib", "functools", "imaplib", "inspect", "ipaddress", "json", "logging", "mailbox", "mimetypes",
    "optparse", "pickle", "pickletools", "platform", "pydoc", "random", "shutil", "smtplib", "socket", "socketserver",
    "ssl", "statistics", "subprocess", "tarfile", "tempfile", "textwrap", "threading", "timeit", "traceback", "typing",
)  # fmt: skip
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def read_texts(path: str | Path) -> Texts:
    """A folder with a .txt file for each client, a .jsonl file with client and text in each line, or one .txt file."""
    found = Path(path)
    if found.is_dir():
        files = sorted(found.glob("*.txt"))
        if not files:
            raise ValueError(f"{path} must hold a .txt file for each client, found none")
        return [_read(file) for file in files], [file.stem for file in files]
    if found.suffix == ".txt":
        return [_read(found)], [found.stem]
    if found.suffix == ".jsonl":
        lines = enumerate(_read(found).splitlines(), start=1)
        entries = [_entry(f"{path}, line {number}", line) for number, line in lines if line.strip()]
        return [text for _, text in entries], [client for client, _ in entries]
    raise ValueError(f"path must be a folder of .txt files, a .jsonl file or a .txt file, found {path}")


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} cannot be read as UTF-8 text: {error}") from error


def _entry(place: str, line: str) -> tuple[str, str]:
    try:
        entry = json.loads(line)
        client, text = entry["client"], entry["text"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f'{place} must be as {{"client": "Ada", "text": "…"}}, found {line[:60]!r}') from error
    if not isinstance(text, str) or isinstance(client, bool) or not isinstance(client, str | int):
        raise ValueError(f"{place} must have text for text, and text or a whole number for client, found {line[:60]!r}")
    return str(client), text


def docstrings(clients: int, start: int = 0) -> Texts:
    """What so many modules of Python's standard library say of themselves, from the `start`-th on; none is imported.

    >>> texts, modules = docstrings(2)
    >>> modules, texts[0].startswith("Command-line parsing library")
    (['argparse', 'ast'], True)
    """
    integer("clients", clients, 1, len(MODULES) - start)
    modules = list(MODULES[start : start + clients])
    return [_documentation(module) for module in modules], modules


@functools.cache
def _documentation(module: str) -> str:
    """All docstrings of a module, in the order of its parts."""
    loader: Any = getattr(importlib.util.find_spec(module), "loader", None)
    source = loader.get_source(module) if hasattr(loader, "get_source") else None
    if source is None:
        raise ValueError(f"the source of Python's module {module} is not installed here")
    parts = (node for node in ast.walk(ast.parse(source)) if isinstance(node, DOCUMENTED))
    return "\n\n".join(filter(None, map(ast.get_docstring, parts)))

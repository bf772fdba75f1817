"""The papers and data sets behind the pieces, from the file bibliography.bib beside this one."""

import re
from importlib.resources import files

# An entry begins with its kind and key, and ends with a brace at the beginning of a line.
ENTRY = re.compile(r"^@\w+\{(?P<key>\w+),\n(?:  .*\n)+\}\n", re.MULTILINE)


def entries() -> dict[str, str]:
    """Every entry as it stands in the file, by its key."""
    text = (files("hush.app") / "bibliography.bib").read_text(encoding="utf-8")
    return {found["key"]: found[0] for found in ENTRY.finditer(text)}

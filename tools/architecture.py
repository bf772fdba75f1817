"""The picture and the table of docs/architecture.md, made from the code: which package imports which.

`make architecture` writes both anew. An arrow points from who imports to what is imported; one that others imply is
left out. Packages stand above all that they import.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE, PAGE, PICTURE = (
    ROOT / "src" / "hush",
    ROOT / "docs" / "architecture.md",
    ROOT / "docs" / "images" / "architecture.svg",
)
BEGIN, END = "<!-- packages: made by `make architecture` -->", "<!-- end of packages -->"
Imports = dict[str, set[str]]


def packages() -> dict[str, str]:
    """Every package by name, with the first sentence of what it says of itself."""
    found = {}
    for file in sorted(SOURCE.glob("*/__init__.py")):
        said = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        found[file.parent.name] = " ".join(said.split("\n\n")[0].split())
    return found


def imports() -> Imports:
    """What each package imports of the others, anywhere in its files."""
    names = set(packages())
    found: Imports = {name: set() for name in names}
    for name in names:
        for file in (SOURCE / name).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                found[name] |= set(_imported(node)) & (names - {name})
    return found


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "hush":
        parts = node.module.split(".")
        return [parts[1]] if len(parts) > 1 else [each.name for each in node.names]
    if isinstance(node, ast.Import):
        return [each.name.split(".")[1] for each in node.names if each.name.startswith("hush.")]
    return []


def reached(start: str, graph: Imports) -> set[str]:
    """All that a package depends on, directly or not."""
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += graph[name]
    return seen


def needed(graph: Imports) -> Imports:
    """The arrows that no chain of others implies."""
    below = {name: reached(name, graph) for name in graph}
    return {name: {to for to in graph[name] if not any(to in below[via] for via in graph[name])} for name in graph}


def heights(graph: Imports) -> dict[str, int]:
    """How high each package stands: one above the highest that it imports."""
    found: dict[str, int] = {}
    while len(found) < len(graph):
        ready = [name for name in graph if name not in found and graph[name] <= set(found)]
        if not ready:
            raise ValueError(f"packages import each other in a circle: {sorted(set(graph) - set(found))}")
        for name in ready:
            found[name] = 1 + max((found[to] for to in graph[name]), default=-1)
    return found


def table(graph: Imports) -> str:
    """The packages from the highest to the lowest, what each holds, and what it imports."""
    said, high = packages(), heights(graph)
    order = sorted(graph, key=lambda name: (-high[name], name))
    rows = [f"| `{name}` | {said[name]} | {', '.join(sorted(graph[name])) or '–'} |" for name in order]
    return "\n".join(["| package | what it holds | imports |", "|---|---|---|", *rows])


def draw(graph: Imports, path: Path) -> None:
    """Boxes in rows by height, and the needed arrows between them."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "architecture"  # the same picture from the same code
    high = heights(graph)
    rows = [sorted(name for name in graph if high[name] == level) for level in range(max(high.values()) + 1)]
    place = {
        name: ((index + 0.5) / len(row), level) for level, row in enumerate(rows) for index, name in enumerate(row)
    }
    figure = Figure(figsize=(9, 0.72 * len(rows)), layout="constrained")
    ax = figure.subplots()
    ax.set(xlim=(0, 1), ylim=(-0.5, len(rows) - 0.5))
    ax.set_axis_off()
    for name, targets in needed(graph).items():
        for to in sorted(targets):
            ax.annotate(
                "", xy=(place[to][0], place[to][1] + 0.2), xytext=(place[name][0], place[name][1] - 0.2),
                arrowprops={"arrowstyle": "-|>", "color": "#8899aa", "lw": 0.9},
            )  # fmt: skip
    for name, (x, y) in place.items():
        box = {"boxstyle": "round,pad=0.35", "facecolor": "#eef3f8", "edgecolor": "#456"}
        ax.text(x, y, name, ha="center", va="center", fontsize=10, bbox=box)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    graph = imports()
    draw(graph, PICTURE)
    page = PAGE.read_text(encoding="utf-8")
    made = f"{BEGIN}\n\n{table(graph)}\n\n{END}"
    PAGE.write_text(
        re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: made, page, flags=re.S), encoding="utf-8"
    )


if __name__ == "__main__":
    main()

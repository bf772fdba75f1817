"""What the doctests cannot import without an extra is left out of them."""

from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
collect_ignore = [] if find_spec("torch") else [*map(str, HERE.glob("src/hush/models/torch_*.py"))]
if not find_spec("flwr"):
    collect_ignore += [f"src/hush/network/flower/{name}.py" for name in ("client_app", "grid", "server_app")]

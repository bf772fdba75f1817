"""What the doctests cannot import without an extra is left out of them."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["src/hush/models/torch_module.py"]
if not find_spec("flwr"):
    collect_ignore += [f"src/hush/network/flower/{name}.py" for name in ("client_app", "grid", "server_app")]

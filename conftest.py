"""What the doctests cannot import without an extra is left out of them."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["src/hush/models/torch_module.py"]

"""The run folder: which files it has, how they are written so that nothing is lost, and how they are read again."""

from hush.store.files import FILES
from hush.store.folder import RunFolder
from hush.store.reading import Unreadable, load_json, load_records, load_settings, load_table
from hush.store.writing import atomically

__all__ = [
    "FILES",
    "RunFolder",
    "Unreadable",
    "atomically",
    "load_json",
    "load_records",
    "load_settings",
    "load_table",
]

"""Populations on disk: a folder of Arrow files with the examples of clients, read a few clients at a time."""

from hush.data.stores.facts import Column, Damaged, Facts, is_store
from hush.data.stores.reading import Store
from hush.data.stores.writing import Writer

__all__ = ["Column", "Damaged", "Facts", "Store", "Writer", "is_store"]

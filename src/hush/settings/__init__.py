"""Settings files: an algorithm, its task and its run as TOML tables, and back.

The pieces and the task functions are the schema: the fields they have, with the types they are declared with, are what
a settings file may say. `tables_of` turns objects into plain tables, `build` turns tables into objects.
"""

from hush.settings.build import build
from hush.settings.defaults import default_tables
from hush.settings.errors import SettingsError
from hush.settings.experiment import Experiment
from hush.settings.files import dumps, override, read
from hush.settings.network import NetworkSettings
from hush.settings.run import RunSettings
from hush.settings.tables import tables_of

__all__ = [
    "Experiment",
    "NetworkSettings",
    "RunSettings",
    "SettingsError",
    "build",
    "default_tables",
    "dumps",
    "override",
    "read",
    "tables_of",
]

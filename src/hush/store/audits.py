"""The files of an audit's folder, which may lie in that of a run."""

from hush.store import files

FOLDER = "audit"  # in a run's folder, or where nothing else is said
IDENTITY = "identity.npz"  # what the measurements depend on
MEASURED = "measured-*.npz"  # a file for each, as they come
SETTINGS = files.SETTINGS.name  # of what was audited, where a settings file or a run was
ANSWER, TABLE, PAGE = "audit.json", "audit.csv", "audit.html"
PICTURES = ("both-sides.png", "region.png")
OWN = (IDENTITY, SETTINGS, ANSWER, TABLE, PAGE, *PICTURES)

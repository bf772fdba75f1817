"""The files of a run folder, all in one table.

Writing, replacing with `--force`, resuming, reading and the documents all go by this table; no file of a run is named
anywhere else.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hush.core.replacing import PARTIAL


class File(NamedTuple):
    """A file of a run folder, or several of one kind: a `*` in the name stands for what tells them apart."""

    name: str
    meaning: str
    final: bool = False  # whether it is written when a run ends, and is out of date when that goes on
    grows: bool = False  # whether it is written on as the run goes

    def path(self, folder: Path, which: str = "") -> Path:
        """Where it is in a folder; `which` of several."""
        return folder / self.name.replace("*", which)


MANIFEST = File(
    "manifest.txt", "the first thing written: that hush began this folder; then length and checksum of every file in it"
)
LOCK = File(".lock", "who is writing in this folder, or was last")
SETTINGS = File("settings.toml", "everything as resolved; `hush run` takes it again")
VERSIONS = File("versions.json", "what computed it")
STATUS = File("status.json", "how it stands")
CLASS_COUNTS = File(
    "class_counts.npz", "of a classifier: how many examples of each class each client has, and what classes are called"
)
CHECKPOINT = File(
    "checkpoint.npz", "all server and client state, all records, and a fingerprint of what the run depends on"
)
CLIENT_STATES = File(
    "client_states.bin",
    "of a streamed run: what clients remember between rounds, each with a checksum; the checkpoint says where whose is",
)
RECORDS_SO_FAR = File("records.csv", "a row for each lane and evaluation, appended as the run goes", grows=True)
SAMPLES = File(
    "samples.f32",
    "with `sample_every`: posterior samples [draws, lanes, d], single precision and nothing else, as they come",
    grows=True,
)
JOURNAL = File(
    "journal.jsonl",
    "of a federation over a network: who came, was told, answered, was refused, a line for each event",
    grows=True,
)
RECORDS = File("records.parquet", "the records, at the end", final=True)
CLIENTS = File(
    "clients.parquet",
    "how often each client took part, what it has sent and been told in bits, its ε, and models on its own data",
    final=True,
)
UPDATES = File("updates.parquet", "with `watch=True`: length and angle of every client's update", final=True)
CALIBRATION = File("calibration.parquet", "of a classifier: scores of its probabilities", final=True)
RELIABILITY = File("reliability.parquet", "of a classifier: how sure it was against how often it was right", final=True)
POSTERIOR = File("posterior*.nc", "the samples for ArviZ, a file for each point of a sweep", final=True)
DIAGNOSTICS = File("diagnostics.json", "of the samples: R-hat and effective sample sizes", final=True)
MODELS = File("model.npz", "the models [lanes, d]", final=True)
REPORT = File("report.html", "the report: self-contained, opens offline", final=True)
CURVES = File("curve-*.png", "its curves: a measure against what it cost", final=True)
CLASS_COUNTS_PICTURE = File("class_counts.png", "its picture of who has which classes", final=True)
CLIENTS_PICTURE = File("clients.png", "its picture of what each client has spent", final=True)
OWN_DATA_PICTURE = File("own_data.png", "its picture of models on each client's own data", final=True)
UPDATES_PICTURE = File("updates.png", "its picture of the clients' updates", final=True)
RELIABILITY_PICTURE = File("reliability.png", "its picture of how sure against how often right", final=True)
TRACE_PICTURE = File("trace.png", "its picture of the chains over the rounds", final=True)
DENSITY_PICTURE = File("density.png", "its picture of how parameters are spread", final=True)

FILES = (
    MANIFEST,
    LOCK,
    SETTINGS,
    VERSIONS,
    STATUS,
    CLASS_COUNTS,
    CHECKPOINT,
    CLIENT_STATES,
    RECORDS_SO_FAR,
    SAMPLES,
    JOURNAL,
    RECORDS,
    CLIENTS,
    UPDATES,
    CALIBRATION,
    RELIABILITY,
    POSTERIOR,
    DIAGNOSTICS,
    MODELS,
    REPORT,
    CURVES,
    CLASS_COUNTS_PICTURE,
    CLIENTS_PICTURE,
    OWN_DATA_PICTURE,
    UPDATES_PICTURE,
    RELIABILITY_PICTURE,
    TRACE_PICTURE,
    DENSITY_PICTURE,
)


def present(folder: Path, final: bool = False) -> Iterator[Path]:
    """The files of a run that lie in a folder, or only its final ones; never the lock, which outlives them."""
    for file in FILES:
        if file != LOCK and (file.final or not final):
            yield from (path for path in folder.glob(file.name) if path.is_file())


def leftovers(folder: Path) -> Iterator[Path]:
    """What writes that were cut short have left behind."""
    yield from (path for path in folder.glob(f".*{PARTIAL}") if path.is_file())

"""Reports and comparisons for the viewer: made beside the runs, in a folder of its own that is then taken away."""

import contextlib
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from hush.report.compare import write_comparison
from hush.report.page import write_report
from hush.store import RunFolder, Unreadable, files, manifest
from hush.view.holding import held
from hush.view.shelf import Known

KEPT = 32  # pages
LARGE = (files.CHECKPOINT, files.SAMPLES, files.MODELS, files.POSTERIOR)  # too large to copy for the sake of a page

Make = Callable[[Sequence[Known]], bytes]


class Pages:
    """Pages of one run or several, made once for as long as nothing changes in their folders."""

    def __init__(self) -> None:
        self._kept: OrderedDict[object, bytes] = OrderedDict()
        self._one_at_a_time = threading.Lock()  # each takes a core for seconds

    def report(self, run: Known) -> bytes:
        """The report that the run has written, or one of what there is so far."""
        return self._page(_report, [run])

    def comparison(self, runs: Sequence[Known]) -> bytes:
        """Runs side by side."""
        return self._page(_comparison, runs)

    def _page(self, make: Make, runs: Sequence[Known]) -> bytes:
        # A run that was killed has changed no file.
        about = (make, *((run.folder, run.state, run.entry.status) for run in runs))
        with self._one_at_a_time:
            for run in runs:
                _check_links(run)
            if about not in self._kept:
                self._kept[about] = make(runs)
            self._kept.move_to_end(about)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
            return self._kept[about]


def _check_links(run: Known) -> None:
    """Refuse what leads out of the folder that is viewed; the list says so as well."""
    links = run.state[0]
    if links:
        raise Unreadable(f"{run.entry.name}: {', '.join(map(str, links))} leads out of the folder that is viewed")  # type: ignore[call-overload]


def _report(runs: Sequence[Known]) -> bytes:
    (run,) = runs
    written = files.REPORT.path(run.folder)
    writing = held(run.folder)
    if written.is_file() and not writing and manifest.matches(run.folder, files.REPORT.name) is not False:
        return written.read_bytes()
    with _beside(run.folder, writing) as copy:
        return write_report(copy).read_bytes()


def _comparison(runs: Sequence[Known]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="hush-view-") as place:
        return write_comparison([run.folder for run in runs], Path(place)).read_bytes()


@contextlib.contextmanager
def _beside(folder: Path, writing: bool) -> Iterator[Path]:
    """A run folder with the same files, to write a report in; as long as the run goes on, it is locked as that one is.

    The manifest comes last: its last two entries of a file know each file that was copied before.
    """
    with tempfile.TemporaryDirectory(prefix="hush-view-") as place:
        copy = Path(place) / (folder.name or "run")
        copy.mkdir()
        for path in files.present(folder):
            if path.name != files.MANIFEST.name and not (writing and _is_large(path)):
                _bring(path, copy / path.name)
        if manifest.exists(folder):
            manifest.begin(copy)
            for name, pair in manifest.entries(folder).items():
                for entry in pair if not (writing and _is_large(folder / name)) else ():
                    manifest.enter(copy, entry)
        with RunFolder(copy) if writing else contextlib.nullcontext():
            yield copy


def _bring(path: Path, target: Path) -> None:
    """A small file as a copy, for it may be replaced at any time; a large one as a link, where the system has these."""
    if _is_large(path):
        with contextlib.suppress(OSError):
            target.symlink_to(path.resolve())
            return
    shutil.copyfile(path, target)


def _is_large(path: Path) -> bool:
    return any(path.match(file.name) for file in LARGE)

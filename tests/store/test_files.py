"""The table of a run folder's files: what runs write, what the documents say and what the code names are the same."""

import ast
from pathlib import Path

from store_samples import ROUNDS, copy_of, resumed

import hush
from hush.report.page import write_report
from hush.store import FILES, load_records, manifest
from hush.store.files import LOCK

DOCUMENT = Path(__file__).parents[2] / "docs" / "runs.md"
SOURCE = Path(hush.__file__).parent


def test_the_documents_list_exactly_these_files_with_their_meaning():
    after = DOCUMENT.read_text(encoding="utf-8").partition("| file | what |\n|---|---|\n")[2]
    listed = after.partition("\n\n")[0].splitlines()
    assert listed == [f"| `{file.name}` | {file.meaning} |" for file in FILES]


def test_no_file_has_two_entries():
    assert len({file.name for file in FILES}) == len(FILES)


def test_no_file_of_a_run_is_named_outside_the_table():
    """As a value, that is: sentences may speak of one. What papers read is written there as any user would write it."""
    names = {file.name for file in FILES if file != LOCK}  # other things than run folders have a .lock too
    stray = []
    for path in SOURCE.rglob("*.py"):
        if path == SOURCE / "store" / "files.py" or path.is_relative_to(SOURCE / "papers"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and node.value in names:
                stray.append((str(path), node.lineno, node.value))
    assert stray == []


def test_a_folder_from_before_class_counts_had_their_name(run, unpainted, unequal, tmp_path):
    """It is read, reported on without their picture, and goes on."""
    older = copy_of(run, tmp_path / "older")
    entries = [entry for pair in manifest.entries(older).values() for entry in pair]
    manifest.begin(older)
    for entry in entries:
        former = entry.name.replace("class_counts", "holdings")
        if former != entry.name:
            (older / entry.name).replace(older / former)
        manifest.enter(older, entry._replace(name=former))
    assert (older / "holdings.npz").is_file()
    assert len(load_records(older)) == 2 * (1 + ROUNDS // 2)
    page = write_report(older).read_text(encoding="utf-8")
    assert 'id="class_counts"' not in page
    assert "Damaged" not in page
    assert resumed(older, unequal).status["status"] == "finished"

"""What is found by `module:name`, where it is looked for, and what is said where it is not there."""

import sys
from pathlib import Path

import pytest

import hush
from hush.core.importing import imported


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a module, and a working directory with another."""
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "first_of_mine.py").write_text("class Group:\n    number = 7\n")
    (tmp_path / "second_of_mine.py").write_text("number = 8\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    yield tmp_path / "beside"
    assert sys.path == before
    for name in ("first_of_mine", "second_of_mine"):
        sys.modules.pop(name, None)


def test_in_a_folder_in_the_working_directory_and_installed(folder):
    assert imported("first_of_mine:Group.number", folder) == 7
    assert imported("second_of_mine:number", folder) == imported("second_of_mine:number") == 8
    assert imported("hush.core.importing:imported") is imported


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("first_of_mine:Group", "there is no module 'first_of_mine' in .*, nor is one installed"),
        ("second_of_mine:numbr", "'second_of_mine:numbr' is not there: did you mean 'number'"),
        ("math:pi.deeper", "'math:pi.deeper' is not there"),
        ("math", "written module:name, found 'math'"),
        ("../second_of_mine:number", "written module:name"),
    ],
)
def test_what_is_refused(folder, name, sentence):
    with pytest.raises(ValueError, match=sentence):
        imported(name)


def test_it_is_the_only_place_that_imports_by_name():
    """And those who call it are few: what came over a network must never get there."""
    source = Path(hush.__file__).parent
    texts = {path.relative_to(source).as_posix(): path.read_text(encoding="utf-8") for path in source.rglob("*.py")}
    importers = {name for name, text in texts.items() if "import_module" in text or "__import__" in text}
    assert importers == {
        "__init__.py",
        "network/__init__.py",
        "core/importing.py",
    }  # the first two: names of hush's own
    callers = {name for name, text in texts.items() if "hush.core.importing import" in text}
    assert callers == {"network/holding.py", "settings/own.py", "tasks/metrics.py"}

"""The reference has every public name, and an example of each that runs."""

import doctest
import re
import sys
from types import ModuleType

import pytest
from run_page import ROOT

import hush

sys.path.insert(0, str(ROOT / "tools"))
import reference

pytestmark = pytest.mark.slow  # many small runs, which add up

SESSION = re.compile(r"```pycon\n(.*?)```", flags=re.S)


def public():
    """Every name of every public list, found without the generator: (module, name)."""
    inside = [getattr(hush, name) for name in hush.__all__ if isinstance(getattr(hush, name), ModuleType)]
    for module in [hush, *inside, sys.modules["hush.models"]]:
        for name in getattr(module, "__all__", ()):
            if not isinstance(getattr(module, name), ModuleType):
                yield module, name


def test_every_public_name_is_on_a_page():
    shown = "\n".join(reference.pages().values())
    missing = [
        f"{module.__name__}.{name}"
        for module, name in public()
        if not re.search(rf'(heading: "|## )hush\.([\w.]+\.)?{re.escape(name)}"?$', shown, flags=re.M)
    ]
    assert not missing


def test_every_function_and_class_has_an_example():
    assert reference.without_example() == []


def test_examples_are_of_names_that_are_there():
    assert set(reference.examples()) <= {name.said for name in reference.names()}


def test_the_navigation_has_every_page_of_the_reference():
    written = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"reference/\w+\.md", written)) == set(reference.pages())


@pytest.mark.parametrize("file", sorted(reference.EXAMPLES.glob("*.md")), ids=lambda file: file.stem)
def test_examples_run(file):
    """As the standard library's doctest does; three dots stand for digits that differ between processors."""
    for said, text in reference.examples().items():
        if f"\n## {said}\n" in file.read_text(encoding="utf-8"):
            for session in SESSION.findall(text):
                test = doctest.DocTestParser().get_doctest(session, {}, said, str(file), 0)
                failures = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed
                assert failures == 0, said

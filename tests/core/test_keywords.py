"""Keywords that stand once: what a signature shows, what a function is handed, and what is refused."""

import inspect
from typing import TypedDict, Unpack, get_type_hints

import pytest

from hush.core.keywords import taking


class Size(TypedDict, total=False):
    width: float
    height: float | None


def sized(first, *, width: float = 1.0, height: float | None = None):
    return first, width, height


@taking(sized)
def made(name: str, *, colour: str = "red", **size: Unpack[Size]) -> dict:
    """A thing."""
    return {"name": name, "colour": colour} | size


def test_the_signature_and_the_hints_are_whole():
    own = inspect.signature(made).parameters
    assert list(own) == ["name", "colour", "width", "height"]
    assert [each.default for each in own.values()] == [inspect.Parameter.empty, "red", 1.0, None]
    hints = {"name": str, "colour": str, "width": float, "height": float | None, "return": dict}
    assert get_type_hints(made) == hints
    assert (made.__name__, made.__doc__) == ("made", "A thing.")


def test_what_is_not_said_is_handed_over_by_its_default():
    assert made("a", height=2.0) == {"name": "a", "colour": "red", "width": 1.0, "height": 2.0}


@pytest.mark.parametrize(
    ("arguments", "keywords", "sentence"),
    [
        (("a",), {"heigth": 1.0}, r"^made\(\) got an unexpected keyword argument 'heigth'"),
        (("a",), {"size": {}}, r"^made\(\) got an unexpected keyword argument 'size'"),
        ((), {"width": 1.0}, r"^made\(\) missing a required argument: 'name'"),
        (("a", "b"), {}, r"^made\(\) too many positional arguments"),
    ],
)
def test_what_is_refused(arguments, keywords, sentence):
    with pytest.raises(TypeError, match=sentence):
        made(*arguments, **keywords)

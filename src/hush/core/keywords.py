"""Keywords that several functions share: they stand once, and every signature shows them."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar, get_type_hints

Function = TypeVar("Function", bound=Callable[..., Any])


def taking(shared: Callable[..., Any]) -> Callable[[Function], Function]:
    """Show the keywords of `shared` in a function's own signature, which help, settings files and errors read.

    The function has them as `**name: Unpack[…]`, and is handed all of them, those that were not said by their defaults.

    >>> def area(*, width=1.0, height=1.0):
    ...     return width * height
    >>> @taking(area)
    ... def volume(depth, **sides):
    ...     return depth * area(**sides)
    >>> signature(volume), volume(2.0, height=3.0)
    (<Signature (depth, *, width=1.0, height=1.0)>, 6.0)
    """
    keywords = [each for each in signature(shared).parameters.values() if each.kind is Parameter.KEYWORD_ONLY]
    hints = {name: hint for name, hint in get_type_hints(shared).items() if name in [each.name for each in keywords]}

    def shown(function: Function) -> Function:
        own = [each for each in signature(function).parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
        whole = signature(function).replace(parameters=[*own, *keywords])

        @wraps(function)
        def checked(*arguments: Any, **given: Any) -> Any:
            try:
                bound = whole.bind(*arguments, **given)
            except TypeError as error:
                raise TypeError(f"{function.__name__}() {error}") from None
            bound.apply_defaults()
            return function(*bound.args, **bound.kwargs)

        named = {"return", *(each.name for each in own)}
        checked.__signature__ = whole  # type: ignore[attr-defined]
        checked.__annotations__ = {n: hint for n, hint in get_type_hints(function).items() if n in named} | hints
        return checked  # type: ignore[return-value]

    return shown

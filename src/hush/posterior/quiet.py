"""ArviZ without what it says on the way."""

import warnings
from typing import Any

from hush.extras import require


def arviz() -> Any:
    """The package, imported when it is first needed: that takes a second, and warns of its plans once a day."""
    require("arviz")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz as package
    return package


def converted(function: str, *arguments: Any, **options: Any) -> Any:
    """One of ArviZ's conversions: it takes more chains than draws for a mistake, and here they are often meant."""
    package = arviz()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "More chains", UserWarning)
        return getattr(package, function)(*arguments, **options)

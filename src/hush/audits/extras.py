"""What attacks show beside a bound, as sections of the page: membership, reconstruction, exposure."""

from collections.abc import Mapping
from typing import Any

from hush.report.audit_page import Extra


def extras_of(others: Mapping[str, Any]) -> list[Extra]:
    """A section for each."""
    return []

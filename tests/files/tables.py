"""A test that is a table: what a function makes of each value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest


def table_of(function: Callable[[Any], Any], rows: Mapping[Any, Any]) -> Callable[..., None]:
    """The test that `function` makes of each key its value, a case a row."""

    def test(given: Any, expected: Any) -> None:
        assert function(given) == expected

    cases: Callable[..., None] = pytest.mark.parametrize(("given", "expected"), rows.items())(test)
    return cases

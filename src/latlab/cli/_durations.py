"""Durations on the command line: 100us, 1ms, 2s, 250ns."""

from __future__ import annotations

import re
from typing import Any

import click

__all__ = ["DURATION_NS"]

_UNITS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_FORM = re.compile(r"([0-9]*\.?[0-9]+)\s*(ns|us|µs|ms|s)")


class Duration(click.ParamType[int]):
    """A number with a unit, in nanoseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Nanoseconds of a text such as 100us."""
        if isinstance(value, int):
            return value
        match = _FORM.fullmatch(str(value).strip())
        if match is None:
            self.fail(f"'{value}' is no duration such as 100us, 1ms or 2s", param, ctx)
        ns = round(float(match[1]) * _UNITS[match[2]])
        if ns < 1:
            self.fail(f"'{value}' is shorter than a nanosecond", param, ctx)
        return ns


DURATION_NS = Duration()

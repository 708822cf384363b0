"""Durations on the command line: 100us, 1ms, 2s, 250ns; for some options 250 too, in nanoseconds."""

from __future__ import annotations

import re
from typing import Any

import click

__all__ = ["DURATION_NS", "Duration"]

_UNITS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_FORM = re.compile(r"([0-9]*\.?[0-9]+)\s*(ns|us|µs|ms|s)")


class Duration(click.ParamType[int]):
    """A number with a unit, in nanoseconds.

    Args:
        bare: a number without a unit is nanoseconds.
        least: the shortest that is allowed, in ns.
    """

    name = "duration"

    def __init__(self, *, bare: bool = False, least: int = 1) -> None:
        self._bare, self._least = bare, least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Nanoseconds of a text such as 100us."""
        if isinstance(value, int):
            return value
        if self._bare and str(value).strip().isdecimal():
            value = f"{value}ns"
        match = _FORM.fullmatch(str(value).strip())
        if match is None:
            self.fail(f"'{value}' is no duration such as 100us, 1ms or 2s", param, ctx)
        ns = round(float(match[1]) * _UNITS[match[2]])
        if ns < self._least:
            self.fail(f"'{value}' is too short: {self._least} ns at least", param, ctx)
        return ns


DURATION_NS = Duration()

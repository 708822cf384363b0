"""What every number on the command line has in common: it is finite, not negative, and fits 63 bits.

Click takes "inf" and "nan" for a float, and lets them pass a range of which that end is open; an integer of
30 digits passes too, and fails where it meets the core. Here that is a usage error, for every command.
"""

from __future__ import annotations

import math
from typing import Any

import click

__all__ = ["with_numbers"]

_MOST = 1 << 63
_KINDS = (click.types.IntParamType, click.types.FloatParamType)
_MARK = "_latlab_number"


def with_numbers(command: click.Command) -> click.Command:
    """The command, whose numbers are checked before it sees them."""
    for parameter in command.params:
        if isinstance(parameter.type, _KINDS) and not hasattr(parameter, _MARK):
            setattr(parameter, _MARK, True)  # a command is found more than once in a process
            _check(parameter)
    return command


def _check(parameter: click.Parameter) -> None:
    before = parameter.callback
    ranged = isinstance(parameter.type, click.IntRange | click.FloatRange)

    def check(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        for one in value if isinstance(value, tuple) else (value,):
            if not isinstance(one, int | float):
                continue
            if not math.isfinite(one):
                raise click.BadParameter(f"{one} is not a finite number.", ctx, param)
            if one < 0 and not ranged:
                raise click.BadParameter(f"{one} is negative.", ctx, param)
            if abs(one) >= _MOST:
                raise click.BadParameter(f"{one} is too large.", ctx, param)
        return value if before is None else before(ctx, param, value)

    parameter.callback = check

"""Where a part of a request was spent, as data: who ran, or what was waited for, and in which function."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from latlab.model.evidence.requests import TailPlace
from latlab.model.evidence.said import Kind, kind_of, said, values_of

__all__ = ["function_of", "held_by", "in_function", "ran_in", "shortened", "waited_in"]

_IN = (TailPlace.WAITED_IN, TailPlace.WAITED, TailPlace.LOCKED_IN, TailPlace.RAN_IN)
_THING: dict[Kind, str] = {
    TailPlace.WAITED_IN: "thing",
    TailPlace.LOCKED_IN: "thing",
    TailPlace.RAN_IN: "name",
}


@lru_cache(maxsize=4096)  # each of millions of waits has one of a few places
def ran_in(name: str, function: str) -> str:
    """Of a thread, "" for a function that isn't known: the thread alone."""
    return said(TailPlace.RAN_IN, name=name, function=function) if function else name


@lru_cache(maxsize=4096)
def waited_in(thing: str, function: str, *, lock: bool = False) -> str:
    """What was waited for, and in which function it was; each may be unknown, ""."""
    if not function:
        return thing
    if not thing:
        return said(TailPlace.WAITED, function=function)
    return said(TailPlace.LOCKED_IN if lock else TailPlace.WAITED_IN, thing=thing, function=function)


@lru_cache(maxsize=4096)
def held_by(thing: str, holder: str) -> str:
    """A lock, and who has it, as `ran_in` has it."""
    return said(TailPlace.HELD, thing=thing, holder=holder)


@lru_cache(maxsize=4096)
def in_function(function: str, caller: str) -> str:
    """A function, and which other one called it where that tells whose work it does; "" where it doesn't."""
    return said(TailPlace.CALLED_BY, function=function, caller=caller) if caller else function


def function_of(where: str) -> str:
    """In which function that was; "" where it isn't known."""
    return str(values_of(where)["function"]) if kind_of(where) in _IN else ""


def shortened(where: str, step: int) -> str:
    """The same with less of it.

    Args:
        step: 0: all of it; 1: of a wait without the function, of a lock without the one in which it was held;
            2: also without who held it, or called the function; 3: without any function.
    """
    kind = kind_of(where)
    values: Mapping[str, str] = values_of(where)
    if step == 0:
        return where
    if kind is TailPlace.HELD:
        thing = values["thing"]
        return held_by(thing, shortened(values["holder"], 3)) if step == 1 else shortened(thing, step)
    if kind is None or kind not in _THING:
        return where
    if kind is TailPlace.WAITED_IN or step == 3:
        return values[_THING[kind]]
    if kind_of(values["function"]) is TailPlace.CALLED_BY and step == 2:
        return said(kind, **{**values, "function": values_of(values["function"])["function"]})
    return where

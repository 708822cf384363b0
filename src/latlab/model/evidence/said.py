"""A sentence of a result as data: its kind, and the numbers and names in it.

Who measures says `said(Kind.X, name=…, part=…)` and makes no English: how a kind is worded stands once,
beside its name, in the enumerations of this package. What comes back is the sentence, and it keeps its kind
and values: branches ask for `kind_of(sentence)`, never for a word in it.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from latlab.words import (
    count,
    duration,
    duration_interval,
    frequency,
    number,
    plural,
    relative,
    seconds,
    share,
    size,
)

__all__ = ["Kind", "Said", "data_of", "fields_of", "kind_of", "said", "values_of"]


class Kind(Enum):
    """A kind of sentence; its value is the wording, with a place for each value.

    Behind a colon a place says how its value is written: `share`, `share0` and `share2` (this many decimals),
    `signed` (a signed share), `change` (with one more decimal), `percent` (a difference known as one),
    `duration` (of ns), `us`, `ms` and `seconds` (a duration that is known in those), `frequency` (of Hz),
    `interval` (of a time: value, low, high), `count`, `number` (three digits of it), `size` (of bytes), `or`
    and `and` (of names), `plural THING`, or as Python formats it.
    """


class Said(str):
    """A sentence that knows what it says.

    Attributes:
        kind: which sentence it is.
        values: the numbers and names in it.
    """

    __slots__ = ("kind", "values")
    kind: Kind
    values: Mapping[str, Any]

    def __deepcopy__(self, memo: dict[int, Any]) -> Said:
        return self  # it never changes

    def __reduce__(self) -> tuple[Any, ...]:
        return (_again, (self.kind, dict(self.values)))


class _Words(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        match format_spec.split(" "):
            case ["share"]:
                return share(value)
            case ["share0"]:
                return share(value, digits=0)
            case ["share2"]:
                return share(value, digits=2)
            case ["signed"]:
                return share(value, signed=True)
            case ["change"]:
                return share(value, digits=2, signed=True)
            case ["duration"]:
                return duration(value)
            case ["seconds"]:
                return seconds(value)
            case ["ms"]:
                return duration(1e6 * value)
            case ["us"]:
                return duration(1e3 * value)
            case ["frequency"]:
                return frequency(value)
            case ["percent"]:
                return relative(value / 100, signed=True)
            case ["interval"]:
                return duration_interval(*value)
            case ["or" | "and" as word]:
                return f" {word} ".join(value)
            case ["count"]:
                return count(value)
            case ["number"]:
                return number(value)
            case ["size"]:
                return size(value)
            case ["plural", thing]:
                return plural(value, thing)
        return str(super().format_field(value, format_spec))


_WORDS = _Words()


def said(kind: Kind, **values: Any) -> Said:
    """The sentence of this kind.

    Raises:
        KeyError: a value that its wording has a place for is not given.
    """
    sentence = Said(_WORDS.vformat(kind.value, (), values))
    sentence.kind, sentence.values = kind, values
    return sentence


def _again(kind: Kind, values: dict[str, Any]) -> Said:
    return said(kind, **values)


def kind_of(sentence: str) -> Kind | None:
    """Which sentence it is; None of one that was read from a file."""
    return sentence.kind if isinstance(sentence, Said) else None


def values_of(sentence: str) -> Mapping[str, Any]:
    """The numbers and names in it; none of one that was read from a file."""
    return sentence.values if isinstance(sentence, Said) else {}


def data_of(sentences: Sequence[str]) -> list[dict[str, Any]]:
    """Sentences as data: the kind and the values of each that has them, in their order."""
    return [
        {"kind": f"{type(one.kind).__name__}.{one.kind.name}", **one.values}
        for one in sentences
        if isinstance(one, Said)
    ]


def fields_of(kind: Kind) -> set[str]:
    """The values that a kind has a place for."""
    return {name for _, name, _, _ in _WORDS.parse(kind.value) if name}

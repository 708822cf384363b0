"""The two text formats that queue samplers and tracers have always had.

Traces: a line `push,pop` for each stay of an event in the queue. Samples: blocks of `key = value` lines
with the keys timestamp, inCount, outCount and queueId in any order, each ended by a line `-`, `--` or
`---`. Blank lines are skipped everywhere.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from latlab.errors import InputError
from latlab.formats.trusted import MOST_TEXT_BYTES, read_file

__all__ = ["read_pairs", "read_sample_blocks"]

_KEYS = ("timestamp", "inCount", "outCount", "queueId")
_ENDS = ("-", "--", "---")


def read_pairs(path: str | os.PathLike[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pushes and pops, shape (lines,) each.

    Raises:
        InputError: for a line that is not a pair of whole numbers, or whose pop is before its push.
    """
    pushes: list[int] = []
    pops: list[int] = []
    for number, line in _lines(path):
        parts = line.split(",")
        if len(parts) != 2:
            raise InputError(path, f"'{line}' is not 'push,pop'", place=f"line {number}")
        push, pop = (_whole(path, number, part) for part in parts)
        if pop < push:
            raise InputError(path, f"the pop {pop} is before the push {push}", place=f"line {number}")
        pushes.append(push)
        pops.append(pop)
    return np.array(pushes, np.int64), np.array(pops, np.int64)


def read_sample_blocks(path: str | os.PathLike[str]) -> dict[str, NDArray[np.int64]]:
    """Columns timestamp, inCount, outCount and queueId, shape (blocks,) each; a queue without an id is 0.

    Raises:
        InputError: for a line that is neither, a key that is unknown, missing or given twice, or a block
        that more
            events left than came.
    """
    columns: dict[str, list[int]] = {key: [] for key in _KEYS}
    block: dict[str, int] = {}
    first = last = 0
    for number, line in _lines(path):
        last = number
        if line in _ENDS:
            if block:
                _close(path, first, block, columns)
            block = {}
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        if not equals:
            raise InputError(path, f"'{line}' is not 'key = value'", place=f"line {number}")
        if key not in _KEYS:
            raise InputError(
                path, f"unknown key '{key}'", place=f"line {number}", remedy=f"known: {', '.join(_KEYS)}"
            )
        if key in block:
            remedy = "end each block with a line '---'"
            raise InputError(path, f"a second '{key}' in one block", place=f"line {number}", remedy=remedy)
        if not block:
            first = number
        block[key] = _whole(path, number, value)
    if block:
        raise InputError(
            path, "the last block is not ended", place=f"line {last}", remedy="end it with '---'"
        )
    return {key: np.array(values, np.int64) for key, values in columns.items()}


def _close(
    path: str | os.PathLike[str], first: int, block: dict[str, int], columns: dict[str, list[int]]
) -> None:
    for key in _KEYS[:3]:
        if key not in block:
            raise InputError(path, f"a block without '{key}'", place=f"line {first}")
    if block["outCount"] > block["inCount"]:
        raise InputError(path, "more events went out than came in", place=f"line {first}")
    for key in _KEYS:
        columns[key].append(block.get(key, 0))


def _lines(path: str | os.PathLike[str]) -> list[tuple[int, str]]:
    try:
        text = read_file(path, MOST_TEXT_BYTES).decode("utf-8")
    except OSError as error:
        raise InputError(path, f"can't be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise InputError(path, "is not a text file", place=f"offset {error.start}") from None
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return [(number, line) for number, line in lines if line and not line.startswith("#")]


def _whole(path: str | os.PathLike[str], number: int, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise InputError(path, f"'{text.strip()}' is not a whole number", place=f"line {number}") from None
    if not -(2**63) <= value < 2**63:
        raise InputError(path, f"{value} is out of range", place=f"line {number}")
    return value

"""Outlier files (`x,y` a line: ms since the start, µs).

Cyclictest-style JSON and sysjitter-style raw files.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from latlab.errors import InputError, unwritten
from latlab.formats.documents import dumps
from latlab.formats.trusted import MOST_TEXT_BYTES, read_file, to_write
from latlab.model.machine.jitter import CoreJitter, JitterResult

__all__ = ["cyclictest_json", "read_outliers", "sysjitter_raw", "write_outliers", "write_text"]

_LONGEST_HEADING = 200

_REMEDY = "give lines of x,y: ms since the start, µs"

Array = np.ndarray[Any, Any]


def read_outliers(path: str | os.PathLike[str]) -> tuple[Array, Array]:
    """Times and lengths in ns of an outlier file, by time.

    Blank lines, ``#`` lines and a heading are skipped.

    Raises:
        InputError: it can't be read, or a line is not a pair of numbers.
    """
    try:
        lines = read_file(path, MOST_TEXT_BYTES, remedy=_REMEDY).decode("utf-8").splitlines()
    except OSError as error:
        raise InputError(path, f"can't be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(path, "this is not a text file", remedy=_REMEDY) from None
    times: list[float] = []
    lengths: list[float] = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        parts = text.replace(",", " ").split()
        try:
            x, y = (float(part) for part in parts)
            if not (np.isfinite(x) and np.isfinite(y)):
                raise ValueError
        except ValueError:
            heading = len(text) < _LONGEST_HEADING and not any(part[:1].isdigit() for part in parts)
            if heading and not times:
                continue
            raise InputError(
                path,
                f"'{text[:40]}' is not a pair of numbers",
                place=f"line {number}",
                remedy="write x,y: ms, µs",
            ) from None
        times.append(x * 1e6)
        lengths.append(y * 1e3)
    order = np.argsort(times, kind="stable")
    return np.array(times)[order], np.array(lengths)[order]


def write_outliers(path: str, cores: Sequence[CoreJitter]) -> None:
    """Write the kept outliers as ``x,y``: ms since the start, µs; each core's under a comment line.

    Raises:
        UsageError: the file can't be written.
    """
    parts = []
    for core in cores:
        rows = zip((core.gap_start_ns - core.start_ns) / 1e6, core.gap_each_ns / 1e3, strict=True)
        parts.append(f"# cpu {core.cpu}\n" if len(cores) > 1 else "")
        parts += [f"{x:f},{y:f}\n" for x, y in rows]
    write_text(path, "".join(parts))


def write_text(path: str, text: str) -> None:
    """Write a file, or say in one line why not.

    Raises:
        UsageError: it can't be written.
    """
    try:
        with open(path, "w", encoding="utf-8", opener=to_write) as file:
            file.write(text)
    except OSError as error:
        raise unwritten(path, error) from None


def cyclictest_json(result: JitterResult) -> str:
    """The histogram of each core in µs, as ``cyclictest --json`` lays it out (file_version 1)."""
    threads = {}
    for index, core in enumerate(result.cores):
        micro = np.floor(core.values_ticks * 1e6 / core.counter_hz).astype(np.int64)
        kept = {}
        for value in np.unique(micro).tolist():
            kept[str(value)] = int(core.counts[micro == value].sum())
        threads[str(index)] = {
            "histogram": kept,
            "cycles": int(core.counts.sum()),
            "min": int(core.ns(core.min_ticks) // 1000),
            "max": int(core.ns(core.max_ticks) // 1000),
            "avg": core.ns(core.mean_ticks) / 1000,
            "cpu": core.cpu,
            "node": 0,
        }
    document = {"file_version": 1, "num_threads": len(threads), "resolution_in_ns": 0, "thread": threads}
    return dumps(document, indent=2) + "\n"


def sysjitter_raw(cores: Sequence[CoreJitter]) -> str:
    """One interruption a line: when it began and how long it took.

    In ns since the start (sysjitter's --raw).
    """
    parts = []
    for core in cores:
        rows = zip(core.gap_start_ns - core.start_ns, core.gap_each_ns, strict=True)
        parts.append(f"# cpu {core.cpu}\n" + "".join(f"{start:.0f} {length:.0f}\n" for start, length in rows))
    return "".join(parts)

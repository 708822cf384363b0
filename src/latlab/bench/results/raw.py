"""Raw results as CSV: what was measured, iteration by iteration, and all that a verdict is made from.

Version 2: the first line is `# latlab-bench-raw 2`, the second `# ` and one JSON object (kind, what was
asked, the environment), the third the columns' names. Times are written with as many digits as they have.
Version 1 lacks the columns `tail_quantile` and `tail_ns`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from latlab.errors import InputError
from latlab.formats.documents import dumps, naming
from latlab.formats.trusted import MOST_TEXT_BYTES, read_file, to_write
from latlab.model.bench import Sample

__all__ = ["Raw", "Row", "read", "sniff", "write"]

FIRST_LINE, FIRST_LINE_1 = "# latlab-bench-raw 2", "# latlab-bench-raw 1"
COLUMNS = (
    "test",
    "pair",
    "position",
    "side",
    "batch",
    "operations",
    "quantum_ns",
    "read_ns",
    "turn",
    "tail_quantile",
    "tail_ns",
    "iteration",
    "nanoseconds",
)
COLUMNS_1 = tuple(name for name in COLUMNS if not name.startswith("tail_"))


@dataclass(frozen=True, eq=False)
class Row:
    """One process of an experiment.

    Attributes:
        test: the benchmark's name.
        pair: its pair (or, of a plain run, its process).
        position: 0 if it was the first of the pair.
        side: "A" or "B".
        sample: what it measured.
    """

    test: str
    pair: int
    position: int
    side: str
    sample: Sample


@dataclass(frozen=True)
class Raw:
    """A raw file's content."""

    meta: Mapping[str, Any]
    rows: Sequence[Row] = field(default_factory=list)

    def tests(self) -> list[str]:
        """Names, in the order measured."""
        return list(dict.fromkeys(row.test for row in self.rows))

    def samples(self, test: str) -> list[Sample]:
        """Every process of a test, in the order measured."""
        return [row.sample for row in self.rows if row.test == test]

    def pairs(self, test: str) -> list[tuple[Sample, Sample]]:
        """Whole pairs (A, B) of a test, in the order measured; a pair that was cut short is left out."""
        sides: dict[int, dict[str, Sample]] = {}
        for row in self.rows:
            if row.test == test:
                sides.setdefault(row.pair, {})[row.side] = row.sample
        return [(s["A"], s["B"]) for _, s in sorted(sides.items()) if len(s) == 2]


def write(path: Path, meta: Mapping[str, Any], rows: Iterable[Row]) -> None:
    """Write a raw file."""
    with naming(path), open(path, "w", newline="", encoding="utf-8", opener=to_write) as file:
        file.write(f"{FIRST_LINE}\n# {dumps(meta)}\n")
        out = csv.writer(file, lineterminator="\n")
        out.writerow(COLUMNS)
        for row in rows:
            s = row.sample
            head = [
                row.test,
                row.pair,
                row.position,
                row.side,
                s.batch,
                s.operations,
                s.quantum_ns,
                s.read_ns,
                s.turn,
                s.tail_quantile,
                s.tail_ns,
            ]
            out.writerows([*head, i, repr(float(t))] for i, t in enumerate(s.times_ns))
        file.write("# end\n")


def sniff(path: Path) -> bool:
    """Whether a file is one of these."""
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.readline(1024).rstrip() in (FIRST_LINE.encode(), FIRST_LINE_1.encode())


def read(path: Path) -> Raw:
    """Read a raw file.

    Raises:
        InputError: it is foreign, damaged or truncated; with the line.
    """
    try:
        text = read_file(path, MOST_TEXT_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(path, f"can't be read ({error})") from None
    lines = text.split("\n")
    if lines[0] not in (FIRST_LINE, FIRST_LINE_1) or len(lines) < 3:
        raise InputError(path, "is not a raw result of latlab bench", place="line 1")
    try:
        meta = json.loads(lines[1].removeprefix("# "))
    except ValueError:
        raise InputError(path, "the description is damaged", place="line 2") from None
    columns = COLUMNS if lines[0] == FIRST_LINE else COLUMNS_1
    if not isinstance(meta, dict) or tuple(lines[2].split(",")) != columns:
        raise InputError(path, "lacks the columns of a raw result", place="line 3")
    if lines[-2:] != ["# end", ""]:
        raise InputError(
            path, "is truncated: its end mark is missing", place=f"line {len(lines)}",
            remedy="copy it again, or judge the recording instead, which keeps what was finished",
        )  # fmt: skip
    rows: list[Row] = []
    head: tuple[str, ...] | None = None
    times: list[float] = []

    def flush() -> None:
        if head is not None:
            rows.append(_row(head, times))

    for number, fields in enumerate(csv.reader(io.StringIO("\n".join(lines[3:-2]))), 4):
        try:
            time_ns, at = float(fields[len(columns) - 1]), len(columns) - 2
            key = tuple(fields[:at])
            if len(fields) != len(columns) or not 0 <= time_ns < np.inf:
                raise ValueError
            if key != head or int(fields[at]) == 0:
                flush()
                head, times = key, []
            if int(fields[at]) != len(times):
                raise ValueError
            times.append(time_ns)
        except (ValueError, IndexError):
            raise InputError(path, "is not a measured iteration", place=f"line {number}") from None
    try:
        flush()
    except ValueError:
        raise InputError(path, "the last process is damaged") from None
    return Raw(meta, rows)


def _row(head: tuple[str, ...], times: list[float]) -> Row:
    test, pair, position, side, batch, operations, quantum, read_cost, turn, *tail = head
    if side not in ("A", "B"):
        raise ValueError(side)
    sample = Sample(
        np.array(times), int(batch), int(operations), float(quantum), float(read_cost), turn=int(turn),
        tail_quantile=float(tail[0]) if tail else 0.0, tail_ns=float(tail[1]) if tail else 0.0,
        position=int(position),
    )  # fmt: skip
    return Row(test, int(pair), int(position), side, sample)

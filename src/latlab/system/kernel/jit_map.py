"""Names of code that was compiled at run time, from the file that programs write for `perf`."""

from __future__ import annotations

import bisect
import io
import os
from collections.abc import Iterable
from pathlib import Path

from latlab.errors import InputError
from latlab.formats.trusted import TrustedFile
from latlab.words import printable

__all__ = ["JitMap", "jit_name", "parse_jit_map", "read_jit_map"]

_MOST_BYTES = 64 << 20  # of a file: half a million functions, whose names are long
_MOST_ENTRIES = 1 << 20
JitMap = tuple[list[int], list[tuple[int, str]]]


def read_jit_map(pid: int, *, root: Path = Path("/")) -> JitMap:
    """What a program has compiled at run time, by the file that `perf` reads too: /tmp/perf-PID.map.

    Returns:
        The sorted beginnings, and (end, name) of each; of one that was written twice the later.
    """
    inner = pid
    try:
        for line in (root / f"proc/{pid}/status").read_text(errors="replace").splitlines():
            if line.startswith("NSpid:"):
                inner = int(line.split()[-1])
    except OSError:
        pass  # it has ended: its file may be there still
    for path in (root / f"proc/{pid}/root/tmp/perf-{inner}.map", root / f"tmp/perf-{inner}.map"):
        try:
            # In a folder where anybody may have laid it: it must be the program's own.
            with TrustedFile(path, owner=_owner(root / f"proc/{pid}"), observed=True) as file:
                # The latest are the last ones: what was compiled anew is there once more.
                known = file.read(max(0, file.size - _MOST_BYTES), _MOST_BYTES)
                if file.size > _MOST_BYTES:
                    known = known.partition(b"\n")[2]  # of a line that began before
        except (OSError, InputError):
            continue
        return parse_jit_map(line.decode(errors="replace") for line in io.BytesIO(known))
    return [], []


def _owner(process: Path) -> int:
    """Whose a process is; ourselves, where it has ended."""
    try:
        return process.stat().st_uid
    except OSError:
        return os.geteuid()


def parse_jit_map(lines: Iterable[str]) -> JitMap:
    """Lines of "START SIZE NAME", hexadecimal; a damaged one is left out."""
    entries: dict[int, tuple[int, str]] = {}
    for line in lines:
        words = line.split(maxsplit=2)
        if len(words) != 3:
            continue
        try:
            begin, size = int(words[0], 16), int(words[1], 16)
        except ValueError:
            continue
        if len(entries) < _MOST_ENTRIES or begin in entries:
            entries[begin] = (begin + size, printable(words[2].strip()))
    begins = sorted(entries)
    return begins, [entries[begin] for begin in begins]


def jit_name(known: JitMap, address: int) -> str:
    """Of the code at an address; "" if none is known there."""
    begins, entries = known
    index = bisect.bisect_right(begins, address) - 1
    if index < 0 or address >= entries[index][0]:
        return ""
    return entries[index][1]

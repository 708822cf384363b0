"""What is kept of one day of an archive: a file of numbers, which nothing is run to read.

    magic     8 bytes
    u64       length of the head
    head      JSON: what the part was made of, the census, and of every symbol its name, its samples and its
              distributions: [bytes of a bin, bins, least, greatest]
    bins      of all distributions in that order, little endian

It lies beside an output, where others may have laid another file: it must be ours, and its lengths agree.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from latlab.errors import InputError
from latlab.formats.documents import dumps
from latlab.formats.trusted import TrustedFile, to_write
from latlab.model.market import Census, FeedError

__all__ = ["read_part", "write_part"]

_MAGIC = b"latlabP1"
_LENGTH = struct.Struct("<Q")
_MOST_HEAD = 256 << 20  # bytes
Bins = npt.NDArray[np.unsignedinteger[Any]]
Symbol = tuple[str, int, list[tuple[Bins, int, int]]]


def write_part(path: Path, state: Sequence[Any], census: Census, symbols: Sequence[Symbol]) -> None:
    """Write it, whole or not at all.

    Args:
        state: what it was made of.
        symbols: of each the name, the samples, and of each distribution the bins, the least and the greatest.
    """
    rows = [
        [name, samples, [[of.dtype.itemsize, len(of), int(least), int(most)] for of, least, most in found]]
        for name, samples, found in symbols
    ]
    head = dumps({"state": state, "census": asdict(census), "symbols": rows}).encode()
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(unfinished, "wb", opener=to_write) as file:
            file.write(_MAGIC + _LENGTH.pack(len(head)) + head)
            for _, _, found in symbols:
                for bins, _, _ in found:
                    file.write(bins.astype(bins.dtype.newbyteorder("<"), copy=False).tobytes())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def read_part(path: Path) -> tuple[list[Any], Census, list[Symbol]] | None:
    """The three that `write_part` was given; None where no such file of ours is there, or a damaged one."""
    try:
        with TrustedFile(path, owner=os.geteuid()) as file:
            begin = file.read(0, 16)
            (length,) = _LENGTH.unpack(begin[8:])
            if begin[:8] != _MAGIC or length > min(_MOST_HEAD, file.size - 16):
                return None
            head = json.loads(file.read(16, length))
            at, symbols = 16 + length, []
            for name, samples, found in head["symbols"]:
                distributions = []
                for width, count, least, most in found:
                    data = file.read(at, min(width * count, file.size - at))
                    distributions.append(
                        (np.frombuffer(data, f"<u{int(width)}", count), int(least), int(most))
                    )
                    at += len(data)
                symbols.append((str(name), int(samples), distributions))
            return (list(head["state"]), _census(head["census"]), symbols) if at == file.size else None
    except (InputError, OSError, struct.error, ValueError, KeyError, TypeError, RecursionError):
        return None  # not what this version wrote


def _census(document: dict[str, Any]) -> Census:
    known = {field.name: document[field.name] for field in fields(Census)}
    known["errors"] = tuple(FeedError(int(one["offset"]), str(one["what"])) for one in known["errors"])
    known["absent"] = tuple(map(str, known["absent"]))
    return Census(**known)

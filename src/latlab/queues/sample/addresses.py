"""Queues of a program that was not built with latlab, by the addresses of their indices."""

from __future__ import annotations

import os
import re
import shlex
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from latlab._core import queues as core
from latlab.errors import InputError, UsageError
from latlab.system.kernel.binaries.symbols import AddressBook

__all__ = ["RemoteQueue", "parse_remote_queue", "readers_by_address"]

_PLACE = re.compile(
    r"(?P<follow>\*?)(?:(?P<module>[^:*]+\.so[^:]*):)?(?P<what>0x[0-9a-fA-F]+|[A-Za-z_][\w:]*?)"
    r"(?P<offset>[+-](?:0x[0-9a-fA-F]+|\d+))?$"
)


@dataclass(frozen=True)
class RemoteQueue:
    """A queue by address.

    Attributes:
        came, gone: where the indices of the two ends are: "SYMBOL+OFFSET", "LIBRARY.so:SYMBOL+OFFSET" or
            "0xADDRESS"; with "*" before it, SYMBOL is a pointer, and the offset counts from where it points.
        index_bytes: 4 or 8.
        modulus: the indices start again at 0 after this many steps; 0: at the end of their width.
        capacity: in events; 0: unbounded.
    """

    name: str
    came: str
    gone: str
    index_bytes: int
    modulus: int
    capacity: int
    source: str
    drain: str


def parse_remote_queue(text: str) -> RemoteQueue:
    """A queue of ``NAME in=PLACE out=PLACE``, with ``bytes=8``, ``modulus=N``, ``capacity=N``, ``source=S``
    and ``drain=S`` behind it where they are known.

    Raises:
        UsageError: where it is something else; it says what.
    """
    usage = "such as 'orders in=g_ring+64 out=g_ring+128 capacity=1024 source=feed drain=book'"
    try:
        name, *pairs = shlex.split(text)
        values = dict(pair.split("=", 1) for pair in pairs)
        numbers = {
            key: int(values.pop(word, default), 0)
            for key, word, default in (
                ("index_bytes", "bytes", "8"),
                ("modulus", "modulus", "0"),
                ("capacity", "capacity", "0"),
            )
        }
        came, gone = values.pop("in"), values.pop("out")
        source, drain = values.pop("source", ""), values.pop("drain", "")
    except (ValueError, KeyError):
        raise UsageError(f"'{text}' is not the address of a queue", remedy=usage) from None
    if values or not all(_PLACE.match(place) for place in (came, gone)) or "=" in name:
        raise UsageError(f"'{text}' is not the address of a queue", remedy=usage)
    if numbers["index_bytes"] not in (4, 8) or min(numbers.values()) < 0:
        raise UsageError(f"'{text}': an index has 4 or 8 bytes, and no number is negative")
    return RemoteQueue(name, came, gone, **numbers, source=source, drain=drain)


def readers_by_address(pid: int, queues: Sequence[RemoteQueue]) -> core.Reader:
    """What reads these queues of a process, like a counter file of its own.

    Raises:
        InputError: for a symbol or an address that is not there, or a process whose memory we may not read.
    """
    book = AddressBook(pid)
    described = [
        {
            "name": queue.name,
            "source_type": "",
            "source_name": queue.source,
            "drain_type": "",
            "drain_name": queue.drain,
            "in_address": _resolve(pid, book, queue.came),
            "out_address": _resolve(pid, book, queue.gone),
            "index_bytes": queue.index_bytes,
            "modulus": queue.modulus,
            "capacity": queue.capacity,
        }
        for queue in queues
    ]
    try:
        return core.Reader.by_address(pid, described)
    except RuntimeError as error:
        remedy = "it needs the same user and kernel.yama.ptrace_scope = 0, or root"
        raise InputError(f"process {pid}", str(error), remedy=remedy) from None


def _resolve(pid: int, book: AddressBook, place: str) -> int:
    match = _PLACE.match(place)
    assert match is not None  # parse_remote_queue saw to it
    what = match["what"]
    address = int(what, 16) if what.startswith("0x") else book.address(what, match["module"] or "")
    if match["follow"]:
        address = _pointer_at(pid, address, place)
    return address + int(match["offset"] or "0", 0)


def _pointer_at(pid: int, address: int, place: str) -> int:
    try:
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
        try:
            (pointer,) = struct.unpack("=Q", os.pread(memory, 8, address))
        finally:
            os.close(memory)
    except (OSError, struct.error) as error:
        raise InputError(f"process {pid}", f"the pointer of '{place}' can't be read ({error})") from None
    if pointer == 0:
        raise InputError(f"process {pid}", f"the pointer of '{place}' is null", remedy="attach later")
    return int(pointer)

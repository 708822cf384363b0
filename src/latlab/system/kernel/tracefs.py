"""Where the kernel describes its tracepoints: finding tracefs, and reading an event's `format` file."""

from __future__ import annotations

import ctypes
import os
import platform
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from latlab.errors import InputError, UnavailableError

_RIGHTS = "run as root, or grant CAP_PERFMON and read access to tracefs"
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432  # the same numbers on every architecture since Linux 5.2
_FSCONFIG_CMD_CREATE = 6
_CLOEXEC = 1

# `field:unsigned char common_flags;	offset:2;	size:1;	signed:0;`
_FIELD = re.compile(
    r"field:(?P<declaration>[^;]+);\s*offset:(?P<offset>\d+);\s*"
    r"size:(?P<size>\d+);\s*signed:(?P<signed>[01]);"
)
_NAME = re.compile(r"(?P<type>.*?)\s*\b(?P<name>\w+)\s*(?P<array>\[[^\]]*\])?$")


@dataclass(frozen=True)
class Field:
    """One field of a tracepoint's record.

    Attributes:
        kind: ``integer``, ``text`` (a char array in place), ``dynamic_text`` (``__data_loc``, relative or
            not) or ``bytes`` (anything else).
        relative: a dynamic text's offset counts from the end of this field.
    """

    name: str
    offset_bytes: int
    size_bytes: int
    signed: bool
    kind: str
    relative: bool = False

    def dtype(self) -> np.dtype[Any]:
        """How numpy reads an integer field."""
        return np.dtype(f"{'i' if self.signed else 'u'}{self.size_bytes}")


@dataclass(frozen=True)
class EventFormat:
    """A tracepoint: its name as ``group:event``, the kernel's number for it, and its own fields."""

    name: str
    id: int
    fields: tuple[Field, ...]


def parse_format(text: str, name: str) -> EventFormat:
    """Read a tracefs ``format`` file.

    Raises:
        InputError: there is no ID or no field in it.
    """
    identifier = re.search(r"^ID:\s*(\d+)", text, re.M)
    fields = []
    for match in _FIELD.finditer(text):
        declared = _NAME.match(match["declaration"].strip())
        if declared is None:
            continue
        kind, size = "integer", int(match["size"])
        type_name = declared["type"]
        dynamic = type_name.startswith(("__data_loc", "__rel_loc"))
        if dynamic:
            kind = "dynamic_text" if "char" in type_name else "bytes"
        elif declared["array"] is not None:
            kind = "text" if "char" in type_name else "bytes"
        elif size not in (1, 2, 4, 8):
            kind = "bytes"
        fields.append(
            Field(
                declared["name"],
                int(match["offset"]),
                size,
                match["signed"] == "1",
                kind,
                relative=type_name.startswith("__rel_loc"),
            )
        )
    if identifier is None or not fields:
        raise InputError(f"{name}/format", "this is not a tracepoint's format file")
    # common_flags says whether an interrupt did it: who wakes a thread from one is only who was interrupted.
    own = tuple(
        field for field in fields if field.name == "common_flags" or not field.name.startswith("common_")
    )
    return EventFormat(name, int(identifier[1]), own)


def _mounted(mounts: Path) -> Path | None:
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        parts = line.split()
        if len(parts) > 2 and parts[2] == "tracefs":
            return Path(parts[1])
    return None


def _detached() -> Path:
    """A tracefs of our own that no mount table shows: it goes away with its descriptor."""
    libc = ctypes.CDLL(None, use_errno=True)
    if platform.system() != "Linux":
        raise UnavailableError("kernel tracing needs Linux")
    context = libc.syscall(_FSOPEN, b"tracefs", _CLOEXEC)
    if context < 0:
        raise UnavailableError(f"tracefs is not there ({os.strerror(ctypes.get_errno())})", remedy=_RIGHTS)
    try:
        if libc.syscall(_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0) < 0:
            raise UnavailableError(
                f"tracefs can't be opened ({os.strerror(ctypes.get_errno())})", remedy=_RIGHTS
            )
        mount = libc.syscall(_FSMOUNT, context, _CLOEXEC, 0)
        if mount < 0:
            raise UnavailableError(
                f"tracefs can't be opened ({os.strerror(ctypes.get_errno())})", remedy=_RIGHTS
            )
    finally:
        os.close(context)
    return Path(f"/proc/self/fd/{mount}")


@lru_cache(maxsize=1)
def tracefs() -> Path:
    """The folder of tracefs: where it is mounted, or else a mount that only this process sees.

    Raises:
        UnavailableError: neither is possible.
    """
    found = _mounted(Path("/proc/self/mounts"))
    if found is not None and os.access(found / "events", os.R_OK | os.X_OK):
        return found
    if found is not None and os.geteuid() != 0:
        raise UnavailableError(f"{found} is not readable", remedy=_RIGHTS)
    return _detached()


def event_format(name: str, root: Path | None = None) -> EventFormat:
    """The format of the tracepoint ``group:event``.

    Raises:
        UnavailableError: the kernel has no such tracepoint, or we may not read it.
    """
    group, _, event = name.partition(":")
    if not event or "/" in name:
        raise UnavailableError(f"'{name}' is not a tracepoint", remedy="write it as group:event")
    path = (root or tracefs()) / "events" / group / event / "format"
    try:
        text = path.read_text()
    except FileNotFoundError:
        raise UnavailableError(f"this kernel has no tracepoint {name}") from None
    except OSError as error:
        raise UnavailableError(f"{path} can't be read ({error.strerror})", remedy=_RIGHTS) from None
    return parse_format(text, name)


def known_events(pattern: str, root: Path | None = None) -> list[str]:
    """The tracepoints that match ``group:glob``, sorted; none where nothing matches."""
    group, _, glob = pattern.partition(":")
    folder = (root or tracefs()) / "events" / group
    return sorted(f"{group}:{path.parent.name}" for path in folder.glob(f"{glob or '*'}/format"))

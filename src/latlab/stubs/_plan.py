"""The plan that a study hands to the program under study, by LATLAB_STUBS_PLAN: one line a component.

    latlab-stubs-plan 1
    MODE FACTOR DELAY_NS FLAGS STATE NAME

MODE is off, measure, record, delay, flat, busy or idle; FACTOR scales the busy time of `busy` and `idle`;
FLAGS is
`-` or `released` (the component works without the GIL); STATE is the path before `.trace` and `.times`.
The same text is read by include/latlab/stub.hpp and by the shim that stands in for a command.
"""

from __future__ import annotations

import atexit
import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from latlab.errors import InputError

if TYPE_CHECKING:
    from latlab.stubs._component import Hook

VARIABLE = "LATLAB_STUBS_PLAN"
CALIBRATION = "LATLAB_STUBS_CALIBRATION"
HEAD = "latlab-stubs-plan 1"
MODES = ("off", "measure", "record", "delay", "flat", "busy", "idle")
_TIME = struct.Struct("<qq")


@dataclass(frozen=True)
class Entry:
    """What one component has to do."""

    mode: str
    name: str
    state: str
    factor: float = 1.0
    delay_ns: int = 0
    released: bool = False

    def line(self) -> str:
        """The entry as a line of the plan."""
        flags = "released" if self.released else "-"
        return f"{self.mode} {self.factor!r} {self.delay_ns} {flags} {self.state} {self.name}"


def text(entries: list[Entry]) -> str:
    """The whole plan."""
    return "\n".join([HEAD, *(entry.line() for entry in entries)]) + "\n"


def parse(content: str, source: str) -> list[Entry]:
    """Read a plan.

    Raises:
        InputError: it is none, or of another version.
    """
    lines = content.splitlines()
    if not lines or lines[0] != HEAD:
        raise InputError(source, "is no plan of this version", place="line 1")
    entries = []
    for number, line in enumerate(lines[1:], start=2):
        words = line.split(" ", 5)
        if len(words) != 6 or words[0] not in MODES:
            raise InputError(source, f"is no entry: '{line}'", place=f"line {number}")
        mode, factor, delay, flags, state, name = words
        entries.append(Entry(mode, name, state, float(factor), int(delay), flags == "released"))
    return entries


def current() -> list[Entry]:
    """The plan of this process; empty where there is none."""
    path = os.environ.get(VARIABLE)
    if not path:
        return []
    try:
        with open(path, encoding="utf-8") as file:
            return parse(file.read(), path)
    except OSError as error:
        raise InputError(path, f"can't be read ({error.strerror})") from error


def read_times(path: str) -> list[tuple[int, int]]:
    """(busy_ns, blocked_ns) of each call.

    Raises:
        InputError: the file is missing or damaged.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise InputError(path, f"can't be read ({error.strerror})") from error
    if len(data) % _TIME.size:
        raise InputError(path, "is cut short")
    return [(busy, blocked) for busy, blocked in _TIME.iter_unpack(data)]


def write_times(path: str, times: list[tuple[int, int]]) -> None:
    """Write the times of each call."""
    with open(path, "wb") as file:
        for one in times:
            file.write(_TIME.pack(*one))


def apply(hook: Hook) -> None:
    """Give a component the mode that the plan of this process has for it."""
    from latlab.stubs import _component

    for entry in current():
        if entry.name != hook.name:
            continue
        if entry.mode == "measure":
            hook.callable.set_mode(_component.MEASURE, 1.0, 0, False, False, False)
            atexit.register(_save_times, hook, f"{entry.state}.times")
        elif entry.mode == "record":
            session = _component.Session(f"{entry.state}.trace", replaying=False, keyed=False)
            hook.session = session
            hook.callable.set_mode(_component.SLOW, 1.0, 0, False, False, False)
            atexit.register(session.save)
        elif entry.mode == "delay":
            hook.callable.set_mode(_component.DELAY, 1.0, entry.delay_ns, False, entry.released, False)
        elif entry.mode != "off":
            _replay(hook, entry)


def _replay(hook: Hook, entry: Entry) -> None:
    from latlab.stubs import _component, _trace

    path = f"{entry.state}.trace"
    loaded = {definition.name: definition for definition in _trace.read(path)}
    _component.load(hook, _component.Session(path, replaying=True, keyed=False), loaded, lazy=False)
    simulated = entry.mode != "flat"
    if simulated:
        hook.callable.set_times(read_times(f"{entry.state}.times"))
    factor = 0.0 if entry.mode == "flat" else entry.factor
    hook.callable.set_mode(_component.REPLAY, factor, 0, entry.mode == "idle", entry.released, simulated)


def _save_times(hook: Hook, path: str) -> None:
    write_times(path, hook.callable.times())

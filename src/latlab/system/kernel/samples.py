"""Samples of tracepoints as columns, by the layout that the kernel gives for each. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from latlab.system.kernel.tracefs import EventFormat, Field
from latlab.words import printable

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EventTable", "Events", "decode", "name_of"]

# What the BPF programs keep of the current thread's user registers (bpf_trace.hpp): its system call's number
# (-1: it is in none), first and fourth argument.
_REGISTERS = ("call", "argument", "fourth")


def name_of(text: bytes) -> str:
    """A name that the kernel keeps of a thread or a device: a thread names itself as it likes."""
    return printable(text.decode(errors="replace"))


@dataclass(frozen=True)
class EventTable:
    """All samples of one tracepoint, sorted by time.

    Attributes:
        name: ``group:event``.
        columns: ``time_ns`` (CLOCK_MONOTONIC), ``cpu``, ``pid`` and ``tid`` (of the task that was current),
            then the tracepoint's own fields by the kernel's names; every column of one length; text as numpy
            bytes (``S``). Where a `BpfTracer` was asked for registers: ``call`` (the system call that the
            task is in, -1: none), ``argument`` (its first one) and ``fourth``.
    """

    name: str
    columns: Mapping[str, np.ndarray[Any, Any]]

    def __len__(self) -> int:
        return len(self.columns["time_ns"])

    def __getitem__(self, column: str) -> np.ndarray[Any, Any]:
        return self.columns[column]

    def to_arrow(self) -> pa.Table:
        """The same as an Arrow table, text as strings."""
        import pyarrow as pa

        return pa.table(
            {
                key: pa.array([name_of(text) for text in value.tolist()])
                if value.dtype.kind == "S"
                else pa.array(value)
                for key, value in self.columns.items()
            }
        )


@dataclass(frozen=True)
class Forgotten:
    """How many samples were dropped again since too many came, and the time of the last of them."""

    samples: int = 0
    until_ns: int = 0

    def and_of(self, times_ns: np.ndarray[Any, Any]) -> Forgotten:
        """With these."""
        return Forgotten(self.samples + len(times_ns), max(self.until_ns, int(times_ns.max())))


@dataclass(frozen=True)
class Events:
    """What a trace saw.

    Attributes:
        tables: one table a tracepoint, by its name.
        lost: samples that the kernel had to drop; whatever is concluded from the rest must say so.
        cpus: the CPUs that were traced.
        forgotten: what was seen and is not among them.
    """

    tables: Mapping[str, EventTable]
    lost: int
    cpus: tuple[int, ...]
    forgotten: Forgotten = Forgotten()
    _comm: dict[int, str] = field(default_factory=dict, repr=False)

    def __getitem__(self, name: str) -> EventTable:
        return self.tables[name]

    def __contains__(self, name: object) -> bool:
        return name in self.tables

    def __len__(self) -> int:
        return sum(len(table) for table in self.tables.values())

    def merged(self) -> dict[str, np.ndarray[Any, Any]]:
        """Every sample of every tracepoint in one order of time.

        The columns are ``time_ns``, ``cpu``, ``pid``, ``tid`` and ``event``, which indexes ``list(tables)``.
        """
        tables = list(self.tables.values())
        keys = ("time_ns", "cpu", "pid", "tid")
        whole = {key: np.concatenate([table[key] for table in tables]) for key in keys}
        whole["event"] = np.repeat(np.arange(len(tables), dtype=np.uint16), [len(table) for table in tables])
        order = np.argsort(whole["time_ns"], kind="stable")
        return {key: value[order] for key, value in whole.items()}

    def comm(self) -> dict[int, str]:
        """The last known name of every thread that a sample names, by its tid; swapper is 0."""
        if not self._comm:
            self._comm[0] = "swapper"
            for table in self.tables.values():
                for name_key, id_key in _COMM_COLUMNS:
                    if name_key in table.columns and id_key in table.columns:
                        ids, last = np.unique(table[id_key][::-1], return_index=True)
                        names = table[name_key][::-1][last]
                        for tid, text in zip(ids.tolist(), names.tolist(), strict=True):
                            if tid != 0:
                                self._comm[tid] = name_of(text)
        return self._comm


_COMM_COLUMNS = (
    ("parent_comm", "parent_pid"),
    ("child_comm", "child_pid"),
    ("comm", "event_pid"),
    ("prev_comm", "prev_pid"),
    ("next_comm", "next_pid"),
)


def decode(
    form: EventFormat, parts: Sequence[Mapping[str, Any]], only: Sequence[str] | None = None
) -> EventTable:
    """Turn raw samples into columns, sorted by time.

    Args:
        form: the layout that the kernel gave.
        parts: what `PerfTrace.take` returned for this event, once or more.
        only: these columns, beside those that every event has, in the order of their coming; all when None.
    """
    stride = max((int(part["stride"]) for part in parts), default=0)
    rows = []
    for part in parts:
        one = part["raw"].reshape(len(part["time_ns"]), int(part["stride"]))
        rows.append(np.pad(one, ((0, 0), (0, stride - one.shape[1]))) if one.shape[1] < stride else one)
    raw = np.concatenate(rows) if rows else np.zeros((0, 0), np.uint8)
    columns: dict[str, np.ndarray[Any, Any]] = {}
    for key, kind in (("time_ns", np.uint64), ("cpu", np.int32), ("pid", np.int32), ("tid", np.int32)):
        columns[key] = np.concatenate([part[key] for part in parts]) if parts else np.zeros(0, kind)
    order: Any = np.argsort(columns["time_ns"], kind="stable") if only is None else slice(None)
    columns = {
        key: value[order].astype(np.int64) if key == "time_ns" else value[order]
        for key, value in columns.items()
    }
    raw = raw[order]
    if any(len(part.get("registers", ())) for part in parts):
        registers = np.concatenate([part["registers"].reshape(-1, len(_REGISTERS)) for part in parts])[order]
        columns.update(
            (name, registers[:, i]) for i, name in enumerate(_REGISTERS) if only is None or name in only
        )
    if any(len(part.get("context", ())) for part in parts):
        columns["context"] = np.concatenate([part["context"] for part in parts])[order]
    width = max((int(part.get("payload_stride", 0)) for part in parts), default=0)
    if width and len(raw) and only is None:
        payload = np.concatenate([part["payload"] for part in parts]).reshape(-1, width)[order]
        columns["captured"] = payload[:, :8].copy().view(np.int64).reshape(-1)
        columns["payload"] = payload[:, 8:].copy().view(f"V{width - 8}").reshape(-1)
    for one in form.fields:
        # An event's own `pid` is not the current task's: sched_wakeup's is the task that was woken.
        name = f"event_{one.name}" if one.name in columns else one.name
        if only is None or name in only:
            columns[name] = _field(raw, one)
    return EventTable(form.name, columns)


def _field(raw: np.ndarray[Any, Any], one: Field) -> np.ndarray[Any, Any]:
    count, stride = raw.shape
    end = one.offset_bytes + one.size_bytes
    if end > stride:  # no sample, or samples too short for the field
        return np.zeros(count, one.dtype() if one.kind == "integer" else "S1")
    part = np.ascontiguousarray(raw[:, one.offset_bytes : end])
    if one.kind == "integer":
        return part.view(one.dtype()).reshape(count)
    if one.kind != "dynamic_text":
        return _until_nul(part)
    where = part.view(np.uint32).reshape(count)
    starts = (where & 0xFFFF) + (end if one.relative else 0)
    lengths = where >> 16
    out = np.zeros(count, f"S{max(1, int(lengths.max(initial=1)))}")
    for key in np.unique(where):  # few different places: one slice serves all rows that share it
        rows = where == key
        start = int(starts[rows][0])
        text = np.ascontiguousarray(raw[rows, start : start + int(lengths[rows][0])])
        if text.shape[1]:
            out[rows] = _until_nul(text)
    return out


def _until_nul(text: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Fixed-width bytes cut at their first NUL: the kernel leaves older text behind it."""
    width = text.shape[1]
    names = text.reshape(-1).view(f"S{width}")
    dead = text == 0
    first = np.where(dead.any(axis=1), dead.argmax(axis=1), width)
    # numpy leaves out what is NUL to the end: the few that are longer by it have older text.
    older = np.flatnonzero(np.char.str_len(names) > first)
    if len(older):
        names = names.copy()
        cut = np.where(np.arange(width) < first[older, None], text[older], 0).astype(np.uint8)
        names[older] = cut.view(f"S{width}").reshape(-1)
    return names

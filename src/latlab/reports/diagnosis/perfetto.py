"""What all threads did, as a trace for ui.perfetto.dev: turns, waits, wake-ups, who else had the CPUs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from latlab.errors import InputError
from latlab.formats.documents import dumps
from latlab.formats.trusted import to_write
from latlab.model.schedule import Schedule, Source, State, Wait
from latlab.model.threads import ThreadFindings

__all__ = ["trace_events", "write_perfetto"]

_CPUS = 0  # the process that stands for the CPUs
_NAMES = {State.RUNNING: "running", State.RUNNABLE: "runnable", State.UNSEEN: "not seen"}


def write_perfetto(path: Path, schedule: Schedule, found: ThreadFindings) -> None:
    """Write the trace.

    Raises:
        InputError: the file can't be written.
    """
    try:
        with open(path, "w", encoding="utf-8", opener=to_write) as file:
            file.write('{"displayTimeUnit":"ns","traceEvents":[\n')
            for number, event in enumerate(trace_events(schedule, found)):
                file.write((",\n" if number else "") + dumps(event))
            file.write("\n]}\n")
    except OSError as error:
        raise InputError(str(path), f"can't be written ({error.strerror})") from None


def trace_events(schedule: Schedule, found: ThreadFindings) -> Iterator[dict[str, Any]]:
    """In Chrome's trace event format, times in µs from the beginning: slices ("X") of each thread and of each
    CPU, and an arrow ("s" to "f") from each one that woke to who was woken.
    """
    threads = schedule.threads
    role_of = {thread: role.name for role in found.roles for thread in role.threads}
    for index, one in enumerate(threads):
        ours = {"pid": one.pid, "tid": one.tid}
        yield {"ph": "M", "name": "process_name", **ours, "args": {"name": one.process}}
        name = f"{role_of.get(index, one.name)} ({one.tid})"
        yield {"ph": "M", "name": "thread_name", **ours, "args": {"name": name}}
    yield {"ph": "M", "name": "process_name", "pid": _CPUS, "args": {"name": "CPUs"}}
    for cpu in schedule.cpus:
        named = {"name": f"CPU {cpu}"}
        yield {"ph": "M", "name": "thread_name", "pid": _CPUS, "tid": cpu, "args": named}
    for row in schedule.intervals:
        one = threads[int(row["thread"])]
        state = State(int(row["state"]))
        slice_ = _slice(schedule, row["begin"], row["end"])
        name = _NAMES.get(state) or f"waits: {Wait(int(row['wait'])).name.lower()}"
        said = _said(schedule, row) if state is State.BLOCKED else {}
        yield {**slice_, "name": name, "pid": one.pid, "tid": one.tid, "args": said}
        if state is State.RUNNING and row["cpu"] >= 0:
            on = role_of.get(int(row["thread"]), one.name)
            yield {**slice_, "name": on, "pid": _CPUS, "tid": int(row["cpu"])}
    for row in schedule.foreign:
        name = schedule.foreign_names.get(int(row["tid"]), str(int(row["tid"])))
        yield {
            **_slice(schedule, row["begin"], row["end"]),
            "name": f"other: {name}", "pid": _CPUS, "tid": int(row["cpu"]),
        }  # fmt: skip
    for number, wake in enumerate(schedule.wakes):
        at = (int(wake["time"]) - schedule.began_ns) / 1000
        for phase, who in (("s", wake["waker"]), ("f", wake["wakee"])):
            one = threads[int(who)]
            arrow = {"ph": phase, "id": number, "cat": "wake-up", "name": "wakes", "ts": at}
            yield {**arrow, "pid": one.pid, "tid": one.tid, **({"bp": "e"} if phase == "f" else {})}


def _slice(schedule: Schedule, begin: Any, end: Any) -> dict[str, Any]:
    return {"ph": "X", "ts": (int(begin) - schedule.began_ns) / 1000, "dur": int(end - begin) / 1000}


def _said(schedule: Schedule, row: Any) -> dict[str, str]:
    """On what it waited, and who ended that."""
    said: dict[str, str] = {}
    thing = int(row["object"])
    if row["wait"] == Wait.FUTEX and thing > 0:
        said["on"] = f"futex {thing:#x}"
    elif thing in schedule.objects:
        said["on"] = schedule.objects[thing]
    waker = int(row["waker"])
    said["ended by"] = schedule.threads[waker].name if waker >= 0 else Source(int(row["source"])).name.lower()
    return said

"""Timelines: kept as JSON, compared, and handed to Perfetto."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from latlab.errors import InputError
from latlab.formats.documents import dumps, write_text
from latlab.formats.trusted import MOST_TEXT_BYTES, read_file
from latlab.model.stubs import SCHEMA, ThreadError, Timeline, TimelineComparison, TimelineThread

FILE = "timeline.json"
_REMEDY = "see 'latlab stubs capture' and 'play -o'"
_REQUIRED = ("id", "run_ns", "blocked_ns", "start_ns", "end_ns", "parent")


def save(timeline: Timeline, folder: str | Path) -> Path:
    """Write `timeline.json` into a folder, whole or not at all."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    write_text(path, dumps(timeline.as_json()))
    return path


def load(source: str | Path) -> Timeline:
    """Read a folder's timeline, or a file that `latlab stubs play --json` wrote.

    Raises:
        InputError: it is none, or of another version.
    """
    path = Path(source)
    if path.is_dir():
        if not (path / FILE).is_file():
            raise InputError(path, "holds no timeline", remedy=_REMEDY)
        path = path / FILE
    try:
        document = json.loads(read_file(path, MOST_TEXT_BYTES, remedy=_REMEDY).decode("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(path, f"can't be read as a timeline ({error})") from error
    if not isinstance(document, dict) or "threads" not in document or "total_ns" not in document:
        raise InputError(path, "is not a timeline: it has no threads or no total")
    if document.get("schema") != SCHEMA:
        raise InputError(
            path, f"is of version {document.get('schema')}, and {SCHEMA} is read", place="schema"
        )
    return Timeline(
        kind=str(document.get("kind", "timeline")),
        total_ns=int(document["total_ns"]),
        notes=tuple(document.get("notes", ())),
        order=tuple(document.get("order", ())),
        cpus=int(document.get("cpus", 0)),
        others_ns=None if document.get("others_ns") is None else int(document["others_ns"]),
        threads=tuple(_thread(row, i, path) for i, row in enumerate(document["threads"])),
    )


def _thread(row: dict[str, Any], index: int, path: Path) -> TimelineThread:
    for name in _REQUIRED:
        if name not in row:
            raise InputError(path, f"'{name}' is missing", place=f"threads[{index}]")
    return TimelineThread(
        id=row["id"],
        parent=row["parent"],
        pid=row.get("pid", 0),
        name=row.get("name", ""),
        run_ns=row["run_ns"],
        blocked_ns=row["blocked_ns"],
        ready_ns=row.get("ready_ns", 0),
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        budget_ns=row.get("budget_ns", row["run_ns"]),
        switches=row.get("switches", 0),
        faults=row.get("faults", 0),
        slices=tuple((a, b, s) for a, b, s in row.get("slices", ())),
        marks=tuple((t, w) for t, w in row.get("marks", ())),
        places=tuple(row.get("places", ())),
    )


def compare(a: Timeline, b: Timeline) -> TimelineComparison:
    """The errors of B against A, for the threads that both have."""
    ids_a = {thread.id for thread in a.threads}
    ids_b = {thread.id for thread in b.threads}
    total = max(a.total_ns, 1)

    def relative(new: int, old: int) -> float:
        # What A has next to none of is held against A's total, which is what it would shift.
        return (new - old) / (old if old >= total / 1000 else total)

    errors = []
    for thread in a.threads:
        if thread.id not in ids_b:
            continue
        other = b.thread(thread.id)
        errors.append(
            ThreadError(
                id=thread.id,
                run_error=relative(other.run_ns, thread.run_ns),
                # Which part of a wait is blocked and which is ready is the scheduler's choice of the moment.
                blocked_error=relative(
                    other.blocked_ns + other.ready_ns, thread.blocked_ns + thread.ready_ns
                ),
                start_error=(other.start_ns - thread.start_ns) / total,
                end_error=(other.end_ns - thread.end_ns) / total,
                run_difference_ns=other.run_ns - thread.run_ns,
            )
        )
    common = sorted(ids_a & ids_b)
    starts_a = sorted(common, key=lambda i: a.thread(i).start_ns)
    starts_b = sorted(common, key=lambda i: b.thread(i).start_ns)
    return TimelineComparison(
        total_error=(b.total_ns - a.total_ns) / total,
        threads=tuple(errors),
        order_same=a.order == b.order if a.order and b.order else starts_a == starts_b,
        missing=tuple(sorted(ids_a ^ ids_b)),
    )


def to_perfetto(timeline: Timeline) -> dict[str, Any]:
    """The timeline as trace events, the JSON form that ui.perfetto.dev and chrome://tracing open."""
    events: list[dict[str, Any]] = []
    for thread in timeline.threads:
        name = f"{thread.id} {thread.name}".strip()
        place = {"pid": 1, "tid": thread.id}
        events.append({"ph": "M", "name": "thread_name", **place, "args": {"name": name}})
        events.append({"ph": "M", "name": "thread_sort_index", **place, "args": {"sort_index": thread.id}})
        for begin, end, state in thread.slices:
            times = {"ts": begin / 1e3, "dur": (end - begin) / 1e3}
            events.append({"ph": "X", "name": state, "cat": "sched", **place, **times})
        for at, what in thread.marks:
            events.append({"ph": "i", "s": "t", "name": what, **place, "ts": at / 1e3})
    return {"displayTimeUnit": "ns", "traceEvents": events}

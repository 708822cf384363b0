"""From a recording to an observation in memory."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from latlab.errors import InputError
from latlab.formats.recording import Recording, open_recording
from latlab.model.queues.observation import (
    SEVERAL,
    Observation,
    Process,
    Queue,
    QueueKind,
    SocketBuffer,
    Stage,
    named,
)
from latlab.queues.sample.recorder import COLUMNS, NOT_RECORDED

__all__ = ["KIND", "load"]

KIND = "queues"


def load(path: str | os.PathLike[str], *, exclude: tuple[str, ...] = ()) -> Observation:
    """Read a recording of kind "queues", complete or not.

    Args:
        path: of the recording.
        exclude: names of queues whose samples are left out.

    Raises:
        InputError: when it is not a recording, of another kind, or damaged; with the file and the place.
    """
    recording = open_recording(path)
    if recording.kind != KIND:
        raise InputError(
            recording.path,
            f"is a recording of '{recording.kind}'",
            remedy="'latlab queues record' makes one of queues",
        )
    queues: dict[int, Queue] = {}
    stages: dict[int, Stage] = {}
    processes: dict[int, Process] = {}
    phases: list[tuple[int, int, str]] = []
    sockets: dict[int, SocketBuffer] = {}
    names = recording.names()
    for row in recording.series("topology").rows() if "topology" in names else []:
        try:
            _apply(row, queues, stages, processes, phases, sockets)
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(
                recording.path / "topology.arrows", f"holds an event that can't be read ({error})"
            ) from None
    columns = {name: _columns(recording, name, names) for name in COLUMNS}
    queues_by_number = tuple(queues[number] for number in sorted(queues))
    highest = int(columns["samples"]["queue"].max(initial=0))
    if [q.number for q in queues_by_number] != list(range(len(queues))) or highest > max(0, len(queues) - 1):
        raise InputError(recording.path, "has samples of queues that its topology doesn't know")
    kernel = recording.document("scheduler") if "scheduler" in recording.documents() else {}
    left_out = [queue.number for queue in queues_by_number if queue.name in exclude]
    if left_out:
        kept = ~np.isin(columns["samples"]["queue"], left_out)
        columns["samples"] = {name: values[kept] for name, values in columns["samples"].items()}
    moved = set(np.unique(columns["samples"]["queue"][columns["samples"]["in"] > 0]).tolist())
    told = _told_apart(queues_by_number, stages, processes, moved)
    return Observation(
        queues=named(told[0]),
        stages=tuple(told[1][number] for number in sorted(stages)),
        processes=tuple(processes[number] for number in sorted(processes)),
        samples=columns["samples"],
        sweeps=columns["sweeps"],
        gaps=columns["gaps"],
        stage_times=columns["stages"],
        threads=columns["threads"],
        phases=tuple(phases),
        period_ns=int(recording.parameters.get("period_ns", 100_000)),
        cpus=int(recording.environment.get("cpu.count", 0)),
        clock_step_ns=_clock_step_ns(recording),
        sockets=tuple(sockets[number] for number in sorted(sockets)),
        socket_samples=columns["sockets"],
        scheduler=columns["scheduler"],
        thread_names={int(tid): name for tid, name in kernel.get("names", {}).items()},
        scheduler_missing="" if "names" in kernel else str(kernel.get("missing", NOT_RECORDED)),
    )


def _told_apart(
    queues: tuple[Queue, ...], stages: Mapping[int, Stage], processes: Mapping[int, Process], moved: set[int]
) -> tuple[tuple[Queue, ...], Mapping[int, Stage]]:
    """The same with names that no two applications share, as two copies of one program would.

    Processes that no queue connects are applications of their own. A stage of one is none of the other's, of
    whatever name: those names get the application's behind them, and its process where these are alike, too.

    Args:
        moved: numbers of the queues that took any event: of those that were there at a fork each process has
            a copy, and uses one.
    """
    parent = {number: number for number in processes}

    def root(number: int) -> int:
        while parent[number] != number:
            number = parent[number]
        return number

    def join(numbers: Iterable[int]) -> None:
        known = [number for number in numbers if number in parent]
        for number in known[1:]:
            parent[root(number)] = root(known[0])

    for queue in queues:
        join(queue.processes)
    for pid in {one.pid for one in processes.values()}:
        join(number for number, one in processes.items() if one.pid == pid)
    users: dict[str, set[int]] = {}
    for queue in queues:
        if queue.number in moved and queue.processes and queue.processes[0] in parent:
            for label in {*queue.sources, queue.drain} - {""}:
                users.setdefault(label, set()).add(root(queue.processes[0]))
    shared = {root for roots in users.values() if len(roots) > 1 for root in roots}
    if not shared:
        return queues, stages
    given = [processes[number].application for number in shared]
    behind = {
        number: f" ({name})" if given.count(name) == 1 else f" ({name} {processes[number].pid})"
        for number in shared
        for name in (processes[number].application,)
    }

    def renamed(label: str, process: int) -> str:
        # Each of the unlike stages that use one side of a queue is one of its application's.
        return SEVERAL.join(
            one + behind.get(root(process), "")
            if one and process in parent and len(users.get(one, ())) > 1
            else one
            for one in label.split(SEVERAL)
        )

    found = []
    for queue in queues:
        process = queue.processes[0] if queue.processes else -1
        told = replace(
            queue,
            source_name=renamed(queue.source, process) if queue.source_name else "",
            drain_name=renamed(queue.drain, process) if queue.drain_name else "",
            source_type=queue.source_type if queue.source_name else renamed(queue.source, process),
            drain_type=queue.drain_type if queue.drain_name else renamed(queue.drain, process),
        )
        if (told.source, told.drain) != (queue.source, queue.drain) and queue.name:
            told = replace(told, name=queue.name + behind.get(root(process), ""))
        found.append(told)
    apart = {
        number: replace(stage, name=renamed(stage.label, stage.process))
        if stage.name
        else replace(stage, type=renamed(stage.label, stage.process))
        for number, stage in stages.items()
    }
    return tuple(found), apart


def _clock_step_ns(recording: Recording) -> int:
    if "clock" not in recording.documents():
        return 0
    ticks = int(recording.environment.get("clock.quantum_ticks", 0))
    return int(ticks / float(recording.document("clock")["hz"]) * 1e9)


def _apply(
    row: dict[str, Any],
    queues: dict[int, Queue],
    stages: dict[int, Stage],
    processes: dict[int, Process],
    phases: list[tuple[int, int, str]],
    sockets: dict[int, SocketBuffer],
) -> None:
    number, description = row["number"], json.loads(row["description"])
    if row["event"] == "phase":
        phases.append((row["t_ns"], number, description["phase"]))
    elif row["what"] == "process":
        processes[number] = Process(**description)
    elif row["what"] == "stage":
        stages[number] = Stage(**description)
    elif row["what"] == "socket":
        sockets[number] = SocketBuffer(**description)
    elif row["what"] == "queue":
        description["discovered"] = tuple(description.get("discovered", ()))
        description["kind"] = QueueKind(description["kind"])
        description["processes"] = tuple(description["processes"])
        description["slots"] = tuple(tuple(slot) for slot in description["slots"])
        queues[number] = Queue(**description)


def _columns(recording: Recording, name: str, names: list[str]) -> dict[str, Any]:
    kinds = COLUMNS[name]
    if name not in names:
        return {column: np.empty(0, kind) for column, kind in kinds.items()}
    table = recording.series(name)
    missing = [column for column in kinds if column not in table]
    if missing:
        raise InputError(recording.path / f"{name}.arrows", f"has no column '{missing[0]}'")
    return {column: table[column].astype(kind, copy=False) for column, kind in kinds.items()}

"""From a recording to an observation in memory."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from latlab.errors import InputError
from latlab.formats.arrow_columns import as_numpy
from latlab.formats.recording import Recording, open_recording
from latlab.model.queues.observation import Observation, Process, Queue, QueueKind, SocketBuffer, Stage
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
    for row in recording.series("topology").to_pylist() if "topology" in names else []:
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
    return Observation(
        queues=queues_by_number,
        stages=tuple(stages[number] for number in sorted(stages)),
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
    missing = [column for column in kinds if column not in table.column_names]
    if missing:
        raise InputError(recording.path / f"{name}.arrows", f"has no column '{missing[0]}'")
    return {column: as_numpy(table.column(column)).astype(kind, copy=False) for column, kind in kinds.items()}

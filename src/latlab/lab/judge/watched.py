"""What was seen of an application that publishes its queues, judged: whichever application it is."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latlab.formats.recording import RecordingWriter, open_recording
from latlab.lab.judge.foreign_load import Others
from latlab.lab.judge.outcome import Outcome
from latlab.lab.judge.residence import Residence, TraceTable, residence
from latlab.lab.judge.verdict import diagnose
from latlab.model.diagnosis.pipeline import run_json
from latlab.model.queues.analysis import Analysis
from latlab.model.queues.observation import HOLDS_LOOP, Observation
from latlab.queues import analyse, keep_traces

__all__ = ["Watched", "watched"]


@dataclass(frozen=True, slots=True)
class Watched:
    """What its queues and event traces tell; without traces the table and its times are empty."""

    observation: Observation
    traces: TraceTable
    residence: Residence
    diagnosis: Analysis


def watched(
    writer: RecordingWriter,
    observation: Observation,
    files: Sequence[Path],
    *,
    lanes: Sequence[Sequence[str]] = (),
    stages: Mapping[str, Sequence[str]] | None = None,
    outcomes: Sequence[Outcome] = (),
    others: Others | None = None,
    of_window: bool = False,
    distrust: Sequence[str] = (),
) -> Watched:
    """Take the traces over into the recording, and judge.

    Args:
        writer: of the recording, whose sampling is over.
        observation: that recording in memory.
        files: a trace file a process.
        lanes: by file, the stage that writes each lane, where that is known.
        stages: the instances of each type of stage, where the application says so; else by its queues.
        outcomes: how its processes ended, where they are latlab's.
        others: who else used the machine during the run, where that was looked at.
        of_window: of the traces only those of events that were under way within the recording.
        distrust: why the observation itself is not trustworthy.
    """
    recording = open_recording(writer.path)
    sweeps = observation.sweeps["t_ns"]
    since = int(sweeps[0]) if of_window and sweeps.size else 0
    columns, said = keep_traces(
        files, observation, recording.document("clock"), writer, lanes, since_ns=since
    )
    analysis = analyse(observation)
    kinds = _types(observation)
    if stages is None:
        stages, names = _stages(analysis, kinds)
        kinds = {label: names.get(kind, kind) for label, kind in kinds.items()}
    table = _trace_table(columns, observation, kinds)
    times = residence(table, stages)
    found = diagnose(
        observation,
        analysis,
        times,
        table,
        stages,
        outcomes,
        recording.document("sampler"),
        observation.cpus or len(os.sched_getaffinity(0)),
        others,
        0 if said["lost"] else said["every"],
        distrust,
    )
    writer.put("diagnosis", run_json(found))
    return Watched(observation, table, times, found)


def _types(observation: Observation) -> dict[str, str]:
    """The type of each stage by its label; its label, where it has none."""
    found: dict[str, str] = {}
    for queue in observation.queues:
        for label, kind in ((queue.source, queue.source_type), (queue.drain, queue.drain_type)):
            found[label] = found.get(label) or kind
    for stage in observation.stages:
        if stage.type != HOLDS_LOOP:
            found[stage.label] = found.get(stage.label) or stage.type
    return {label: kind or label for label, kind in found.items()}


def _stages(analysis: Analysis, kinds: Mapping[str, str]) -> tuple[dict[str, list[str]], dict[str, str]]:
    """(The labels of each type, how each is called): the only stage of a type goes by its label."""
    groups: dict[str, list[str]] = {}
    for stage in analysis.stages:
        groups.setdefault(kinds.get(stage.label, stage.label), []).append(stage.label)
    names = {kind: labels[0] if len(labels) == 1 else kind for kind, labels in groups.items()}
    return {names[kind]: labels for kind, labels in groups.items()}, names


def _trace_table(
    columns: Mapping[str, NDArray[Any]], observation: Observation, kinds: Mapping[str, str]
) -> TraceTable:
    """The series "traces" with the queues' names and the types of their sources instead of their numbers."""
    names = np.array([queue.name for queue in observation.queues] + [""])
    sources = np.array([kinds.get(queue.source, "") for queue in observation.queues] + [""])
    return TraceTable(
        event=columns["event"],
        push_ns=columns["push_ns"],
        pop_ns=columns["pop_ns"],
        source=sources[columns["queue"]],
        drain=columns["stage"],
        queue=names[columns["queue"]],
        end=columns["end"],
    )

"""The trace files of the pipeline's two processes, and the table that the diagnosis works on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latlab.lab.judge.residence import TraceTable
from latlab.model.layout import STAGES, Layout
from latlab.model.queues.observation import Observation

__all__ = ["trace_files", "trace_table"]


def trace_files(path: Path, layout: Layout) -> tuple[list[Path], list[list[str]]]:
    """The trace files that there are, and the stage of each of their lanes.

    Args:
        path: of the trading process's file; the execution process's has ".execution" behind it.
    """
    lanes = {
        path: [name for stage in STAGES[:-1] for name in layout.instances(stage)],
        Path(f"{path}.execution"): layout.instances("execution"),
    }
    # Nothing is traced, or the process died before it came so far.
    there = [file for file in lanes if file.exists()]
    return there, [lanes[file] for file in there]


def trace_table(columns: Mapping[str, NDArray[Any]], observation: Observation) -> TraceTable:
    """The series "traces" with the queues' names and sources instead of their numbers."""
    names = np.array([queue.name for queue in observation.queues] + [""])
    sources = np.array([queue.source_type for queue in observation.queues] + [""])
    return TraceTable(
        event=columns["event"],
        push_ns=columns["push_ns"],
        pop_ns=columns["pop_ns"],
        source=sources[columns["queue"]],
        drain=columns["stage"],
        queue=names[columns["queue"]],
        end=columns["end"],
    )

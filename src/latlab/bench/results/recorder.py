"""What measuring keeps as it goes: in memory, and in a recording that is safe from a kill; and back."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from latlab.bench.results.raw import Raw, Row
from latlab.formats.recording import Recording, RecordingWriter, open_recording
from latlab.model.bench import Sample

__all__ = ["Recorder", "raw_of", "rows_of"]


@dataclass
class Recorder:
    """Keeps every process as it ends: in memory for the judgement, and in a recording where one is wanted."""

    writer: RecordingWriter | None = None
    rows: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Keep one process; it is safe from a kill once this returns."""
        self.rows.append(row)
        if self.writer is None:
            return
        sample = row.sample
        count = len(sample.times_ns)
        self.writer.append(
            "iterations",
            {
                "test": np.full(count, row.test),
                "pair": np.full(count, row.pair, dtype=np.int32),
                "position": np.full(count, row.position, dtype=np.int8),
                "side": np.full(count, row.side),
                "batch": np.full(count, sample.batch, dtype=np.int64),
                "operations": np.full(count, sample.operations, dtype=np.int64),
                "quantum_ns": np.full(count, sample.quantum_ns),
                "read_ns": np.full(count, sample.read_ns),
                "turn": np.full(count, sample.turn, dtype=np.int32),
                "tail_quantile": np.full(count, sample.tail_quantile),
                "tail_ns": np.full(count, sample.tail_ns),
                "iteration": np.arange(count, dtype=np.int32),
                "nanoseconds": sample.times_ns,
            },
        )


def rows_of(recording: Recording) -> list[Row]:
    """The processes that a recording holds, finished or not."""
    if "iterations" not in recording.names():
        return []
    table = recording.series("iterations")
    starts = np.flatnonzero(table["iteration"] == 0)
    rows = []
    for start, end in zip(starts, [*starts[1:], table.num_rows], strict=True):
        at = {name: values[start] for name, values in table.items()}
        sample = Sample(
            np.asarray(table["nanoseconds"][start:end], dtype=np.float64),
            int(at["batch"]), int(at["operations"]), float(at["quantum_ns"]), float(at["read_ns"]),
            turn=int(at.get("turn", 0)),
            tail_quantile=float(at.get("tail_quantile", 0.0)), tail_ns=float(at.get("tail_ns", 0.0)),
            position=int(at["position"]),
        )  # fmt: skip
        rows.append(Row(str(at["test"]), int(at["pair"]), int(at["position"]), str(at["side"]), sample))
    return rows


def raw_of(path: Path) -> Raw:
    """A recording of `bench run` or `bench ab` as raw results."""
    recording = open_recording(path)
    plans = recording.document("plans")["plans"] if "plans" in recording.documents() else {}
    facts = {"kind": recording.kind, "plans": plans, "environment": recording.environment.to_json()}
    return Raw({**recording.parameters, **facts}, rows_of(recording))

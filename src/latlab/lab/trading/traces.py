"""The trace files of the pipeline's two processes."""

from __future__ import annotations

from pathlib import Path

from latlab.model.diagnosis.layout import STAGES, Layout

__all__ = ["trace_files"]


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

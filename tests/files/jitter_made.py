"""A core's result, and files of a machine, that tests of jitter share."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from latlab.model.machine.jitter import CoreJitter


def core(**changes: object) -> CoreJitter:
    values = {
        "cpu": 1,
        "deltas": 1003,
        "wall_ticks": 52_000,
        "pure_ticks": 50_000,
        "bridge_ticks": 1_000,
        "gap_ticks": 1_000,
        "paused_ticks": 0,
        "threshold_ticks": 500,
        "counter_hz": 2.6e9,
        "quantum_ticks": 26,
        "start_ns": 1_000_000,
        "values_ticks": np.array([1, 26, 52, 1_000]),
        "counts": np.array([2, 900, 100, 1]),
        "outliers": 1,
        "max_ticks": 1_000,
        "gap_start_ns": np.array([2_000_000.0]),
        "gap_each_ns": np.array([384.6]),
        "preempted": np.array([1], np.uint8),
    }
    return CoreJitter(**{**values, **changes})  # type: ignore[arg-type]


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)

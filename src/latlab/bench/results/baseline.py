"""Baseline files: results of earlier runs that are committed and compared with.

Version 1: one JSON object with `schema` 1, `kind` "bench-baseline" and `runs`, the oldest first, each with
`at` (UTC), `environment` (names and values) and `tests`: for each benchmark a list of processes, each a list
of times in nanoseconds. A process of many times is kept by some of its quantiles, since nothing more of it
is judged. Several runs of the same code tell what lies between runs, which a single run can't.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from latlab.errors import InputError
from latlab.formats import documents
from latlab.formats.trusted import MOST_TEXT_BYTES, read_file
from latlab.stats.variance import midmean

__all__ = ["MOST_RUNS", "BaselineRun", "add", "is_baseline", "read"]

Floats = npt.NDArray[np.float64]
KIND = "bench-baseline"
MOST_RUNS = 20  # older ones are of another machine, and the file is to be read in a review
_KEPT = 50  # times of a process that is the only one of its run


@dataclass(frozen=True)
class BaselineRun:
    """One run.

    Attributes:
        tests: for each benchmark the times of each process in nanoseconds.
        environment: what is known of the machine, by name.
        at: when, UTC.
    """

    tests: Mapping[str, Sequence[Floats]]
    environment: Mapping[str, str] = field(default_factory=dict)
    at: str = ""


def add(path: Path, tests: Mapping[str, Sequence[Floats]], environment: Mapping[str, str]) -> int:
    """Keep a run in a file, behind those that it holds; the number of runs then.

    Raises:
        InputError: the file is there and no baseline.
        OSError: it can't be written.
    """
    runs = read(path) if path.exists() else []
    at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    runs = [*runs, BaselineRun({name: _kept(groups) for name, groups in tests.items()}, environment, at)][
        -MOST_RUNS:
    ]
    written = [
        {
            "at": run.at,
            "environment": dict(run.environment),
            "tests": {
                name: [[float(f"{t:.6g}") for t in group] for group in groups]
                for name, groups in run.tests.items()
            },
        }
        for run in runs
    ]
    documents.write(path, {"schema": 1, "kind": KIND, "runs": written})
    return len(runs)


def is_baseline(document: Any) -> bool:
    """Whether a JSON document is one."""
    return isinstance(document, Mapping) and document.get("kind") == KIND


def read(path: Path) -> list[BaselineRun]:
    """The runs of a file, the oldest first.

    Raises:
        InputError: it is none, or damaged.
    """
    try:
        document = json.loads(read_file(path, MOST_TEXT_BYTES).decode("utf-8"))
    except OSError as error:
        raise InputError(path, f"can't be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise InputError(path, "is not JSON", remedy="write it with --save-baseline") from None
    if not is_baseline(document) or document.get("schema") != 1:
        raise InputError(path, "is not a baseline", remedy="write it with --save-baseline")
    try:
        runs = [
            BaselineRun(
                {
                    str(name): [np.array(group, dtype=np.float64) for group in groups]
                    for name, groups in run["tests"].items()
                },
                {str(k): str(v) for k, v in run.get("environment", {}).items()},
                str(run.get("at", "")),
            )
            for run in document["runs"]
        ]
        for run in runs:
            for groups in run.tests.values():
                if not groups:
                    raise ValueError("a benchmark has no times")
                for group in groups:
                    if group.ndim != 1 or len(group) == 0 or not np.isfinite(group).all() or group.min() <= 0:
                        raise ValueError("a time is missing or not above 0")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(path, f"is damaged ({error})") from None
    return runs


def _kept(groups: Sequence[Floats]) -> list[Floats]:
    if len(groups) > 1:
        return [np.array([midmean(group)]) for group in groups]
    only = np.asarray(groups[0], dtype=np.float64)
    if len(only) <= _KEPT:
        return [only]
    # In a drawn order, or the sorted quantiles would look like a drift.
    kept = np.quantile(only, (np.arange(_KEPT) + 0.5) / _KEPT)
    return [np.random.default_rng(1).permutation(kept)]

"""The reader that `latlab show` asks about results of benchmarks, our own and those of other tools."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from latlab.bench.results import raw
from latlab.bench.results.imports import load
from latlab.errors import InputError
from latlab.model.shown import Reader, Shown, Table
from latlab.stats.variance import midmean
from latlab.words import plural

__all__ = ["RESULTS"]


def _recognises(path: Path, head: bytes) -> bool:
    if head.startswith((raw.FIRST_LINE.encode(), raw.FIRST_LINE_1.encode())):
        return True
    if not head.lstrip().startswith(b"{"):
        return False
    try:
        load(path)
    except InputError:
        return False
    return True


def _show(path: Path) -> Shown:
    results = load(path)
    benchmarks = {
        name: {
            "processes": len(groups),
            "values": int(sum(len(group) for group in groups)),
            "typical_ns": float(np.median([midmean(group) for group in groups])),
        }
        for name, groups in results.tests.items()
        if groups
    }
    document = {
        "tool": results.tool,
        "benchmarks": benchmarks,
        "environment": dict(results.environment),
    }
    rows = [(name, *one.values()) for name, one in benchmarks.items()]
    columns = ("benchmark", "processes", "values", "typical ns")
    what = f"results of {plural(len(benchmarks), 'benchmark')} ({results.tool})"
    return Shown(f"{what}; latlab bench compare judges them", document, [Table("", columns, rows)])


RESULTS = Reader("results of benchmarks (raw CSV, or JSON of other tools)", _recognises, _show)

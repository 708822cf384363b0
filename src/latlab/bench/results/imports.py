"""Results of other tools, read to be judged again: pyperf, Google Benchmark, hyperfine, pytest-benchmark."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from latlab.bench.results import baseline
from latlab.bench.results import raw as _raw
from latlab.bench.results.api import read_any
from latlab.errors import InputError
from latlab.formats.recording import is_recording
from latlab.formats.trusted import MOST_TEXT_BYTES, read_file
from latlab.stats.variance import midmean

__all__ = ["Results", "load"]

Floats = npt.NDArray[np.float64]
Tests = dict[str, list[Floats]]
_REMEDY = "give a recording, raw CSV, or JSON of pyperf, Google Benchmark, hyperfine, pytest-benchmark"
_SCALE_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


@dataclass(frozen=True)
class Results:
    """What a file holds.

    Attributes:
        tool: that wrote it.
        tests: for each benchmark, the times of each process in nanoseconds, in the order measured.
        environment: what the file says of the machine, by name.
        asked: the smallest effect and the level, where the file names them.
        runs: by benchmark the typical time of each run, where the file holds several.
    """

    tool: str
    tests: Tests
    environment: Mapping[str, str] = field(default_factory=dict)
    asked: Mapping[str, Any] = field(default_factory=dict)
    runs: Mapping[str, list[float]] = field(default_factory=dict)


def load(path: Path) -> Results:
    """Read a recording, raw results, or another tool's JSON; which of them it is shows in the file.

    Raises:
        InputError: it is none of them, damaged, or without the single measurements.
    """
    if is_recording(path) or _raw.sniff(path):
        raw = read_any(path)
        facts = raw.meta.get("environment", {}).get("facts", {})
        environment = {k: str(v["value"]) for k, v in facts.items() if isinstance(v, dict) and "value" in v}
        tests = {t: [r.sample.times_ns for r in raw.rows if r.test == t] for t in raw.tests()}
        return Results("latlab", _checked(path, tests), environment, raw.meta.get("asked", {}))
    if path.is_dir():
        raise InputError(path, "is not a recording", remedy=_REMEDY)
    try:
        document = json.loads(read_file(path, MOST_TEXT_BYTES).decode("utf-8"))
    except OSError as error:
        raise InputError(path, f"can't be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(path, "is neither JSON nor raw results", remedy=_REMEDY) from None
    except RecursionError:
        raise InputError(path, "is nested too deeply for a result") from None
    except ValueError as error:
        place = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else None
        raise InputError(path, "is truncated or not JSON", place=place, remedy=_REMEDY) from None
    if not isinstance(document, dict):
        raise InputError(path, "is not a result of a benchmark", remedy=_REMEDY)
    if baseline.is_baseline(document):
        return _baseline(path)
    try:
        for recognise, read in _READERS:
            if recognise(document):
                found = read(document)
                return Results(found.tool, _checked(path, found.tests), found.environment)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise InputError(path, f"is damaged ({type(error).__name__}: {error})") from None
    raise InputError(path, "is not a benchmark result that latlab can read", remedy=_REMEDY)


def _baseline(path: Path) -> Results:
    runs = baseline.read(path)
    tests: Tests = {}
    levels: dict[str, list[float]] = {}
    for run in runs:
        for name, groups in run.tests.items():
            tests.setdefault(name, []).extend(groups)
            levels.setdefault(name, []).append(float(np.median([midmean(g) for g in groups])))
    return Results("baseline", _checked(path, tests), runs[-1].environment, runs=levels)


def _pyperf(document: Mapping[str, Any]) -> Results:
    tests: Tests = {}
    common = document.get("metadata", {})
    environment: dict[str, str] = {}
    for bench in document["benchmarks"]:
        meta = {**common, **bench.get("metadata", {})}
        runs = [np.array(run["values"], dtype=np.float64) * 1e9 for run in bench["runs"] if run.get("values")]
        tests[str(meta.get("name", "benchmark"))] = runs
        for run in bench["runs"][:1]:
            meta = {**meta, **run.get("metadata", {})}
        keys = ("hostname", "cpu_model_name", "python_version", "platform", "cpu_count")
        environment |= {k: str(meta[k]) for k in keys if k in meta}
    return Results("pyperf", tests, environment)


def _google(document: Mapping[str, Any]) -> Results:
    values: dict[str, list[float]] = {}
    for row in document["benchmarks"]:
        if row.get("run_type", "iteration") != "iteration" or row.get("error_occurred"):
            continue
        name = str(row.get("run_name", row["name"]))
        values.setdefault(name, []).append(float(row["real_time"]) * _SCALE_NS[row.get("time_unit", "ns")])
    keys = ("host_name", "num_cpus", "mhz_per_cpu", "library_build_type", "cpu_scaling_enabled")
    environment = {k: str(document["context"][k]) for k in keys if k in document["context"]}
    return Results("Google Benchmark", {k: [np.array(v)] for k, v in values.items()}, environment)


def _hyperfine(document: Mapping[str, Any]) -> Results:
    # Every time is a process of its own.
    tests: Tests = {}
    for row in document["results"]:
        name = command = str(row["command"])
        again = 2
        while name in tests:  # the same command twice, as one compares a machine with itself
            name, again = f"{command} ({again})", again + 1
        tests[name] = [np.array([float(t) * 1e9]) for t in row["times"]]
    return Results("hyperfine", tests)


def _pytest(document: Mapping[str, Any]) -> Results:
    tests: Tests = {}
    for bench in document["benchmarks"]:
        data = bench["stats"].get("data")
        if not data:
            raise ValueError("no single measurements; save with --benchmark-save-data or --benchmark-json")
        tests[str(bench.get("fullname") or bench["name"])] = [np.array(data, dtype=np.float64) * 1e9]
    machine = document["machine_info"]
    environment = {k: str(machine[k]) for k in ("node", "python_version", "release") if k in machine}
    if isinstance(machine.get("cpu"), dict) and "brand_raw" in machine["cpu"]:
        environment["cpu"] = str(machine["cpu"]["brand_raw"])
    return Results("pytest-benchmark", tests, environment)


def _first(document: Mapping[str, Any]) -> Mapping[str, Any]:
    rows = document.get("benchmarks")
    return rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], dict) else {}


_READERS: list[tuple[Callable[[Mapping[str, Any]], bool], Callable[[Mapping[str, Any]], Results]]] = [
    (lambda d: "runs" in _first(d), _pyperf),
    (lambda d: "machine_info" in d and "stats" in _first(d), _pytest),
    (lambda d: isinstance(d.get("context"), dict) and "real_time" in _first(d), _google),
    (
        lambda d: isinstance(d.get("results"), list) and bool(d["results"]) and "times" in d["results"][0],
        _hyperfine,
    ),
]


def _checked(path: Path, tests: Tests) -> Tests:
    if not tests or not any(tests.values()):
        raise InputError(path, "holds no finished measurement")
    for name, groups in tests.items():
        for group in groups:
            if len(group) == 0 or not np.isfinite(group).all() or float(group.min()) <= 0:
                bad = next((float(x) for x in group if not math.isfinite(x) or x <= 0), None)
                raise InputError(path, f"holds {bad} as a time", place=name)
    return tests

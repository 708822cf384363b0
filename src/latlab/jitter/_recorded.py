"""Runs as recordings: writing, reading, merging and comparing them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from latlab.errors import InputError, UsageError
from latlab.formats.recording import Recording, RecordingWriter, open_recording
from latlab.model.machine.environment import differences
from latlab.model.machine.jitter import CoreJitter, JitterResult, JitterWarning, Period, Source, WarningKind

__all__ = ["Comparison", "FigureChange", "compare_runs", "merge_runs", "record_run"]

_SCALARS = (
    "cpu", "deltas", "wall_ticks", "pure_ticks", "bridge_ticks", "gap_ticks", "paused_ticks",
    "threshold_ticks",
    "counter_hz", "quantum_ticks", "start_ns", "outliers", "max_ticks", "migrations", "host",
)  # fmt: skip
_SEGMENTS = 20
_MARGIN = 1.10  # a change below 10 % is none that anybody acts on


def record_run(writer: RecordingWriter, result: JitterResult) -> None:
    """Write a result: the counts and gaps of each core as series, the rest as documents."""
    for index, core in enumerate(result.cores):
        count = len(core.values_ticks)
        writer.append(
            "counts",
            {
                "core": np.full(count, index, np.int32),
                "delta_ticks": core.values_ticks.astype(np.int64),
                "count": core.counts.astype(np.int64),
            },
        )
        writer.append(
            "gaps",
            {
                "core": np.full(len(core.gap_start_ns), index, np.int32),
                "start_ns": core.gap_start_ns.astype(np.float64),
                "length_ns": core.gap_each_ns.astype(np.float64),
                "preempted": core.preempted.astype(np.uint8),
            },
        )
    writer.put(
        "cores",
        {"schema": 1, "cores": [{key: getattr(core, key) for key in _SCALARS} for core in result.cores]},
    )
    writer.put("result", result.to_json())


def _read(recording: Recording, path: str | os.PathLike[str]) -> JitterResult:
    if recording.kind != "jitter":
        raise InputError(
            path, f"this is a recording of {recording.kind}", remedy="give one that `latlab jitter` made"
        )
    if "cores" not in recording.documents() or "result" not in recording.documents():
        raise InputError(path, "the run was cut short before its result was written", remedy="measure again")
    result = recording.document("result")
    try:
        scalars = [{key: one[key] for key in _SCALARS} for one in recording.document("cores")["cores"]]
        counts, gaps = _columns(recording, "counts"), _columns(recording, "gaps")
        cores = [_core(one, index, counts, gaps) for index, one in enumerate(scalars)]
        return JitterResult(
            tuple(cores),
            tuple(Source(**one) for one in (*result["sources"], *result.get("counted", []))),
            tuple(Period(**one) for one in result["periods"]),
            _warnings(result),
            result["attributed"],
            result["layers_ns"],
            result.get("task"),
            result.get("joined"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(path, f"its result has no {error}", remedy="measure again") from None


def _warnings(result: Mapping[str, Any]) -> tuple[JitterWarning, ...]:
    kinds = result.get("warning_kinds", [WarningKind.UNKNOWN] * len(result["warnings"]))
    return tuple(
        JitterWarning(WarningKind(kind), text) for kind, text in zip(kinds, result["warnings"], strict=True)
    )


def _columns(recording: Recording, name: str) -> dict[str, np.ndarray[Any, Any]]:
    table = recording.series(name)
    return dict(table)


def _core(
    one: Mapping[str, Any], index: int, counts: Mapping[str, Any], gaps: Mapping[str, Any]
) -> CoreJitter:
    own, gap = counts["core"] == index, gaps["core"] == index
    return CoreJitter(
        **one,
        values_ticks=counts["delta_ticks"][own],
        counts=counts["count"][own],
        gap_start_ns=gaps["start_ns"][gap],
        gap_each_ns=gaps["length_ns"][gap],
        preempted=gaps["preempted"][gap],
    )


def merge_runs(paths: Sequence[str | os.PathLike[str]]) -> JitterResult:
    """Several runs as one, without loss: every core keeps its counts, its gaps and its own counter's rate."""
    cores: list[CoreJitter] = []
    sources: list[Source] = []
    periods: list[Period] = []
    warnings: list[JitterWarning] = []
    layers: dict[str, float] = {}
    known = joined = whole = 0.0
    for path in paths:
        recording = open_recording(path)
        run = _read(recording, path)
        host = str(recording.environment.get("host.name", os.fspath(path)))
        cores += [replace(core, host=core.host or host) for core in run.cores]
        sources += run.sources
        periods += run.periods
        warnings += [replace(one, text=f"{host}: {one.text}") for one in run.warnings]
        for layer, ns in run.layers_ns.items():
            layers[layer] = layers.get(layer, 0.0) + ns
        if run.attributed is not None:
            gap = sum(core.ns(core.gap_ticks) for core in run.cores)
            known, whole = known + gap * run.attributed, whole + gap
            joined += gap * (run.attributed if run.joined is None else run.joined)
    sources.sort(key=lambda one: -(one.total_ns or 0.0))
    return JitterResult(
        tuple(cores),
        tuple(sources),
        tuple(periods),
        tuple(warnings),
        known / whole if whole else None,
        layers,
        joined=joined / whole if whole else None,
    )


@dataclass(frozen=True)
class FigureChange:
    """One figure in both runs.

    Attributes:
        ratio: the second over the first.
        low, high: its 95 % interval.
        verdict: ``worse``, ``better`` or ``no change``.
    """

    name: str
    before: float
    after: float
    ratio: float
    low: float
    high: float
    verdict: str


@dataclass(frozen=True)
class Comparison:
    """What changed between two runs.

    Attributes:
        unlike: what differs between the two environments.
    """

    changes: tuple[FigureChange, ...]
    unlike: tuple[str, ...]

    @property
    def regressed(self) -> bool:
        """Whether any figure became worse."""
        return any(change.verdict == "worse" for change in self.changes)

    def to_json(self) -> dict[str, Any]:
        """The document that ``latlab jitter compare --json`` prints."""
        changes = [{key: getattr(one, key) for key in one.__dataclass_fields__} for one in self.changes]
        return {"schema": 1, "changes": changes, "unlike": list(self.unlike), "regressed": self.regressed}


def compare_runs(
    before: str | os.PathLike[str], after: str | os.PathLike[str], *, seed: int = 1
) -> Comparison:
    """Compare two recorded runs: gap rate, gap time and longest gaps, with bootstrap intervals.

    Each core's kept time is cut into segments; whole segments are resampled, since gaps come in bursts and
    single ones
    are no independent samples (block bootstrap; Künsch 1989). A figure is worse if the interval of its ratio
    lies over 1 and the ratio over 1.1.
    """
    first, second = open_recording(before), open_recording(after)
    a, b = _segments(_read(first, before)), _segments(_read(second, after))
    if not len(a) or not len(b):
        raise UsageError("a run without time can't be compared")
    random = np.random.default_rng(seed)
    picks = [x[random.integers(0, len(x), (2000, len(x)))] for x in (a, b)]
    changes = []
    for index, name in enumerate(
        ("gaps per second", "gap time, µs per second", "longest gap of a segment, µs")
    ):
        low_b, low_a = b[:, index].mean(), a[:, index].mean()
        means = [pick[:, :, index].mean(axis=1) for pick in picks]
        # Half a gap a run keeps the ratio finite where one of them saw none.
        least = 0.5 * max(a[:, index].max(), b[:, index].max(), 1e-9) / max(len(a), len(b))
        ratios = (means[1] + least) / (means[0] + least)
        ratio = float((low_b + least) / (low_a + least))
        low, high = (float(x) for x in np.quantile(ratios, [0.025, 0.975]))
        verdict = (
            "worse"
            if low > 1 and ratio > _MARGIN
            else "better"
            if high < 1 and ratio < 1 / _MARGIN
            else "no change"
        )
        changes.append(FigureChange(name, float(low_a), float(low_b), ratio, low, high, verdict))
    unlike = tuple(str(one) for one in differences(first.environment, second.environment))
    return Comparison(tuple(changes), unlike)


def _segments(run: JitterResult) -> np.ndarray[Any, Any]:
    """(segments, 3): gaps a second, gap µs a second, longest gap in µs.

    Of each core's time that the ring covers.
    """
    rows = []
    for core in run.cores:
        start, wall = float(core.start_ns), core.ns(core.wall_ticks)
        if core.outliers > len(core.gap_start_ns) > 0:  # the ring wrapped: only its span is known whole
            wall -= float(core.gap_start_ns[0]) - start
            start = float(core.gap_start_ns[0])
        length = wall / _SEGMENTS
        at = np.clip(((core.gap_start_ns - start) / length).astype(int), 0, _SEGMENTS - 1)
        count = np.bincount(at, minlength=_SEGMENTS) / (length / 1e9)
        time = np.bincount(at, weights=core.gap_each_ns, minlength=_SEGMENTS) / 1e3 / (length / 1e9)
        longest = np.zeros(_SEGMENTS)
        np.maximum.at(longest, at, core.gap_each_ns / 1e3)
        rows.append(np.stack([count, time, longest], axis=1))
    return np.concatenate(rows) if rows else np.zeros((0, 3))

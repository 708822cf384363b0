"""The forecast's fix, applied: the pipeline runs with the stage really so much faster, and what is measured
is held against what was forecast before.

The two agree where their intervals overlap. Those of fewer than four runs are ranges: with two runs on each
side they are disjoint by chance in a third of the cases, with four on each side in 3 of 100.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

import numpy as np

from latlab.errors import LatlabError
from latlab.formats.recording import RecordingWriter
from latlab.lab.forecast.intervals import mean_interval, quantile_interval
from latlab.lab.forecast.stage_runs import FEWEST, Fast, Paced, Stubbing, run_fast, run_paced, undisturbed
from latlab.lab.trading.layout import slowed
from latlab.model.diagnosis.answer import Applied, AppliedRow, Forecast, Interval
from latlab.model.diagnosis.layout import STAGES, Layout
from latlab.model.evidence.forecast import AppliedSaid
from latlab.model.evidence.said import said
from latlab.stats.quantiles import nearest_rank, quantile_name
from latlab.words import share

__all__ = ["applied"]

_MOST = 8  # runs at the input's own pace


def applied(
    stubbing: Stubbing,
    stage: str,
    made: Forecast,
    speedup: float,
    deadline: float,
    writer: RecordingWriter,
    tell: Callable[[str], None],
) -> Applied:
    """Run the pipeline with the stage faster, and hold it against the forecast.

    Args:
        made: with a point at this speed-up.
        deadline: on the clock of time.monotonic; four runs of each kind are made in any case.

    Raises:
        LatlabError: the forecast has no such point; the pipeline could not be run.
    """
    point = next((one for one in made.points if one.speedup == speedup), None)
    if point is None:
        raise LatlabError(f"the forecast has no point at {share(speedup, digits=0)}")
    if made.seconds is not None:  # the same input: other bursts make another tail
        stubbing = dataclasses.replace(stubbing, seconds=made.seconds)
    layout = _faster(stubbing.layout, stage, speedup)
    tell(f"applying the fix: {stage} {share(speedup, digits=0)} faster")
    paced: list[Paced] = []
    fast: list[Fast] = []
    longest = 0.0
    while len(paced) < FEWEST or (len(paced) < _MOST and time.monotonic() + longest < deadline):
        begin = time.monotonic()
        paced.append(run_paced(stubbing, layout, stage))
        fast.append(run_fast(stubbing, layout, stage))
        longest = max(longest, time.monotonic() - begin)
        row = {"rate_hz": paced[-1].rate_hz, "capacity_hz": fast[-1].rate_hz}
        row |= {
            f"{quantile_name(q)}_ns": float(nearest_rank(paced[-1].latency, q)) for q in (0.5, 0.99, 0.999)
        }
        writer.append("applied", {name: np.array([value]) for name, value in row.items()})
    kept, kept_fast = undisturbed({speedup: paced}, {speedup: fast})
    runs, rates = kept[speedup], [one.rate_hz for one in kept_fast[speedup]]
    found = [
        ("p50", made.baseline.p50_ns, point.p50_ns, quantile_interval(runs, 0.5)),
        ("p99", made.baseline.p99_ns, point.p99_ns, quantile_interval(runs, 0.99)),
        ("p99.9", made.baseline.p99_9_ns, point.p99_9_ns, quantile_interval(runs, 0.999)),
        ("max events/s", made.baseline.capacity_hz, point.capacity_hz, mean_interval(rates)),
    ]
    rows = tuple(
        AppliedRow(what, before, forecast, measured, _overlap(forecast, measured))
        for what, before, forecast, measured in found
        if forecast is not None and measured is not None
    )
    return Applied(stage, speedup, len(runs), rows, _sentence(stage, speedup, rows))


def _faster(layout: Layout, stage: str, speedup: float) -> Layout:
    """The layout with so much less service time in the stage, in each instance that has some."""
    kind = stage if stage in STAGES else next(one for one in STAGES if stage in layout.instances(one))
    values = layout.stages[kind]
    own = dict(values.slow)
    if stage != kind:
        return slowed(layout, stage, round((1 - speedup) * own.get(stage, values.service_ns)))
    layout = slowed(layout, kind, round((1 - speedup) * values.service_ns))
    for name, ns in own.items():
        layout = slowed(layout, name, round((1 - speedup) * ns))
    return layout


def _overlap(one: Interval, other: Interval) -> bool:
    low = max(one.value if one.low is None else one.low, other.value if other.low is None else other.low)
    high = min(one.value if one.high is None else one.high, other.value if other.high is None else other.high)
    return low <= high


def _sentence(stage: str, speedup: float, rows: tuple[AppliedRow, ...]) -> str:
    tail = "".join(
        said(AppliedSaid.TAIL, measured_ns=row.measured.bounds, forecast_ns=row.forecast.bounds)
        for row in rows
        if row.what == "p99.9"
    )
    off = [row.what for row in rows if not row.agrees]
    if not off:
        return said(AppliedSaid.AGREES, stage=stage, speedup=speedup, tail=tail, quantities=len(rows))
    return said(AppliedSaid.WRONG, stage=stage, speedup=speedup, tail=tail, off=off)

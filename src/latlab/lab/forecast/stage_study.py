"""`latlab stubs study` for a stage of the trading pipeline: throughput and tail latency of a faster stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from latlab.formats.recording import RecordingWriter
from latlab.lab.forecast.by_stage_stub import forecast
from latlab.lab.forecast.stage_runs import Stubbing
from latlab.lab.trading.demo import DemoOptions, feeds_for
from latlab.lab.trading.layout import load_layout, slowed_by
from latlab.model.diagnosis.answer import Forecast, ForecastPoint, Interval
from latlab.model.diagnosis.layout import Layout
from latlab.model.evidence.forecast import ForecastWarning
from latlab.model.evidence.said import said
from latlab.system.environment import capture
from latlab.system.scratch import scratch

__all__ = ["as_json", "study_stage"]

_RUN_S = 1.5


def study_stage(
    stage: str,
    *,
    layout: str,
    slow: Sequence[str],
    seconds: float,
    seed: int,
    output: Path | None,
    tell: Callable[[str], None],
) -> Forecast:
    """Forecast what a faster stage buys.

    Args:
        stage: a type of stage, or one instance.
        layout: file of the pipeline; "": as it comes.
        slow: service time that is planted, as "book=30000".
        seconds: for the whole study; two rounds are made in any case.
        seed: of the generated input, and of the order of the runs.
        output: folder of the recording; None: it is not kept.
        tell: takes a line on what is being done.

    Raises:
        InputError: the layout can't be read.
        LatlabError: the pipeline can't be run, or nothing of the stage can be stubbed.
        UsageError: there is no such stage.
    """
    planted = slowed_by(load_layout(layout) if layout else Layout(), slow)
    deadline = time.monotonic() + seconds
    environment = capture()
    with ExitStack() as stack:
        unkept = stack.enter_context(scratch("stage"))
        options = DemoOptions(layout=planted, seconds=_RUN_S, output=unkept / "unused", seed=seed)
        feeds = feeds_for(options, unkept, tell)
        parameters: dict[str, Any] = {"stage": stage, "layout": layout, "slow": list(slow)}
        folder = output if output is not None else unkept / "study"
        writer = stack.enter_context(
            RecordingWriter(folder, "stubs-study", parameters=parameters, environment=environment, seed=seed)
        )
        stubbing = Stubbing(planted, feeds, _RUN_S, environment, seed)
        found = forecast(stubbing, stage, deadline, writer, tell, over=True)
        writer.put("study", as_json(found))
    return found


def as_json(found: Forecast) -> dict[str, Any]:
    """The same document as for other components; the system's time is that of an event at full load."""
    base = found.baseline.capacity_hz
    assert base is not None
    points = [point for point in found.points if point.capacity_hz is not None and point.speedup is not None]
    curve = [_point(point, base) for point in points]
    return {
        "schema": 1, "class": found.kind, "component": found.stage, "t_cus_ns": found.service_ns,
        "t_sut_ns": 1e9 / base.value, "t_limit": found.knee.value if found.knee else None,
        "t_min_sut_ns": curve[-1]["value"], "curve": curve, "sentence": found.sentence,
        "takes_over": found.takes_over, "drift": found.drift.value if found.drift else None,
        "baseline": asdict(found.baseline), "rounds": found.rounds, "validated": False,
        "warnings": [*found.warnings, said(ForecastWarning.NOT_VALIDATED)],
    }  # fmt: skip


def _point(point: ForecastPoint, base: Interval) -> dict[str, Any]:
    rate = point.capacity_hz
    assert rate is not None
    bounds = [1 - base.value / bound for bound in (rate.low, rate.high) if bound is not None]
    gain = 1 - base.value / rate.value
    latencies = (("p50", point.p50_ns), ("p99", point.p99_ns), ("p99.9", point.p99_9_ns))
    return {
        "speedup": point.speedup,
        "gain": gain,
        "interval": sorted(bounds) if len(bounds) == 2 else [gain, gain],
        "value": 1e9 / rate.value,
        "runs": point.runs,
        "capacity_hz": rate.value,
        **{f"{name}_ns": None if one is None else asdict(one) for name, one in latencies},
    }

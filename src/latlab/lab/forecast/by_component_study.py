"""What making a stage of one's own application faster would buy, measured: its component is stubbed by
`latlab.stubs.study`, and the whole command is run again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from latlab import stubs
from latlab.lab.forecast.what_limits import with_limits
from latlab.model.diagnosis.answer import Forecast, ForecastPoint, Interval
from latlab.model.stubs import StudyResult

__all__ = ["studied"]


def studied(
    command: Sequence[str],
    stage: str,
    component: str,
    output: Path,
    *,
    seconds: float,
    seed: int,
    tell: Callable[[str], None],
) -> Forecast:
    """Study a component of a command.

    Args:
        stage: that the component does the work of.
        component: as `latlab stubs` names it: ``module:function``.
        output: the folder of the study's own recording.
        seconds: for all of it.

    Raises:
        LatlabError: the component is never called, or can't be recorded and replayed.
    """
    plan = stubs.StudyPlan(component=component, seconds=seconds, seed=seed)
    return _forecast(stubs.study(plan, command, output=output, progress=tell), stage)


def _forecast(found: StudyResult, stage: str) -> Forecast:
    knee = None
    if found.t_limit is not None:
        knee = Interval(found.t_limit, *(found.t_limit_interval or (None, None)))
    whole = Interval(found.t_sut_ns)
    points = tuple(
        ForecastPoint(
            speedup=point.speedup,
            achieved=point.speedup,
            runs=point.runs,
            time_ns=Interval(
                found.t_sut_ns * (1 - point.gain),
                found.t_sut_ns * (1 - point.interval[1]),
                found.t_sut_ns * (1 - point.interval[0]),
            ),
        )
        for point in found.curve
        if point.speedup > 0
    )
    calls = max(found.calls, 1)
    told = Forecast(
        method="stub",
        stage=stage,
        kind=found.component_class,
        service_ns=found.t_cus_ns / calls,
        flat_ns=None,
        baseline=ForecastPoint(speedup=None, achieved=None, runs=found.rounds, time_ns=whole),
        points=points,
        knee=knee,
        takes_over=found.takes_over,
        drift=Interval(found.drift, *found.drift_interval),
        rounds=found.rounds,
        sentence=found.sentence,
        warnings=found.warnings,
    )
    return with_limits(told)

"""The runs of a forecast: of the pipeline as it is or with a stub, at its input's pace or as fast as it takes
it; and which of them say more on others than on the pipeline.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from latlab.errors import LatlabError
from latlab.lab.trading.layout import slowed
from latlab.lab.trading.run import PipelineRun, run_pipeline
from latlab.model.diagnosis.layout import STAGES, Layout
from latlab.model.evidence.forecast import ForecastWarning
from latlab.model.evidence.said import said
from latlab.model.machine.environment import Environment
from latlab.model.queues.analysis import Analysis
from latlab.stats.quantiles import median, nearest_rank
from latlab.system.scratch import scratch

__all__ = [
    "CAPACITY_S",
    "FEWEST",
    "CannotStubError",
    "Fast",
    "Paced",
    "Stubbing",
    "count",
    "left_out",
    "measure_unmodified",
    "run_fast",
    "run_paced",
    "stubbed",
    "tails",
    "undisturbed",
]

# Of a run with the input as fast as it is taken. Runs differ by 5 to 8 %, of 0.6 s as of 1.2 s: what differs
# is how the threads settle, so that more runs tell more than longer ones; of 0.4 s they differ twice as much.
CAPACITY_S = 0.6
FEWEST = 4  # runs of a point that carry an interval of Student's; so many stay in any case
_TAKEN = 0.02  # of the machine, by others during a run, above what they take in quiet runs of the series


class CannotStubError(LatlabError):
    """The stage has nothing that could be stubbed; the text says what is known."""


@dataclass(frozen=True, slots=True)
class Stubbing:
    """What every run of a forecast shares.

    Attributes:
        layout: unmodified.
        feeds: the same for every run.
        seconds: of a run at the input's own pace.
        seed: of the order of the runs.
    """

    layout: Layout
    feeds: Sequence[Path]
    seconds: float
    environment: Environment
    seed: int


@dataclass(frozen=True, slots=True)
class Paced:
    """What one run at the input's own pace gave.

    Attributes:
        speed: logarithms of how long work in a core and a read from the cache took around it; empty: unknown.
    """

    rate_hz: float
    service_ns: float
    latency: NDArray[np.int64]
    limits: str
    taken: float = 0.0
    speed: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Fast:
    """What one run with the input as fast as the pipeline takes it gave."""

    rate_hz: float
    limits: str
    taken: float = 0.0
    speed: tuple[float, ...] = ()


_Run = TypeVar("_Run", Paced, Fast)


def stubbed(layout: Layout, stage: str, ns: int) -> Layout:
    """The layout with so much added service in the stage, in place of what it adds now."""
    if stage in layout.stages:
        plain = dataclasses.replace(layout.stages[stage], slow=())
        layout = dataclasses.replace(layout, stages={**layout.stages, stage: plain})
    return slowed(layout, stage, ns)


def _run(stubbing: Stubbing, layout: Layout, seconds: float) -> PipelineRun:
    with scratch("forecast") as folder:
        return run_pipeline(
            layout,
            stubbing.feeds,
            Path(folder) / "run",
            seconds=seconds,
            environment=stubbing.environment,
        )


def run_paced(stubbing: Stubbing, layout: Layout, stage: str) -> Paced:
    """Run a layout at the input's own pace.

    Args:
        stage: whose rate and service are meant.
    """
    run = _run(stubbing, layout, stubbing.seconds)
    return Paced(
        rate_hz=_rate(run.watched.diagnosis, stage),
        service_ns=_service(run, layout, stage),
        latency=run.watched.residence.end_to_end,
        limits=_limits(run.watched.diagnosis),
        taken=run.taken,
    )


def run_fast(stubbing: Stubbing, layout: Layout, stage: str) -> Fast:
    """Run a layout as fast as it takes the input.

    Args:
        stage: whose rate is meant.
    """
    replay = dataclasses.replace(layout.replay, mode="fast", on_full="wait")
    run = _run(stubbing, dataclasses.replace(layout, replay=replay), CAPACITY_S)
    return Fast(_rate(run.watched.diagnosis, stage), _limits(run.watched.diagnosis), run.taken)


def _rate(diagnosis: Analysis, stage: str) -> float:
    return sum(view.rate_hz for view in diagnosis.of_run.stages if stage in (view.type, view.name))


def _service(run: PipelineRun, layout: Layout, stage: str) -> float:
    """The median service of the stage's traced events, of all of its instances."""
    names = layout.instances(stage) if stage in STAGES else [stage]
    times = [run.watched.residence.service[name] for name in names if name in run.watched.residence.service]
    if not times:
        raise CannotStubError(f"no traced event came through {stage}: set trace.every to a smaller number")
    return float(median(np.concatenate(times)))


def _limits(diagnosis: Analysis) -> str:
    return diagnosis.limiting_stage or diagnosis.verdict


def tails(runs: Sequence[Paced]) -> list[float]:
    """p99.9 of each run in ns, where an event was traced."""
    return [float(nearest_rank(run.latency, 0.999)) for run in runs if run.latency.size]


def measure_unmodified(
    stubbing: Stubbing, stage: str, paced: int, fast: int
) -> tuple[list[Paced], list[Fast]]:
    """Run the pipeline as it is, as a forecast's runs with the flat stub do.

    Args:
        stage: whose rate is meant.
        paced: runs at the input's own pace.
        fast: runs that show what the pipeline carries.
    """
    return (
        [run_paced(stubbing, stubbing.layout, stage) for _ in range(paced)],
        [run_fast(stubbing, stubbing.layout, stage) for _ in range(fast)],
    )


def undisturbed(
    paced: Mapping[float | None, Sequence[Paced]], capacity: Mapping[float | None, Sequence[Fast]]
) -> tuple[dict[float | None, list[Paced]], dict[float | None, list[Fast]]]:
    """Without the runs that say more on others than on the pipeline.

    On a shared host a neighbour takes CPUs for seconds or minutes at a time, and the tail of a relieved
    pipeline is then the neighbour's. What others take in quiet runs (the lower quartile) is the machine as it
    is and stays in; of each point the four least disturbed stay in any case.
    """
    shares = [run.taken for runs in paced.values() for run in runs]
    shares += [run.taken for runs in capacity.values() for run in runs]
    most = _TAKEN + (float(np.quantile(shares, 0.25)) if shares else 0.0)
    return (
        {key: _quietest(runs, most) for key, runs in paced.items()},
        {key: _quietest(runs, most) for key, runs in capacity.items()},
    )


def _quietest(runs: Sequence[_Run], most: float) -> list[_Run]:
    """Those during which others took no more than that, or the four least disturbed, in their order."""
    if len(runs) > FEWEST:
        most = max(most, sorted(run.taken for run in runs)[FEWEST - 1])
        return [run for run in runs if run.taken <= most]
    return list(runs)


def count(runs: Mapping[float | None, Sequence[_Run]]) -> int:
    """Of all points."""
    return sum(len(of_point) for of_point in runs.values())


def left_out(made: int, used: int) -> str:
    """The warning on runs that do not count."""
    return said(ForecastWarning.LEFT_OUT, left=made - used, made=made, taken=_TAKEN)

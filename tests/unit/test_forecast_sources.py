"""What a model forecasts of sources: those that tell how fast they are limit, others make it conditional."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.test_forecast_by_model import with_own_times

from latlab.errors import NotTrustworthyError
from latlab.lab.forecast.by_queue_model import _require_null, modelled
from latlab.lab.judge.verdict import sentence_of_line
from latlab.model.queues.analysis import DoubtKind, LineResult
from latlab.model.queues.observation import Observation, Stage
from latlab.queues import analyse, fit_model, forecast
from latlab.reports.queues.doubts import doubt_in_words

pytest.importorskip("ciw", reason="needs the extra 'simulate'")


def with_source(pace_ns: int) -> Observation:
    """The line, whose source says that it works for so long on an event, and else waits for room."""
    seen = with_own_times()
    at = seen.sweeps["t_ns"]
    put = seen.samples["in"][seen.samples["queue"] == 0].astype(np.int64)
    times = {name: np.asarray(values) for name, values in seen.stage_times.items()}
    rows = {
        "t_ns": at,
        "stage": np.full(len(at), 3),
        "busy_ns": put * pace_ns,
        "events": np.zeros(len(at), np.uint64),
        "transitions": put.astype(np.uint64),
        "blocked_ns": np.zeros(len(at), np.int64),
    }
    joined = {name: np.concatenate([values, rows[name]]) for name, values in times.items()}
    source = seen.queues[0].source
    return replace(seen, stages=(*seen.stages, Stage(3, "", source)), stage_times=joined)


@pytest.mark.long
def test_a_source_that_tells_its_waits_is_what_takes_over() -> None:
    observation = with_source(30_000)
    (source,) = fit_model(observation).sources
    assert source.most_hz == pytest.approx(1e9 / 30_000, rel=0.05)
    found = modelled(observation, "stage-1", seed=1, events=400)
    assert found.takes_over == observation.queues[0].source
    best = found.points[-1].rate_hz
    assert best is not None
    assert best.value == pytest.approx(1e9 / 30_000, rel=0.08)
    assert "which was not seen" not in found.sentence


def test_a_stage_whose_source_is_as_slow_is_not_named() -> None:
    free = with_source(30_000)
    named = analyse(free).limiting_stage
    assert named == "stage-1"
    at, put = free.sweeps["t_ns"], free.samples["in"][free.samples["queue"] == 0]
    half = len(at) // 2  # the queue is full by then: what is put on is what is taken
    gap_ns = float(at[-1] - at[half]) / float(put[-1] - put[half])
    slow = with_source(int(0.99 * gap_ns))
    found = analyse(slow)
    assert found.limiting_stage is None
    (doubt,) = found.doubts
    assert (doubt.kind, doubt.where) == (DoubtKind.SOURCE_AS_SLOW, "stage-1")
    assert "about equally slow" in doubt_in_words(doubt)
    line = LineResult((), ("stage-1",), None, found.verdict, 0.0, (), found.doubts)
    assert sentence_of_line(line, found).startswith("Cannot tell what limits: stage-1 and source are about")


def told_late(seen: Observation) -> Observation:
    """The same where the source's first wait for room, with which it begins to tell, came late."""
    at = seen.sweeps["t_ns"]
    times = {name: np.asarray(values) for name, values in seen.stage_times.items()}
    mine = times["stage"] == 3
    late = mine & (times["t_ns"] >= at[len(at) // 5])
    first = int(np.flatnonzero(late)[0])
    kept = {name: values[~mine | late] for name, values in times.items()}
    kept["busy_ns"] = np.where(
        kept["stage"] == 3, kept["busy_ns"] - int(times["busy_ns"][first]), kept["busy_ns"]
    )
    stages = tuple(replace(stage, tid=77) if stage.number == 3 else stage for stage in seen.stages)
    ends = np.array([at[0], at[-1]])
    threads = {name: np.zeros(2, np.int64) for name in ("cpu_ns", "wait_ns", "voluntary", "involuntary")}
    threads |= {"t_ns": ends, "tid": np.full(2, 77), "pid": np.full(2, 7)}
    return replace(seen, stages=stages, stage_times=kept, threads=threads)


def test_a_source_that_first_waits_late_was_busy_until_then() -> None:
    # Until its first wait for room it never waited.
    seen = with_own_times()
    at, put = seen.sweeps["t_ns"], seen.samples["in"][seen.samples["queue"] == 0]
    half = len(at) // 2
    gap_ns = int(0.99 * float(at[-1] - at[half]) / float(put[-1] - put[half]))
    late = told_late(with_source(gap_ns))
    found = analyse(late)
    assert [doubt.kind for doubt in found.doubts] == [DoubtKind.SOURCE_AS_SLOW]
    (source,) = fit_model(late).sources
    assert source.most_hz == pytest.approx(1e9 / gap_ns, rel=0.05)


@pytest.mark.long
def test_a_source_that_tells_nothing_makes_the_forecast_conditional() -> None:
    observation = with_own_times()
    found = modelled(observation, "stage-1", seed=1, events=400)
    assert f"if `{observation.queues[0].source}` can give as much, which was not seen" in found.sentence
    best, base = found.points[-1].rate_hz, found.baseline.rate_hz
    assert best is not None
    assert base is not None
    assert best.low is not None
    assert best.low <= base.value < best.value


def test_a_model_that_does_not_give_what_was_seen_forecasts_nothing() -> None:
    observation = with_own_times()
    model = fit_model(observation)
    _require_null(observation, model, [forecast(model, events=1_000)])
    wrong = model.with_stage("stage-1", speed=1.5)
    with pytest.raises(NotTrustworthyError, match="the model as it is gives"):
        _require_null(observation, wrong, [forecast(wrong, events=1_000)])

"""A forecast by a queue model states what its data carry: a lower bound where a service is only bounded."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from latlab.errors import NotTrustworthyError
from latlab.lab.diagnosis.applications import program
from latlab.lab.diagnosis.question import Question
from latlab.lab.forecast import by_queue_model
from latlab.lab.forecast.by_queue_model import (
    _gains_behind,
    _require_limit,
    _sentence,
    modelled,
    require_seen,
)
from latlab.lab.forecast.what_limits import with_limits
from latlab.model.diagnosis.answer import ForecastPoint, Interval
from latlab.model.queues.observation import Observation, Stage
from latlab.model.queues.queueing import ModelForecast, ModelQueue, ModelSource, ModelStage, QueueingModel
from latlab.model.threads import Role
from latlab.queues import copies_of, forecast, service_bounds
from latlab.queues.model.in_step import moves_in_step
from latlab.queues.model.tandem import Line, observe, simulate
from latlab.reports.diagnosis.text import forecast_rows

pytest.importorskip("ciw", reason="needs the extra 'simulate'")

# The middle stage takes 40 µs, the others 20: made faster it pays until it takes as long as they, at 50 %.
LINE = Line(stages=3, slower=1.0, load=1.5, capacity=32, variation=0.3)


def by_counts(seed: int = 1) -> Observation:
    return observe(LINE, simulate(LINE, np.array([1]), 6_000, seed), 0, 100_000.0)


def with_own_times(seed: int = 1) -> Observation:
    """The same line, whose stages publish when they are at work."""
    seen = by_counts(seed)
    at = seen.sweeps["t_ns"]
    rows: dict[str, list[np.ndarray]] = {"t_ns": [], "stage": [], "busy_ns": [], "events": []}
    for stage, service in enumerate((20_000, 40_000, 20_000)):
        took = seen.samples["out_high"][seen.samples["queue"] == stage].astype(np.int64)
        rows["t_ns"].append(at)
        rows["stage"].append(np.full(len(at), stage))
        rows["busy_ns"].append(took * service)
        rows["events"].append(took.astype(np.uint64))
    times = {name: np.concatenate(parts) for name, parts in rows.items()}
    times |= {"transitions": times["events"], "blocked_ns": np.zeros_like(times["busy_ns"])}
    stages = tuple(Stage(i, "", f"stage-{i}") for i in range(3))
    return replace(seen, stages=stages, stage_times=times)


def test_an_event_that_goes_to_two_ends_is_one() -> None:
    stages = (ModelStage("split", 10_000), ModelStage("risk", 20_000), ModelStage("archive", 40_000))
    queues = (
        ModelQueue("in", "", "split", 16, 1.0),
        ModelQueue("a", "split", "risk", 16, 1.0),
        ModelQueue("b", "split", "archive", 16, 1.0),
    )
    model = QueueingModel((ModelSource("in", 20_000.0),), stages, queues)
    assert copies_of(model) == pytest.approx(2.0)
    half = tuple(replace(queue, share=0.5) if queue.name != "in" else queue for queue in queues)
    assert copies_of(replace(model, queues=half)) == 1.0


def test_a_last_stage_that_says_nothing_of_itself_may_be_as_slow_as_the_line() -> None:
    bounds = service_bounds(by_counts())
    # 40 µs an event is the line's pace, and nobody knows how long the last stage really works for it.
    assert bounds["stage-2"] == pytest.approx(40_000, rel=0.05)
    assert "stage-1" not in bounds


def test_stages_that_publish_their_times_are_known() -> None:
    assert service_bounds(with_own_times()) == {}


def test_what_the_counts_only_bound_gives_a_lower_bound_and_no_knee() -> None:
    found = modelled(by_counts(), "stage-1", seed=1, events=200)
    assert found.kind == "open"
    assert found.knee is None
    assert found.takes_over is None
    assert "at least" in found.sentence
    assert "`stage-2`" in found.sentence
    truth = {0.2: 1e9 / 32_000, 0.6: 1e9 / 20_000, 1.0: 1e9 / 20_000}
    for point in found.points:
        assert point.rate_hz is not None
        assert point.rate_hz.high is None
        assert point.p99_9_ns is None
        assert point.rate_hz.value <= 1.05 * truth.get(point.speedup or 0.0, 1e9)
    columns, rows = forecast_rows(found)
    assert rows[1][1 + columns.index("events/s")].startswith("≥ ")


@pytest.mark.long
def test_a_thread_that_waits_for_others_bounds_what_its_stage_serves() -> None:
    roles = tuple(role(name, 0.5, futex=0.5) for name in ("stage-0", "stage-2"))
    found = modelled(by_counts(), "stage-1", seed=1, events=400, roles=roles)
    rate = found.points[0].rate_hz
    assert rate is not None
    assert rate.value == pytest.approx(1e9 / 32_000, rel=0.05)


@pytest.mark.long
def test_published_times_give_the_rates_and_the_knee() -> None:
    found = modelled(with_own_times(), "stage-1", seed=1, events=400)
    assert found.kind == "limited"
    assert found.takes_over in ("stage-0", "stage-2")
    for point in found.points:
        assert point.rate_hz is not None
        truth = 1e9 / max(20_000, 40_000 * (1 - (point.speedup or 0.0)))
        assert point.rate_hz.value == pytest.approx(truth, rel=0.06)
    assert found.knee is not None
    assert 0.4 <= found.knee.value <= 0.62


def role(name: str, busy: float, **blocked: float) -> Role:
    return Role(name, 1, (1,), busy, 0.0, blocked, busy, 0.5, threads=(1,))


def test_a_stage_that_the_model_keeps_busy_and_whose_thread_waits_is_no_model() -> None:
    roles = (role("stage-1", 0.98, futex=0.02), role("stage-2", 0.05, pipe=0.95))
    with pytest.raises(NotTrustworthyError, match=r"the model has stage-2 busy [45]\d\.\d % of the time"):
        modelled(with_own_times(), "stage-1", seed=1, events=200, roles=roles)


@pytest.mark.long
def test_lines_that_no_queue_connects_have_a_forecast_each() -> None:
    one = with_own_times()
    samples = {key: np.concatenate([value, value]) for key, value in one.samples.items()}
    samples["queue"] = np.concatenate([one.samples["queue"], one.samples["queue"] + len(one.queues)])
    beside = tuple(
        replace(
            queue, number=queue.number + len(one.queues), name=f"other {queue.name}",
            source_name=f"other {queue.source_name}", drain_name=f"other {queue.drain_name}",
        )
        for queue in one.queues
    )  # fmt: skip
    both = replace(one, queues=(*one.queues, *beside), samples=samples)
    found, alone = (modelled(seen, "stage-1", seed=1, events=200) for seen in (both, one))
    assert found.baseline.rate_hz == alone.baseline.rate_hz


def test_a_model_in_which_another_stage_is_busier_than_what_limits_forecasts_nothing() -> None:
    with pytest.raises(NotTrustworthyError, match=r"stage-2 limits .* the model has stage-1 busy (9\d|100)"):
        modelled(with_own_times(), "stage-2", seed=1, events=200, limits=True)


@pytest.mark.long
def test_a_model_in_which_what_limits_gains_nothing_forecasts_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = with_own_times()
    monkeypatch.setattr(by_queue_model, "_require_busiest", lambda *_: None)
    with pytest.raises(NotTrustworthyError, match="stage-2 limits by what was observed, and the model gains"):
        modelled(line, "stage-2", seed=1, events=200, limits=True)
    assert modelled(line, "stage-2", seed=1, events=200).kind == "none"


def test_a_knee_behind_which_more_is_gained_is_none() -> None:
    def points(*rates: float) -> dict[float, ForecastPoint]:
        speedups = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
        of = zip(speedups, rates, strict=True)
        return {one: ForecastPoint(one, one, 0, rate_hz=Interval(rate)) for one, rate in of}

    assert _gains_behind(0.3, points(366, 434, 507, 600, 720, 852))
    assert not _gains_behind(0.3, points(366, 434, 507, 510, 505, 512))


def test_round_a_circle_a_stage_that_has_time_to_spare_is_not_told_to_limit() -> None:
    services = {"throw": 600_000.0, "dry": 800_000.0, "glaze": 2_600_000.0, "pack": 500_000.0}
    names = list(services)
    # Four stages in a ring, two events under way: what limits a fast glazer is that there are only two.
    ring = QueueingModel(
        (),
        tuple(ModelStage(name, service, variation=0.0) for name, service in services.items()),
        tuple(
            ModelQueue(f"shelf{i}", name, names[(i + 1) % 4], 1, 1.0, int(i in (0, 2)))
            for i, name in enumerate(names)
        ),
    )
    runs = {
        speedup: [forecast(ring.with_stage("glaze", speed=1 / max(1 - speedup, 0.02)), events=400)]
        for speedup in by_queue_model.SPEEDUPS
    }
    points = {speedup: by_queue_model._point(speedup, of) for speedup, of in runs.items()}
    told = with_limits(replace(by_queue_model._told("glaze", 2.6e6, points, ""), kind="total"))
    found = by_queue_model._of_the_busy(told, "glaze", {"glaze"}, runs)
    assert [point.limits for point in found.points] == ["glaze", "glaze", None, None, None]
    assert found.baseline.limits == "glaze"


def test_stages_that_share_one_thread_make_no_model() -> None:
    with pytest.raises(NotTrustworthyError, match=r"its stages share app\.py, which ran 99"):
        modelled(with_own_times(), "stage-1", seed=1, events=200, roles=(role("app.py", 0.99),))


@pytest.mark.long
def test_threads_that_do_what_the_model_says_change_nothing() -> None:
    roles = tuple(role(f"stage-{i}", busy, futex=1 - busy) for i, busy in enumerate((0.5, 0.98, 0.5)))
    found = modelled(with_own_times(), "stage-1", seed=1, events=400, roles=roles)
    assert found.takes_over in ("stage-0", "stage-2")


def paced(source: ModelSource, service_ns: float) -> tuple[QueueingModel, ModelForecast]:
    model = QueueingModel(
        (source,), (ModelStage("develop", service_ns),), (ModelQueue("a", "scan", "develop"),)
    )
    return model, forecast(model, events=400, seed=1)


def test_a_source_that_waits_for_others_gives_what_they_let_it() -> None:
    model, run = paced(ModelSource("a", 140.0), 7_000_000)
    require_seen(model, run, (role("scan", 0.1, timer=0.9),))
    with pytest.raises(NotTrustworthyError, match=r"scan waited for other threads 92"):
        require_seen(model, run, (role("scan", 0.08, futex=0.92),))


def test_a_fork_at_the_source_moves_in_step() -> None:
    sources = (ModelSource("tiny", 163.0), ModelSource("full", 163.0))
    stages = (ModelStage("thumbnail", 6_130_000, 0.1), ModelStage("original", 200_000))
    queues = (ModelQueue("tiny", "split", "thumbnail", 8), ModelQueue("full", "split", "original", 8))
    model = QueueingModel(tuple(replace(one, saturated=True) for one in sources), stages, queues)
    before = forecast(model, events=400, seed=1).throughput_hz
    after = forecast(model.with_stage("thumbnail", speed=2.0), events=400, seed=1).throughput_hz

    assert before == pytest.approx(326, rel=0.02)
    assert after == pytest.approx(652, rel=0.05)  # each branch gets each event


def test_a_source_that_gives_its_two_queues_unlike_rates_gives_each_event_to_one() -> None:
    sources = (ModelSource("tiny", 100.0), ModelSource("full", 50.0))
    stages = (ModelStage("thumbnail", 6_130_000, 0.1), ModelStage("original", 200_000))
    queues = (ModelQueue("tiny", "split", "thumbnail", 8), ModelQueue("full", "split", "original", 8))
    assert not moves_in_step(QueueingModel(sources, stages, queues))


def test_a_stage_without_time_to_spare_gains_nothing_only_where_another_one_has_none_either() -> None:
    model, run = paced(ModelSource("a", 140.0), 7_080_000)
    fast = forecast(model.with_stage("develop", speed=50.0), events=400, seed=1)
    with pytest.raises(NotTrustworthyError, match="nothing else is busy"):
        _require_limit(model, "develop", {0.0: [run], 1.0: [fast]}, None)
    # What comes to a queue that drops doesn't wait for anybody, and a stage with time to spare isn't asked.
    drops = replace(model, sources=(replace(model.sources[0], drops=True),))
    _require_limit(drops, "develop", {0.0: [run], 1.0: [fast]}, None)
    idle, half = paced(ModelSource("a", 140.0), 3_000_000)
    _require_limit(idle, "develop", {0.0: [half], 1.0: [fast]}, None)


@pytest.mark.parametrize(("high", "told"), [(190e6, True), (250e6, False)])
def test_a_tail_is_told_only_where_it_changes_for_sure(high: float, told: bool) -> None:
    base = ForecastPoint(0.0, None, 0, rate_hz=Interval(171.0), p99_9_ns=Interval(206e6, 195e6, 220e6))
    faster = ForecastPoint(0.2, None, 0, rate_hz=Interval(206.0), p99_9_ns=Interval(180e6, 150e6, high))
    sentence = _sentence("parse", {0.0: base, 0.2: faster}, None, None, "")
    assert ("p99.9" in sentence) == told
    assert "171" in sentence
    assert "206 events/s" in sentence


@pytest.mark.parametrize(("by_queues", "by_threads"), [("part", "other"), (None, "part")])
def test_what_its_threads_name_limits_for_the_model_too(
    by_queues: str | None, by_threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a model that gains nothing by it is told: as of a pool whose caller waits for each result."""
    given: dict[str, object] = {}
    monkeypatch.setattr(program, "modelled", lambda *_, **options: given.update(options))
    seen = SimpleNamespace(
        queues=SimpleNamespace(observation=None, diagnosis=SimpleNamespace(limiting_stage=by_queues)),
        threads=SimpleNamespace(roles=(), limit=SimpleNamespace(name=by_threads)),
    )
    program.Command(Question(command=("app",))).forecast("part", cast(Any, seen), 0.0)
    assert given["limits"] is True

"""Models whose stages move in step: joins, forks, circles and lent buffers, whose throughput is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from latlab.errors import InputError
from latlab.formats.queue_model import model_text, read_model
from latlab.model.queues.queueing import ModelQueue, ModelSource, ModelStage, QueueingModel
from latlab.queues import forecast
from latlab.queues.model.in_step import moves_in_step

MS = 1_000_000
SATURATED = ModelSource("a", 500.0, saturated=True)


def stage(name: str, ms: float, **more: object) -> ModelStage:
    return ModelStage(name, ms * MS, 0.0, **more)  # type: ignore[arg-type]


def queue(name: str, source: str, drain: str, capacity: int = 8, initial: int = 0) -> ModelQueue:
    return ModelQueue(name, source, drain, capacity, 1.0, initial)


def diamond(split: float, left: float, right: float, pair: float) -> QueueingModel:
    """A fork to both sides, and a join of what they give."""
    stages = (
        stage("split", split),
        stage("left", left),
        stage("right", right),
        stage("pair", pair, joins=True),
    )
    queues = (
        queue("a", "feed", "split"),
        queue("b", "split", "left"),
        queue("c", "split", "right"),
        queue("d", "left", "pair"),
        queue("e", "right", "pair"),
    )
    return QueueingModel((SATURATED,), stages, queues)


def window(events: int, *ms: float) -> QueueingModel:
    """A circle of stages in which so many events go round."""
    names = [f"s{i}" for i in range(len(ms))]
    queues = [queue(f"q{i}", names[i - 1], name, 64, events if i == 0 else 0) for i, name in enumerate(names)]
    return QueueingModel((), tuple(stage(n, m) for n, m in zip(names, ms, strict=True)), tuple(queues))


@pytest.mark.parametrize("times", [(3, 1, 1, 1), (1, 3, 1, 1), (1, 1, 3, 1), (1, 1, 1, 3)])
def test_the_slowest_stage_of_a_fork_and_join_sets_its_pace(times: tuple[float, ...]) -> None:
    found = forecast(diamond(*times), events=400)
    assert found.throughput_hz == pytest.approx(1000 / 3, rel=0.01)
    assert max(found.stages, key=lambda one: one.utilisation).rate_hz == pytest.approx(1000 / 3, rel=0.01)


def test_an_event_waits_for_the_slower_side_of_a_join() -> None:
    alone = replace(diamond(1, 4, 2, 1), sources=(ModelSource("a", 100.0, variation=0.0),))
    found = forecast(alone, events=400)
    assert found.throughput_hz == pytest.approx(100, rel=0.01)
    assert found.end_to_end.p50_ns == pytest.approx((1 + 4 + 1) * MS, rel=0.01)


@pytest.mark.parametrize(
    ("events", "times", "expected"),
    [(1, (1, 2, 3), 1000 / 6), (2, (1, 2, 3), 2000 / 6), (8, (1, 2, 3), 1000 / 3)],
)
def test_a_window_limits_until_the_slowest_stage_does(
    events: int, times: tuple[float, ...], expected: float
) -> None:
    model = window(events, *times)
    assert moves_in_step(model)
    assert forecast(model, events=400).throughput_hz == pytest.approx(expected, rel=0.02)


def test_buffers_that_travel_with_the_events_limit_as_a_window_does() -> None:
    queues = (
        queue("a", "feed", "fill"),
        queue("full", "fill", "write"),
        queue("buffers", "write", "fill", 2, 2),
    )
    model = QueueingModel((SATURATED,), (stage("fill", 1, joins=True), stage("write", 1)), queues)
    assert forecast(model, events=400).throughput_hz == pytest.approx(1000, rel=0.02)
    fewer = replace(model, queues=(*queues[:2], replace(queues[2], initial=1)))
    assert forecast(fewer, events=400).throughput_hz == pytest.approx(500, rel=0.02)


def test_workers_serve_as_many_at_a_time() -> None:
    plain = diamond(0.1, 4, 4, 0.1)
    model = plain.with_stage("left", workers=2).with_stage("right", workers=4)
    assert forecast(model, events=400).throughput_hz == pytest.approx(500, rel=0.02)


def test_a_source_that_says_how_fast_it_is_limits() -> None:
    model = replace(diamond(1, 1, 1, 1), sources=(replace(SATURATED, most_hz=200.0),))
    assert forecast(model, events=400).throughput_hz == pytest.approx(200, rel=0.02)


def test_arrivals_come_as_they_were_counted() -> None:
    source = ModelSource("a", 200.0, period_ns=10 * MS, counts=(4, 0))
    found = forecast(replace(diamond(1, 1, 1, 1), sources=(source,)), events=400)
    assert found.throughput_hz == pytest.approx(200, rel=0.02)
    assert max(one.waiting.p99_ns for one in found.queues if one.name == "a") == pytest.approx(
        3 * MS, rel=0.02
    )


def test_a_circle_without_an_event_is_refused() -> None:
    model = diamond(1, 1, 1, 1)
    closed = replace(
        model,
        stages=(replace(model.stages[0], joins=True), *model.stages[1:]),
        queues=(*model.queues, queue("back", "pair", "split")),
    )
    with pytest.raises(InputError, match="nothing moves"):
        forecast(closed, events=400)


@pytest.mark.parametrize(
    "model",
    [
        QueueingModel((SATURATED,), (stage("one", 1),), (queue("a", "feed", "one"),)),
        replace(diamond(1, 1, 1, 1), sources=(replace(SATURATED, drops=True),)),
        replace(diamond(1, 1, 1, 1), stages=(*diamond(1, 1, 1, 1).stages[:3], stage("pair", 1))),
    ],
)
def test_lines_losses_and_merges_are_none_of_it(model: QueueingModel) -> None:
    assert not moves_in_step(model)


def test_joins_and_what_is_in_a_circle_are_written_and_read(tmp_path) -> None:  # type: ignore[no-untyped-def]
    lent = replace(
        diamond(1, 1, 1, 1), queues=(*diamond(1, 1, 1, 1).queues, queue("f", "pair", "split", 4, 3))
    )
    (tmp_path / "model.toml").write_text(model_text(lent))
    assert read_model(tmp_path / "model.toml") == lent


def test_a_join_among_queues_of_different_numbers_is_refused_by_its_name() -> None:
    model = diamond(1.0, 2.0, 3.0, 1.0)
    uneven = replace(model, queues=(*model.queues[:-1], replace(model.queues[-1], share=0.5)))
    with pytest.raises(InputError, match="pair combines events of several queues"):
        forecast(uneven)

import contextlib
import copy
import dataclasses
import json
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latlab.cli import main
from latlab.errors import InputError, UsageError
from latlab.formats.queue_model import model_text, read_model
from latlab.model.queues.observation import Observation, Queue, QueueKind, Stage
from latlab.model.queues.queueing import ModelQueue, ModelSource, ModelStage, QueueingModel
from latlab.queues import analyse, fit_model, forecast
from latlab.queues.model.simulate import _gaps, _listed
from latlab.queues.model.tandem import Line, observe, simulate

pytest.importorskip("ciw", reason="needs the extra 'simulate'")

POISSON = ModelSource("in", 50_000.0, variation=1.0)


def single(**stage: Any) -> Any:
    return QueueingModel((POISSON,), (ModelStage("a", **stage),), (ModelQueue("in", "", "a"),))


def test_a_copy_of_listed_times_goes_on_where_it_was_made() -> None:
    ciw = pytest.importorskip("ciw")
    listed = _listed(ciw, [1.0, 2.0, 3.0])
    assert listed.sample() == 1.0
    other = copy.deepcopy(listed)
    assert [listed.sample(), listed.sample(), listed.sample()] == [2.0, 3.0, 1.0]
    assert other.sample() == 2.0
    assert not [one for one in vars(listed).values() if type(one).__module__ == "itertools"]


def test_an_m_m_1_queue_waits_as_theory_has_it() -> None:
    # Load 0.5: a mean wait of ρ/(1-ρ) service times, half of the events don't wait at all.
    found = forecast(single(service_ns=10_000.0), events=20_000)
    waiting = found.queues[0].waiting
    assert waiting.mean_ns == pytest.approx(10_000, rel=0.1)
    assert waiting.p50_ns == pytest.approx(0, abs=500)
    # P(wait > t) = ρ·exp(-(μ-λ)t)
    assert waiting.p99_ns == pytest.approx(np.log(0.5 / 0.01) / 50_000 * 1e9, rel=0.15)
    assert found.stages[0].utilisation == pytest.approx(0.5, rel=0.05)
    assert found.throughput_hz == pytest.approx(50_000, rel=0.03)


def test_regular_service_halves_the_wait_of_exponential_service() -> None:
    found = forecast(single(service_ns=10_000.0, variation=0.0), events=20_000)
    assert found.queues[0].waiting.mean_ns == pytest.approx(5_000, rel=0.1)


def test_a_source_that_always_has_another_event_fills_its_queue_with_few_arrivals() -> None:
    source = ModelSource("in", 1_000.0, saturated=True)
    stages = tuple(
        ModelStage(name, service_ns=ns, variation=0.0) for name, ns in (("quick", 2e4), ("slow", 1e6))
    )
    ways = (ModelQueue("in", "", "quick", capacity=4), ModelQueue("on", "quick", "slow", capacity=4))
    found = forecast(QueueingModel((source,), stages, ways), events=2_000)
    assert found.throughput_hz == pytest.approx(1_000, rel=0.01)
    # It is full: four are ahead of each, and each of them takes as long as the slow stage.
    assert [queue.waiting.p50_ns for queue in found.queues] == pytest.approx([4e6, 4e6], rel=0.25)
    # The quick stage could take 50,000 a second, and would be offered twice as many.
    assert len(_gaps([source], stages[0], 1.0, 1.0, np.random.default_rng(1))) < 20_000


def test_two_workers_of_half_the_speed_are_as_busy_as_one() -> None:
    found = forecast(single(service_ns=20_000.0, workers=2))
    assert found.stages[0].utilisation == pytest.approx(0.5, rel=0.05)


@pytest.mark.long
def test_a_source_that_drops_loses_what_a_slow_stage_does_not_take() -> None:
    queue = ModelQueue("in", "", "a", capacity=16)
    model = QueueingModel((ModelSource("in", 200_000.0, drops=True),), (ModelStage("a", 10_000.0),), (queue,))
    found = forecast(model)
    assert found.throughput_hz == pytest.approx(100_000, rel=0.05)
    assert found.lost == pytest.approx(0.5, rel=0.1)
    assert found.queues[0].waiting.p50_ns == pytest.approx(16 * 10_000, rel=0.2)


def test_counted_arrivals_are_played_as_they_were_counted() -> None:
    burst = ModelSource("in", 10_000.0, period_ns=1_000_000, counts=(100, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    queue = ModelQueue("in", "", "a")
    found = forecast(QueueingModel((burst,), (ModelStage("a", 20_000.0),), (queue,)), events=5_000)
    # 100 events within 1 ms at 20 µs each: the last one waits about 1 ms, at a mean load of 20 % only.
    assert found.queues[0].waiting.p99_ns == pytest.approx(1e6, rel=0.35)


def test_an_event_that_becomes_three_is_served_three_times() -> None:
    stages = (ModelStage("a", 1_000.0), ModelStage("b", 5_000.0))
    queues = (ModelQueue("in", "", "a"), ModelQueue("mid", "a", "b", share=3.0))
    found = forecast(QueueingModel((POISSON,), stages, queues))
    assert found.stages[1].rate_hz == pytest.approx(150_000, rel=0.05)
    assert found.stages[1].utilisation == pytest.approx(0.75, rel=0.05)


def test_the_same_seed_gives_the_same_forecast_and_leaves_other_random_numbers_alone() -> None:
    random.seed(5)
    expected = random.random()
    random.seed(5)
    first = forecast(single(service_ns=10_000.0), events=2_000, seed=3)
    assert random.random() == expected
    assert forecast(single(service_ns=10_000.0), events=2_000, seed=3) == first
    assert forecast(single(service_ns=10_000.0), events=2_000, seed=4) != first


def test_a_circle_of_stages_is_refused() -> None:
    stages = (ModelStage("a", 1.0), ModelStage("b", 1.0))
    queues = (ModelQueue("in", "", "a"), ModelQueue("x", "a", "b"), ModelQueue("y", "b", "a"))
    with pytest.raises(InputError, match="circle"):
        forecast(QueueingModel((POISSON,), stages, queues))


@pytest.mark.long
@pytest.mark.parametrize("load", [0.7, 1.5])
def test_a_model_fitted_to_a_line_forecasts_the_line_with_a_faster_stage(load: Any) -> None:
    line = Line(stages=3, slower=0.5, load=load, capacity=32)
    slow = np.array([1])
    seen = observe(line, simulate(line, slow, 12_000, seed=1), 0, 50_000.0)
    model = fit_model(seen)
    assert [s.service_ns for s in model.stages] == pytest.approx([20_000, 30_000, 20_000], rel=0.08)
    assert [s.variation for s in model.stages] == pytest.approx([1, 1, 1], abs=0.35)
    found = forecast(model.with_stage("stage-1", speed=1.5))
    # The line itself, with a stage that is not slow any more and the arrivals that it had.
    faster = Line(stages=3, slower=0.0, load=load / 1.5 if load < 1 else load, capacity=32)
    times = simulate(faster, np.array([-1]), 12_000, seed=2)
    rate = 12_000 / times.done[0, -1] * 1e9
    assert found.throughput_hz == pytest.approx(rate, rel=0.08)
    if load < 1:
        waits = (times.taken - times.put)[0, 1]
        assert found.queues[1].waiting.mean_ns == pytest.approx(waits.mean(), rel=0.5)


def pool_of_two(threads: Any) -> Any:
    """Two partitions that share threads: 1,000 events a second through one, 3,000 through the other, each of
    which takes 100 µs.
    """
    steps = np.arange(1000)
    at, number = np.tile(steps * 1_000_000, 2), np.repeat([0, 1], 1000)
    count = np.concatenate([steps, 3 * steps]).astype(np.uint64)
    zero = np.zeros(2000, np.uint64)
    samples: dict[str, Any] = {
        "t_ns": at,
        "t_end_ns": at,
        "queue": number.astype(np.uint32),
        "in": count,
        "out_low": count,
    }
    samples |= {"out_high": count, "dropped": zero, "blocked": zero, "empty": zero, "skipped": zero}
    ends: dict[str, Any] = {"source_name": "feed", "drain_type": "book"}
    queues = tuple(
        Queue(q, f"in-{q}", QueueKind.BOUNDED, 64, **ends, drain_name=f"book-{q}", consumer_tid=threads[q])
        for q in range(2)
    )
    stages = tuple(Stage(q, "book", f"book-{q}", group="book-pool", tid=threads[0]) for q in range(2))
    busy = {"busy_ns": count.astype(np.int64) * 100_000, "transitions": count}
    times = {"t_ns": at, "stage": number, **busy}
    sweeps = {"t_ns": at[:1000], "duration_ns": zero[:1000], "read": np.full(1000, 2)}
    return Observation(queues, stages, (), samples, sweeps, stage_times=times, period_ns=1_000_000)


def test_partitions_that_share_threads_are_one_stage_with_a_worker_for_each_thread() -> None:
    for threads in ((7, 7), (7, 8)):
        (stage,) = fit_model(pool_of_two(threads)).stages
        assert (stage.name, stage.type, stage.workers) == ("book-pool", "book", len(set(threads)))
        assert stage.service_ns == pytest.approx(100_000, rel=0.01)


def test_queues_of_one_name_have_names_of_their_own_in_a_model(tmp_path: Any) -> None:
    observation = pool_of_two((7, 7))
    alike = tuple(dataclasses.replace(queue, name="in") for queue in observation.queues)
    model = fit_model(dataclasses.replace(observation, queues=alike))
    assert [queue.name for queue in model.queues] == ["in-0", "in-1"]
    path = tmp_path / "m.toml"
    path.write_text(model_text(model), encoding="utf-8")
    assert [source.queue for source in read_model(path).sources] == ["in-0", "in-1"]


def test_long_interruptions_are_told_from_services_that_vary() -> None:
    observation = pool_of_two((7, 7))
    times = dict(observation.stage_times)
    # Five times in the second, a service takes 5 ms longer.
    longer = 5_000_000 * np.searchsorted([110, 290, 470, 650, 830], np.arange(1000), side="right")
    times["busy_ns"] = times["busy_ns"] + np.concatenate([longer, np.zeros(1000, np.int64)])
    (stage,) = fit_model(dataclasses.replace(observation, stage_times=times)).stages
    assert stage.service_ns == pytest.approx(100_000, rel=0.02)
    assert stage.variation < 0.5
    assert stage.interrupted == pytest.approx(5 / 3996, rel=0.01)
    assert stage.interruption_ns == pytest.approx(5_000_000, rel=0.05)


@pytest.mark.long
def test_interruptions_are_in_the_forecast() -> None:
    plain, hit = (
        forecast(single(service_ns=8_000.0, variation=0.0, interrupted=often, interruption_ns=1e6))
        for often in (0.0, 0.002)
    )
    assert plain.stages[0].utilisation == pytest.approx(0.4, rel=0.03)
    # 100 a second of 1 ms each.
    assert hit.stages[0].utilisation == pytest.approx(0.5, rel=0.1)
    assert hit.queues[0].waiting.p99_ns > 500_000 > plain.queues[0].waiting.p99_ns


def test_a_stage_that_says_it_is_idle_while_events_wait_is_no_faster_for_that() -> None:
    observation = pool_of_two((7, 8))
    alone = tuple(dataclasses.replace(stage, group="") for stage in observation.stages)
    samples = {**observation.samples, "in": observation.samples["in"] + np.uint64(5)}
    model = fit_model(dataclasses.replace(observation, stages=alone, samples=samples))
    # 1,000 and 3,000 events a second, and always one more.
    assert [stage.service_ns for stage in model.stages] == pytest.approx([1e6, 1e6 / 3], rel=0.01)


def always_one_more() -> Observation:
    """Two stages that say that they are idle for 90 and 70 % of the time, and always have an event."""
    observation = pool_of_two((7, 8))
    alone = tuple(dataclasses.replace(stage, group="") for stage in observation.stages)
    samples = {**observation.samples, "in": observation.samples["in"] + np.uint64(5)}
    made: Observation = dataclasses.replace(observation, stages=alone, samples=samples)
    return made


def test_the_service_of_a_stage_is_one_number_in_the_table_and_in_a_model() -> None:
    observation = always_one_more()
    table = {stage.label: stage.service_ns for stage in analyse(observation).stages}
    assert table == pytest.approx({"book-0": 1e6, "book-1": 1e6 / 3}, rel=0.01)
    for stage in fit_model(observation).stages:
        assert stage.service_ns == pytest.approx(table[stage.name], rel=0.001)


def test_a_stage_is_told_as_busy_as_its_service_makes_it() -> None:
    assert "book-1 was busy 100.0 % of the time, book-0 100.0 %" in analyse(always_one_more()).evidence[0]


def of_two_inputs(*, voluntary_hz: int) -> Observation:
    """A stage that takes one event of each of two inputs, 1,000 a second; its thread runs for 40 %."""
    observation = pool_of_two((7, 7))
    samples = dict(observation.samples)
    count = np.tile(np.arange(1000), 2).astype(np.uint64)
    samples |= {"in": count + np.tile(np.arange(1000) % 5 == 0, 2), "out_low": count, "out_high": count}
    at = np.arange(0, 1001, 100) * 1_000_000
    threads = {"t_ns": at, "tid": np.full(11, 7), "cpu_ns": at * 4 // 10, "wait_ns": at // 10}
    threads |= {"voluntary": at * voluntary_hz // 10**9, "involuntary": at * 0}
    queues = tuple(dataclasses.replace(queue, drain_name="book-0") for queue in observation.queues)
    made: Observation = dataclasses.replace(
        observation, queues=queues, samples=samples, stages=(), stage_times={}, threads=threads
    )
    return made


@pytest.mark.parametrize(("voluntary_hz", "service_ns"), [(1000, 400_000), (10, 200_000)])
def test_who_takes_of_two_inputs_serves_for_as_long_as_its_thread_runs_unless_that_never_sleeps(
    voluntary_hz: int, service_ns: int
) -> None:
    observation = of_two_inputs(voluntary_hz=voluntary_hz)
    (stage,) = analyse(observation).stages
    assert stage.service_ns == pytest.approx(service_ns, rel=0.02)
    (fitted,) = fit_model(observation).stages
    assert fitted.service_ns == pytest.approx(service_ns, rel=0.02)


def test_a_second_worker_of_a_pool_halves_its_load() -> None:
    model = fit_model(pool_of_two((7, 7)))
    one, two = forecast(model), forecast(model.with_stage("book", workers=2))
    assert one.stages[0].utilisation == pytest.approx(0.4, rel=0.05)
    assert two.stages[0].utilisation == pytest.approx(0.2, rel=0.05)
    assert two.queues[1].waiting.mean_ns < one.queues[1].waiting.mean_ns


def test_a_change_to_what_is_not_there_names_what_is() -> None:
    with pytest.raises(UsageError, match="there are: a"):
        single(service_ns=1.0).with_stage("b", speed=2)
    with pytest.raises(UsageError, match="there are: in"):
        single(service_ns=1.0).with_capacity("out", 3)


def test_a_type_of_stages_is_changed_as_one() -> None:
    stages = tuple(ModelStage(name, 10.0, type="book") for name in ("b1", "b2"))
    model = QueueingModel((POISSON,), stages, (ModelQueue("in", "", "b1"),))
    assert [s.service_ns for s in model.with_stage("book", speed=2).stages] == [5.0, 5.0]


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=8)
NUMBERS = st.integers(0, 10**6).map(float)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(NAMES, NUMBERS, st.integers(1, 9)), min_size=1, max_size=4, unique_by=lambda t: t[0])
)
def test_a_model_that_is_written_reads_back_the_same(tmp_path_factory: Any, rows: Any) -> None:
    stages = tuple(
        ModelStage(name, ns * 1e3, workers=n, interrupted=n / 1000, interruption_ns=5e6)
        for name, ns, n in rows
    )
    queues = tuple(ModelQueue(f"q{name}", "", name, capacity=n) for name, _, n in rows)
    source = ModelSource(queues[0].name, 5.0, period_ns=1_000, counts=(1, 2, 3), drops=True)
    path = tmp_path_factory.mktemp("model") / "m.toml"
    model = QueueingModel((source,), stages, queues)
    path.write_text(model_text(model), encoding="utf-8")
    assert read_model(path) == model


@settings(max_examples=100, deadline=None)
@given(
    st.binary(max_size=200)
    | st.text(alphabet='[]"=\n stagequeur_hzcni0123456789.', max_size=200).map(str.encode)
)
def test_no_text_crashes_the_reader_of_models(tmp_path_factory: Any, text: Any) -> None:
    path = tmp_path_factory.mktemp("model") / "m.toml"
    path.write_bytes(b"schema = 1\n" + text)
    # Only these: a model, or one line that names the file.
    with contextlib.suppress(InputError):
        assert isinstance(read_model(path), QueueingModel)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[[stage]]\nname = 'a'", "stage 1.service_us"),
        ("[[stage]]\nname = 'a'\nservice_us = -1", "stage 1.service_us"),
        ("[[stage]]\nname = 'a'\nservice_us = 1\nspeed = 2", "stage 1.speed"),
        ("[[queue]]\nname = 'q'\ndrain = 'x'", "queue q.drain"),
        ("[[source]]\nqueue = 'q'\nrate_hz = 1\ncounts = [1]", "source 1.period_us"),
    ],
)
def test_a_mistake_in_a_model_is_named_by_its_place(written: Any, text: Any, place: Any) -> None:
    with pytest.raises(InputError) as error:
        read_model(written(f"schema = 1\n{text}\n"))
    assert error.value.place == place


def test_the_command_simulates_a_changed_model(tmp_path: Any, capsys: Any) -> None:
    path = tmp_path / "m.toml"
    path.write_text(model_text(single(service_ns=10_000.0)))

    def run(*options: Any) -> Any:
        with pytest.raises(SystemExit) as left:
            main(["queues", "simulate", str(path), *options])
        return left.value.code

    assert run("--faster", "a=2", "--events", "2000", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == 1
    assert found["stages"][0]["utilisation"] == pytest.approx(0.25, rel=0.2)
    assert run("--capacity", "in=8", "--events", "500") == 0
    assert "against" in capsys.readouterr().out
    assert run("--faster", "b=2") == 2

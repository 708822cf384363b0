from __future__ import annotations

from pathlib import Path

import pytest

from latlab.errors import InputError, UsageError
from latlab.lab.trading.layout import load_layout, parse_layout, slowed, slowed_by
from latlab.lab.trading.plan import RunSettings, plan_text
from latlab.model.diagnosis.layout import Layout

ROOT = Path(__file__).parents[2]


def plan_of(layout: Layout) -> list[dict[str, str]]:
    run = RunSettings([Path("a.itch"), Path("b.itch")], 1.0, Path("/x/link"), Path("/x/traces"))
    records = []
    for line in plan_text(layout, run).splitlines():
        record, *fields = line.split()
        records.append({"record": record, **dict(field.split("=", 1) for field in fields)})
    return records


def test_the_example_file_spells_out_the_default_layout() -> None:
    assert load_layout(ROOT / "examples/trading.toml") == Layout()


def test_threads_without_cpus_of_their_own_are_spread_over_those_of_the_process() -> None:
    layout = parse_layout({"stages": {"book": {"cpus": [5]}}}, "my.toml")
    run = RunSettings([Path("a.itch"), Path("b.itch")], 1.0, Path("/x/link"), Path("/x/traces"), cpus=(2, 3))
    threads = [line.split()[1:] for line in plan_text(layout, run).splitlines() if line.startswith("thread ")]
    placed = {fields[0].removeprefix("name="): fields[-1] for fields in threads}
    assert placed == {
        "decoder-a": "cpu=2",
        "decoder-b": "cpu=3",
        "market-a": "cpu=2",
        "market-b": "cpu=3",
        "book-0": "cpu=5",
        "book-1": "cpu=5",
        "strategy-0": "cpu=2",
        "execution-0": "cpu=3",
    }


def test_threads_are_left_to_the_scheduler_where_no_cpus_are_given() -> None:
    assert not any("cpu" in record for record in plan_of(Layout()) if record["record"] == "thread")


def test_an_unknown_key_is_refused_by_its_place() -> None:
    with pytest.raises(InputError) as caught:
        parse_layout({"stages": {"book": {"cuont": 2}}}, "my.toml")
    assert str(caught.value).startswith("my.toml: stages.book.cuont: unknown key; known: ")


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ({"replay": {"mode": "slowly"}}, "replay.mode"),
        ({"replay": {"delay_ns": -1}}, "replay.delay_ns"),
        ({"replay": {"speed": 0}}, "replay.speed"),
        ({"replay": 3}, "replay"),
        ({"stages": {"oven": {}}}, "stages.oven"),
        ({"stages": {"book": {"count": 0}}}, "stages.book.count"),
        ({"stages": {"book": {"count": True}}}, "stages.book.count"),
        ({"stages": {"decoder": {"count": 3}}}, "stages.decoder.count"),
        ({"stages": {"strategy": {"per_book": 2}}}, "stages.strategy.per_book"),
        ({"stages": {"book": {"slow": {"book-9": 1}}}}, "stages.book.slow.book-9"),
        ({"stages": {"book": {"cpus": 1}}}, "stages.book.cpus"),
        ({"queues": {"feed": {"capacity": 0}}}, "queues.feed.capacity"),
        ({"queues": {"feed": {"kind": "heap"}}}, "queues.feed.kind"),
        ({"threads": {"one": {"runs": ["nobody"]}}}, "threads.one.runs"),
        ({"threads": {"one": {"runs": ["book-0"]}, "two": {"runs": ["book"]}}}, "threads.two.runs"),
        ({"threads": {"one": {"runs": ["strategy", "execution"]}}}, "threads.one.runs"),
        ({"memory": {"pool_capacity": 1}}, "memory.pool_capacity"),
        ({"sampler": {"period_ns": 10}}, "sampler.period_ns"),
        ({"pinned": 1}, "pinned"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_its_place(document: dict[str, object], place: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_layout(document, "my.toml")
    assert caught.value.place == place


def test_a_file_that_is_no_toml_is_refused_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text("name = \n")
    with pytest.raises(InputError, match=r"broken\.toml: is not valid TOML: .*line 1"):
        load_layout(path)


def test_service_time_is_planted_in_every_instance_of_a_stage() -> None:
    layout = slowed(Layout(), "book", 30_000)
    assert [r["service_ns"] for r in plan_of(layout) if r.get("type") == "book"] == ["30000", "30000"]


def test_service_time_is_planted_in_one_instance() -> None:
    layout = slowed(Layout(), "book-1", 30_000)
    assert [r["service_ns"] for r in plan_of(layout) if r.get("type") == "book"] == ["0", "30000"]


def test_a_stage_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(UsageError, match="unknown stage 'exchange'; name one of: decoder, market, book"):
        slowed(Layout(), "exchange", 1)


def test_ten_strategies_on_one_book_are_fed_by_ten_queues() -> None:
    layout = parse_layout({"stages": {"book": {"count": 1}, "strategy": {"count": 10, "per_book": 10}}}, "x")
    queues = [r for r in plan_of(layout) if r["record"] == "queue" and r["source_type"] == "book"]
    assert len(queues) == len({r["drain"] for r in queues}) == 10


def test_a_worker_pool_is_so_many_threads_on_one_crew() -> None:
    layout = parse_layout({"stages": {"book": {"count": 4, "workers": 2}}}, "x")
    records = plan_of(layout)
    assert [r["name"] for r in records if r["record"] == "thread" and r["crew"] == "book-pool"] == [
        "book-pool-0",
        "book-pool-1",
    ]
    assert {r["crew"] for r in records if r.get("type") == "book"} == {"book-pool"}


def test_a_shared_thread_takes_its_instances_from_their_own_threads() -> None:
    layout = parse_layout({"threads": {"front": {"runs": ["decoder", "market-a"]}}}, "x")
    crews = {r["name"]: r["crew"] for r in plan_of(layout) if r["record"] == "instance"}
    assert [crews[name] for name in ("decoder-a", "decoder-b", "market-a", "market-b")] == ["front"] * 3 + [
        "market-b"
    ]


@pytest.mark.parametrize("written", ["book=30us", "book=30000", "book=0.03ms"])
def test_planted_service_time_is_a_duration_or_nanoseconds(written: str) -> None:
    assert slowed_by(Layout(), [written]).stages["book"].service_ns == 30_000


def test_planted_service_time_of_an_unknown_stage_names_the_stages() -> None:
    with pytest.raises(UsageError, match=r"unknown stage 'bok'; did you mean 'book'\? name one of: decoder"):
        slowed_by(Layout(), ["bok=30us"])

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latlab.errors import InputError, UsageError
from latlab.stubs import Program, check, scale
from latlab.stubs.timelines.actions import compile_threads, iterate, load, parse_thread, render, save
from latlab.stubs.timelines.schedule import schedule


def program(**threads: str) -> Program:
    return Program({int(k[1:]): parse_thread(v, k) for k, v in threads.items()})


def test_times_are_microseconds_with_decimals() -> None:
    (action,) = parse_thread("run 12.5  # warm\n", "f")
    assert action.amount == 12_500


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("run -1", "line 1: a time can't be negative"),
        ("sleep x", "line 1: 'sleep' wants microseconds"),
        ("run nan", "longer than an hour"),
        ("run 1e30", "longer than an hour"),
        ("run", "'run' takes 1 argument"),
        ("\nrnu 3", "line 2: unknown action 'rnu'; did you mean 'run'?"),
        ("repeat 3\nrun 1", "line 1: 'repeat' without its 'end'"),
        ("end", "line 1: 'end' without a 'repeat'"),
        ("join -3", "can't be negative"),
        ("io write 10 0", "a block can't be 0 bytes"),
    ],
)
def test_a_bad_line_is_refused_with_its_place(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says.replace("?", r"\?")):
        parse_thread(text, "file")


def test_a_join_of_a_thread_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InputError, match="there is no thread 7"):
        check(program(t0="join 7"))


def test_a_cycle_of_joins_is_named() -> None:
    with pytest.raises(InputError, match="cycle: 0 -> 1 -> 0"):
        check(program(t0="create 1\njoin 1", t1="join 0"))


def test_a_join_before_the_create_that_it_depends_on_is_refused() -> None:
    with pytest.raises(InputError):
        check(program(t0="join 1\ncreate 1", t1="run 1"))


def test_a_wait_that_nobody_signals_is_refused() -> None:
    with pytest.raises(InputError, match="no thread signals 'x'"):
        check(program(t0="wait x"))


@pytest.mark.parametrize("text", ["lock a", "unlock a", "lock a\nlock a\nunlock a\nunlock a"])
def test_unbalanced_locks_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="lock"):
        check(program(t0=text))


def test_a_thread_that_is_created_twice_is_refused() -> None:
    with pytest.raises(InputError, match="created twice"):
        check(program(t0="create 2", t1="create 2", t2="run 1"))


def test_the_budget_counts_every_turn_of_nested_repeats() -> None:
    assert program(t0="repeat 3\nrun 2\nrepeat 2\nrun 1\nend\nend").budgets_ns() == {0: 12_000}


def test_scaling_one_thread_leaves_the_others() -> None:
    faster = scale(program(t0="run 10\ncreate 1", t1="run 10"), 1, factor=0.5)
    assert faster.budgets_ns() == {0: 10_000, 1: 5_000}


def test_an_idle_stub_sleeps_where_the_thread_ran() -> None:
    idle = scale(program(t0="run 10"), 0, idle=True)
    assert render(idle.threads[0]).splitlines()[1] == "sleep 10.000"


def test_scaling_a_thread_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="no thread 5"):
        scale(program(t0="run 1"), 5, factor=2.0)


def test_locks_begin_open_and_events_begin_without_a_post() -> None:
    _, _, first, _ = compile_threads(program(t0="lock a\nunlock a\nsignal e", t1="wait e"), {})
    assert first == [1, 0]


def test_a_folder_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = program(t0="create 3\nrepeat 2\nrun 1.5\nend\njoin 3", t3="io write 100 50\nmemory 4096\nexit")
    save(written, tmp_path)
    read = load(tmp_path)
    assert {n: render(a) for n, a in read.threads.items()} == {
        n: render(a) for n, a in written.threads.items()
    }


def test_plain_names_with_a_number_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "thread0.txt").write_text("run 1")
    (tmp_path / "thread1").write_text("run 2")
    assert load(tmp_path).budgets_ns() == {0: 1000, 1: 2000}


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        actions = parse_thread(text, "f")
    except InputError:
        return
    assert parse_thread(render(actions), "f") is not None


@given(st.lists(st.integers(0, 4), max_size=5))
def test_iterating_writes_repetitions_out(counts: list[int]) -> None:
    text = "".join(f"repeat {n}\n" for n in counts) + "run 1\n" + "end\n" * len(counts)
    expected = 1
    for n in counts:
        expected *= n
    assert len(list(iterate(parse_thread(text, "f")))) == expected


def test_threads_that_wait_for_each_others_signals_are_refused() -> None:
    with pytest.raises(InputError, match=r"'a' is signalled too late or too rarely \(by thread 1\)"):
        check(program(t0="create 1\nwait a\nsignal b", t1="wait b\nsignal a"))


def test_signals_that_come_in_time_are_accepted() -> None:
    check(program(t0="create 1\nrepeat 2\nsignal b\nwait a\nend", t1="repeat 2\nwait b\nsignal a\nend"))


@pytest.mark.parametrize(
    "body", ["run 5", "repeat 0\nsignal a\nend", "repeat 3000000000\nend", "signal a", "lock l\nunlock l"]
)
def test_a_program_of_more_repetitions_than_can_be_walked_is_checked_at_once(body: str) -> None:
    check(program(t0=f"create 1\nrepeat 3000000000\n{body}\nend\nsignal a", t1="wait a"))


def test_a_wait_behind_repetitions_that_order_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="signalled too late or too rarely"):
        check(program(t0="create 1\nrepeat 3000000000\nrun 5\nend\nwait a\nsignal b", t1="wait b\nsignal a"))


def test_creates_and_joins_have_turns_by_their_schedule() -> None:
    chosen = program(
        t0="create 1\ncreate 2\nrun 50\njoin 1\nrun 100\njoin 2", t1="run 80\nexit\nrun 5", t2="run 100"
    )
    turns = schedule(chosen).turns()
    assert sorted(turns, key=turns.__getitem__) == [
        (0, "create", 1), (0, "create", 2), (1, "exit", -1), (0, "join", 2),
    ]  # fmt: skip
    rows, _, _, _ = compile_threads(chosen, turns)
    assert [row[3] for row in rows[0]] == [0, 1, -1, -1, -1, 3]
    assert [row[3] for row in rows[1]] == [-1, 2, -1]


def test_a_thread_whose_end_has_a_turn_ends_by_an_exit() -> None:
    chosen = program(t0="create 1\njoin 1", t1="run 80")
    rows, _, _, _ = compile_threads(chosen, schedule(chosen).turns())
    assert [row[3] for row in rows[1]] == [-1, 1]

"""What a diagnosis draws of its threads: the flame graph, the turns, the trace, and two beside each other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from latlab.formats.recording import RecordingWriter
from latlab.lab.diagnosis.compare import compare_answers
from latlab.model import schedule as layouts
from latlab.model.machine.environment import Environment
from latlab.model.schedule import Frame, Losses, Schedule, ScheduledThread, Source, State, Wait
from latlab.model.threads import Limit, LimitKind, Role, ThreadFindings
from latlab.reports.diagnosis.flame import add_flame, bounded, flame_of
from latlab.reports.diagnosis.perfetto import trace_events
from latlab.reports.diagnosis.text import comparison
from latlab.reports.diagnosis.turns import add_turns, busiest_stretch
from latlab.reports.html import Page

MS = 1_000_000


def schedule() -> Schedule:
    """Thread 0 runs 6 ms and waits 4 for thread 1, which wakes it; half of its waits have a stack."""
    rows: list[Any] = []
    samples: list[Any] = []
    wakes: list[Any] = []
    for i in range(10):
        begin = 10 * i * MS
        rows.append((0, State.RUNNING, 0, Source.UNKNOWN, 0, begin, begin + 6 * MS, -1, -1, -1))
        blocked = len(samples) if i % 2 else -1
        if i % 2:
            samples.append((begin + 6 * MS, 0, 0, 2))
        rows.append(
            (0, State.BLOCKED, Wait.FUTEX, Source.THREAD, -1, begin + 6 * MS, begin + 10 * MS, 1, 64, blocked)
        )
        wakes.append((begin + 10 * MS, 1, 0, 1, Source.THREAD))
    rows.append((1, State.RUNNING, 0, Source.UNKNOWN, 1, 0, 100 * MS, -1, -1, -1))
    samples += [(i * MS, 0, 1, i % 2) for i in range(10)]
    frames = (Frame("main"), Frame("parse"), Frame("price"), Frame("pthread_cond_wait"))
    return Schedule(
        0, 100 * MS, (0, 1),
        tuple(ScheduledThread(100 + t, 100, f"t{t}", "p", 0, 100 * MS) for t in range(2)),
        np.array(rows, layouts.INTERVAL), np.array(wakes, layouts.WAKE),
        np.array([(0, MS, 2 * MS, 9)], layouts.FOREIGN),
        Losses("bpf"), foreign_names={9: "rsync"}, samples=np.array(samples, layouts.SAMPLE),
        stacks=((1, 0), (2, 0), (3, 0)), frames=frames,
    )  # fmt: skip


def findings() -> ThreadFindings:
    roles = tuple(
        Role(name, 1, (100,), 0.6, 0.0, {"futex": 0.4}, 0.6, 0.5, threads=(thread,))
        for thread, name in enumerate(("reader", "writer"))
    )
    limit = Limit(LimitKind.THREAD, "reader", 0.9, 0.5, "reader limits.")
    return ThreadFindings(
        limit, roles, (), (), {}, 0.1, 10, "bpf", 0.0, threads=("reader (t0, 100)", "writer (t1, 101)")
    )


def at(node: list[Any], *path: str) -> tuple[int, int]:
    for name in path:
        node = next(child for child in node[3] if child[0] == name)
    return node[1], node[2]


def test_running_time_is_shared_out_over_the_samples() -> None:
    tree = flame_of(schedule(), findings())

    assert at(tree, "reader", "main", "parse") == (30 * MS, 0)
    assert at(tree, "reader", "main", "price") == (30 * MS, 0)


def test_waits_without_a_stack_are_shared_out_over_those_that_have_one() -> None:
    tree = flame_of(schedule(), findings())

    assert at(tree, "reader", "main", "pthread_cond_wait", "waits: futex") == (0, 40 * MS)


def test_all_time_of_all_threads_is_in_the_flame_graph() -> None:
    tree = flame_of(schedule(), findings())

    assert (tree[1], tree[2]) == (160 * MS, 40 * MS)
    assert at(tree, "writer", "(stack not sampled)") == (100 * MS, 0)


def test_the_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    page = Page("title")
    add_flame(page, schedule(), findings())
    add_turns(page, schedule(), findings())
    page.write(tmp_path / "page.html")

    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "flame-graph" in text
    assert text.count('class="wake"') == 10
    assert not re.search(r'(src|href)="https?://', text)


def test_a_function_of_a_strange_name_is_no_markup(tmp_path: Path) -> None:
    page = Page("title")
    add_flame(page, Schedule(**{**vars(schedule()), "frames": (Frame("</script><b>"),) * 4}), findings())
    page.write(tmp_path / "page.html")

    assert "</script><b>" not in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_stretch_that_is_drawn_has_some_sixty_wake_ups() -> None:
    one = schedule()
    wakes = np.zeros(1000, layouts.WAKE)
    wakes["time"], wakes["waker"] = np.arange(1000) * 100_000, 1

    begin, end = busiest_stretch(Schedule(**{**vars(one), "wakes": wakes}), [0, 1])

    assert end - begin == 59 * 100_000
    assert busiest_stretch(one, [0, 1]) == (0, 100 * MS)


def test_many_short_turns_are_drawn_together_and_the_longest_is_told(tmp_path: Path) -> None:
    rows: list[Any] = []
    kinds = (State.RUNNING, State.RUNNABLE, State.BLOCKED)
    for i in range(60_000):
        wait = Wait.TIMER if i % 3 == 2 else 0
        rows.append((0, kinds[i % 3], wait, Source.TIMER, 0, i * 1000, (i + 1) * 1000, -1, -1, -1))
    begin = 60_000 * 1000
    rows.append((0, State.RUNNABLE, 0, Source.UNKNOWN, 0, begin, begin + 40 * MS, -1, -1, -1))
    for i in range(9):
        start = begin + 40 * MS + i * 1000
        rows.append((0, kinds[i % 3], 0, Source.UNKNOWN, 0, start, start + 1000, -1, -1, -1))
    # One that is longer than its like, and shorter than what is drawn by itself.
    rows[30_001] = (0, State.RUNNABLE, 0, Source.UNKNOWN, 0, 30_001_000, 30_008_000, -1, -1, -1)
    rows.append((1, State.RUNNING, 0, Source.UNKNOWN, 1, 0, 100 * MS, -1, -1, -1))
    made = {**vars(schedule()), "intervals": np.array(rows, layouts.INTERVAL), "ended_ns": 101 * MS}
    made["wakes"] = np.zeros(0, layouts.WAKE)
    page = Page("title")
    add_turns(page, Schedule(**made), findings())
    page.write(tmp_path / "page.html")

    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert 500 < text.count("<rect") < 3 * 820
    assert "runnable 40 ms" in text  # what can be seen is drawn by itself
    assert "the longest: runnable 7 µs" in text
    assert "are drawn together" in text
    assert len(text) < 3_000_000


def test_a_huge_flame_graph_loses_its_smallest_frames_and_says_so() -> None:
    leaves: list[Any] = [[f"function_{i}" * 9, 40 if i else 4000, 0, []] for i in range(2000)]
    source, least = bounded(["all threads", 2000 * 40 + 3960, 0, leaves], 20_000)

    assert len(source) <= 20_000
    assert "function_0" in source
    assert least > 0.0005


def test_a_trace_has_every_turn_an_arrow_for_each_wake_up_and_who_else_had_the_cpu() -> None:
    events = list(trace_events(schedule(), findings()))

    waits = [one for one in events if one["name"] == "waits: futex"]
    assert [one["dur"] for one in waits] == [4000.0] * 10
    assert waits[0]["args"] == {"on": "futex 0x40", "ended by": "t1"}
    assert sum(one["ph"] == "s" for one in events) == sum(one["ph"] == "f" for one in events) == 10
    assert [one["tid"] for one in events if one["name"] == "other: rsync"] == [0]


def diagnosis(folder: Path, seconds: float, limits: float, command: str = "app") -> Path:
    question = {"question": {"command": [command], "seconds": 30}}
    role = {"name": "reader", "limits": limits, "running": 0.5, "runnable": 0.0}
    answer = {
        "limiting_stage": "reader", "forecasts": [], "end_to_end_ns": None, "budget": None,
        "limit": {"kind": "thread"}, "roles": [role], "observed": {"seconds": seconds},
    }  # fmt: skip
    with RecordingWriter(folder, "diagnosis", parameters=question, environment=Environment({})) as writer:
        writer.put("answer", answer)
    return folder


def test_one_run_each_does_not_decide_how_long_a_program_takes(tmp_path: Path) -> None:
    found = compare_answers(diagnosis(tmp_path / "a", 2.0, 0.9), diagnosis(tmp_path / "b", 4.0, 0.4, "new"))

    assert [(one.what, one.verdict) for one in found.changes] == [
        ("the whole program", "open"),
        ("reader limits", "part"),
    ]
    assert not found.regression
    assert "latlab bench ab app new" in comparison(found)


def test_a_program_that_was_ended_has_no_time_of_its_own(tmp_path: Path) -> None:
    found = compare_answers(diagnosis(tmp_path / "a", 30.0, 0.5), diagnosis(tmp_path / "b", 4.0, 0.52))

    assert found.changes == ()
    assert found.decides == ""

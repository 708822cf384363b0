from __future__ import annotations

from pathlib import Path

import pytest

from latlab.errors import InputError
from latlab.model.evidence.said import kind_of
from latlab.model.evidence.studies import TimelineSaid
from latlab.model.stubs import Timeline
from latlab.stubs.timelines import derive as _derive
from latlab.stubs.timelines.actions import Program, parse_thread, render
from latlab.stubs.timelines.derive import derive
from latlab.stubs.timelines.events import Event, EventLog, from_ctf, from_perf_script
from latlab.stubs.timelines.schedule import schedule
from latlab.stubs.timelines.timeline import load, save

US = 1000


def log(*rows: tuple[int, str, int, int, int]) -> EventLog:
    return EventLog(tuple(Event(t * US, kind, tid, other, value) for t, kind, tid, other, value in rows))


def texts(events: EventLog, root: int = 1, merge_us: int = 20) -> list[list[str]]:
    _, program = derive(events, root, merge_ns=merge_us * US)
    return [render(actions).splitlines()[1:] for _, actions in sorted(program.threads.items())]


FORK_AND_WAIT = log(
    (0, "exec", 1, 0, 0),
    (100, "fork", 1, 2, 0),
    (150, "switch", 1, 0, 1),
    (160, "switch", 0, 2, 0),
    (460, "exit", 2, 0, 0),
    (470, "waking", 2, 1, 0),
    (480, "switch", 2, 1, 32),
    (580, "exit", 1, 0, 0),
    (590, "switch", 1, 0, 32),
)


def test_waiting_for_a_child_is_a_join_and_its_teardown_comes_after_exit() -> None:
    parent, child = texts(FORK_AND_WAIT)
    assert parent == ["run 100.000", "create 1", "run 50.000", "join 1", "ready 10.000", "run 110.000"]
    assert child == ["ready 60.000", "run 310.000", "exit", "run 10.000"]


def test_the_timeline_has_the_times_and_the_parent_of_every_thread() -> None:
    timeline, _ = derive(FORK_AND_WAIT, 1)
    parent, child = timeline.threads
    assert timeline.total_ns == 590 * US
    assert (parent.run_ns, parent.blocked_ns, child.run_ns) == (260 * US, 320 * US, 320 * US)
    assert (child.parent, child.start_ns, child.end_ns) == (0, 160 * US, 480 * US)


def test_a_wake_up_by_an_interrupt_is_a_sleep() -> None:
    (only,) = texts(
        log((0, "exec", 1, 0, 0), (10, "switch", 1, 0, 1), (510, "waking", 9, 1, 1), (515, "switch", 0, 1, 0),
            (600, "switch", 1, 0, 32))
    )  # fmt: skip
    assert only == ["run 10.000", "sleep 500.000", "ready 5.000", "run 85.000"]


def test_a_blocked_slice_below_the_threshold_becomes_a_run() -> None:
    (only,) = texts(
        log((0, "exec", 1, 0, 0), (10, "switch", 1, 0, 1), (18, "waking", 0, 1, 1), (20, "switch", 0, 1, 0),
            (30, "switch", 1, 0, 32))
    )  # fmt: skip
    assert only == ["run 30.000"]


def test_preemption_is_not_work() -> None:
    timeline, _ = derive(
        log((0, "exec", 1, 0, 0), (10, "switch", 1, 7, 0), (50, "switch", 7, 1, 1), (60, "switch", 1, 0, 32)),
        1,
    )
    assert (timeline.threads[0].run_ns, timeline.threads[0].ready_ns) == (20 * US, 40 * US)


def test_preemption_stands_in_the_action_file_as_ready() -> None:
    (only,) = texts(
        log((0, "exec", 1, 0, 0), (10, "switch", 1, 7, 0), (50, "switch", 7, 1, 1), (60, "switch", 1, 0, 32))
    )
    assert only == ["run 10.000", "ready 40.000", "run 10.000"]


def test_creates_and_joins_are_kept_in_their_order() -> None:
    timeline, _ = derive(FORK_AND_WAIT, 1)
    assert timeline.order == ("create 1", "join 1")


def test_the_actions_of_a_thread_add_up_to_its_times_in_the_capture() -> None:
    timeline, program = derive(FORK_AND_WAIT, 1)
    spans = schedule(program).spans
    begins = sorted(begin for begin, _ in spans)
    assert begins == sorted((0, 100 * US, 160 * US, timeline.threads[0].end_ns - 110 * US, 470 * US))


def test_a_lost_switch_in_is_mended_from_the_run_time() -> None:
    timeline, _ = derive(
        log((0, "exec", 1, 0, 0), (10, "switch", 1, 0, 1), (100, "waking", 0, 1, 1),
            (190, "runtime", 1, 0, 80 * US), (190, "switch", 1, 0, 32)), 1
    )  # fmt: skip
    assert timeline.threads[0].run_ns == 90 * US
    assert TimelineSaid.SWITCH_INS_LOST in map(kind_of, timeline.notes)


def test_a_thread_that_wakes_another_has_a_cpu_though_its_switch_in_was_lost() -> None:
    events = (
        (0, "exec", 1, 0, 0), (5, "fork", 1, 2, 0), (6, "switch", 0, 2, 0), (20, "switch", 2, 0, 1),
        (30, "switch", 1, 0, 1), (40, "waking", 0, 1, 1), (100, "waking", 1, 2, 0), (105, "switch", 0, 2, 0),
        (130, "runtime", 1, 0, 80 * US), (200, "switch", 2, 0, 32), (220, "switch", 1, 0, 32),
    )  # fmt: skip
    timeline, _ = derive(log(*events), 1)
    # Charged at 130 for 80: it ran from 50 on, and went on to its end.
    assert timeline.threads[0].run_ns == (30 + 170) * US
    assert timeline.threads[0].ready_ns == 10 * US
    first, _ = texts(log(*events))
    assert first[-3:] == ["run 50.000", "signal e0", "run 120.000"]


def test_communication_between_threads_becomes_an_event_and_not_a_sleep() -> None:
    first, second = texts(
        log((0, "exec", 1, 0, 0), (5, "fork", 1, 2, 0), (6, "switch", 0, 2, 0), (20, "switch", 2, 0, 1),
            (120, "waking", 1, 2, 0), (125, "switch", 0, 2, 0), (200, "switch", 2, 0, 32),
            (220, "switch", 1, 0, 32))
    )  # fmt: skip
    assert first == ["run 5.000", "create 1", "run 115.000", "signal e0", "run 100.000"]
    assert second == ["ready 1.000", "run 14.000", "wait e0", "ready 5.000", "run 75.000"]


def test_events_without_the_program_are_refused() -> None:
    with pytest.raises(InputError, match="nothing of process 99"):
        derive(FORK_AND_WAIT, 99)


BEGINS = ("exec", 1, 0, 0)
FORKS_AND_WAITS = [("fork", 1, 2, 0), ("switch", 1, 0, 1), ("switch", 0, 2, 0), ("waking", 2, 1, 0)]


def told(found: EventLog) -> list[tuple[str, int, int, int]]:
    return [(event.kind, event.tid, event.other, event.value) for event in found.events]


def test_perf_script_text_gives_the_same_events(tmp_path: Path) -> None:
    text = """
 bash   10 [000]   0.000001: sched:sched_process_exec: filename=/bin/x pid=1 old_pid=1
    x    1 [000]   0.000100: sched:sched_process_fork: comm=x pid=1 child_comm=x child_pid=2
    x    1 [000]   0.000150: sched:sched_switch: prev_pid=1 prev_state=S ==> next_comm=- next_pid=0
 swapper 0 [001]   0.000160: sched:sched_switch: swapper/1:0 [120] R ==> x:2 [120]
    x    2 [001]   0.000470: sched:sched_waking: comm=x pid=1 prio=120 target_cpu=000
"""
    path = tmp_path / "perf.txt"
    path.write_text(text)
    found = from_perf_script(path)
    assert told(found) == [BEGINS, *FORKS_AND_WAITS]


def test_the_last_switch_of_a_thread_that_has_no_number_any_more_ends_it(tmp_path: Path) -> None:
    text = """
 bash 10/10 [000]   0.001001: sched:sched_process_exec: filename=/bin/x pid=1 old_pid=1
    x  1/1  [000]   0.001100: sched:sched_process_fork: comm=x pid=1 child_comm=x child_pid=2
    x  1/1  [000]   0.001150: sched:sched_switch: prev_pid=1 prev_state=S ==> next_comm=x next_pid=2
    x  1/2  [000]   0.001470: sched:sched_waking: comm=x pid=1 prio=120 target_cpu=000
  :-1  1/-1 [000]   0.001500: sched:sched_waking: comm=y pid=7 prio=120 target_cpu=000
  :-1  1/-1 [000]   0.001550: sched:sched_switch: prev_pid=2 prev_state=X ==> next_comm=x next_pid=1
    x  1/1  [000]   0.001950: sched:sched_switch: prev_pid=1 prev_state=Z ==> next_comm=- next_pid=0
"""
    path = tmp_path / "perf.txt"
    path.write_text(text)
    found = from_perf_script(path)
    assert told(found)[-3:] == [("waking", 2, 7, 0), ("switch", 2, 1, 16), ("switch", 1, 0, 32)]
    assert -1 not in found.names
    timeline, _ = derive(found, 1)
    assert [(one.run_ns, one.end_ns) for one in timeline.threads] == [
        (549 * US, 949 * US), (400 * US, 549 * US)
    ]  # fmt: skip


def test_events_that_perf_lost_are_told(tmp_path: Path) -> None:
    text = """
 bash   10 [000]   0.000001: sched:sched_process_exec: filename=/bin/x pid=1 old_pid=1
    x    1 [000]   0.000100: PERF_RECORD_LOST lost 41
    x    1 [000]   0.000150: sched:sched_switch: prev_pid=1 prev_state=S ==> next_comm=- next_pid=0
    x    1 [000]   0.000160: PERF_RECORD_LOST lost 2
"""
    path = tmp_path / "perf.txt"
    path.write_text(text)
    found = from_perf_script(path)
    assert found.lost == 43
    assert any("lost 43 events" in note for note in derive(found, 1)[0].notes)


def test_the_text_of_an_lttng_trace_gives_the_same_events(tmp_path: Path) -> None:
    text = """
[0.000001000] sched_process_exec: { cpu_id = 0 }, { filename = "/bin/x", tid = 1, old_tid = 1 }
[0.000050000] sched_switch: { cpu_id = 0 }, { prev_comm = "bash", prev_tid = 10, \
prev_prio = 20, prev_state = ( "TASK_RUNNING" : container = 0 ), next_comm = "x, y", next_tid = 1 }
[0.000100000] sched_process_fork: { cpu_id = 0 }, { parent_comm = "x", parent_tid = 1, \
parent_pid = 1, child_comm = "x", child_tid = 2 }
[0.000150000] sched_switch: { cpu_id = 0 }, { prev_comm = "x, y", prev_tid = 1, \
prev_prio = 20, prev_state = ( "TASK_INTERRUPTIBLE" : container = 1 ), next_comm = "swapper/0", next_tid = 0 }
[0.000160000] sched_switch: { cpu_id = 1 }, { prev_comm = "swapper/1", prev_tid = 0, \
prev_prio = 20, prev_state = 0, next_comm = "x", next_tid = 2, next_prio = 20 }
[0.000470000] sched_waking: { cpu_id = 1 }, { comm = "x", tid = 1, prio = 20, target_cpu = 0 }
"""
    path = tmp_path / "trace.txt"
    path.write_text(text.replace("\\\n", ""))
    found = from_ctf(path)
    assert told(found) == [BEGINS, ("switch", 10, 1, 0), *FORKS_AND_WAITS]
    assert found.names[1] == "x, y"


def test_a_text_without_scheduler_events_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.txt"
    path.write_text("nothing\n")
    with pytest.raises(InputError, match="holds no sched_switch events"):
        from_ctf(path)


def charged(*rows: tuple[int, str, int, int, int]) -> EventLog:
    """Later than the laboratory's own start, as a machine's clock is."""
    return log(*((1_000_000 + t, kind, tid, other, value) for t, kind, tid, other, value in rows))


def test_a_run_is_as_long_as_the_kernel_charged_for_it() -> None:
    # The switch takes 20 us, which the coming thread is charged; the last 2 us are charged to the next one.
    timeline, program = derive(
        charged(
            (0, "exec", 1, 0, 0), (8, "runtime", 1, 0, 8 * US), (10, "switch", 1, 0, 1),
            (500, "waking", 9, 1, 1), (530, "switch", 0, 1, 0), (598, "runtime", 1, 0, 88 * US),
            (600, "switch", 1, 0, 32),
        ),
        1,
    )  # fmt: skip
    assert timeline.threads[0].run_ns == 96 * US
    assert program.budgets_ns() == {0: 96 * US}
    assert [s[2] for s in timeline.threads[0].slices] == ["running", "blocked", "ready", "running"]
    assert timeline.threads[0].ready_ns == 10 * US


def test_a_run_whose_switches_were_both_lost_is_found_by_its_charge() -> None:
    timeline, _ = derive(
        charged(
            (0, "exec", 1, 0, 0), (10, "switch", 1, 0, 1), (100, "waking", 9, 1, 1),
            (250, "runtime", 1, 0, 120 * US), (500, "switch", 0, 1, 0), (600, "switch", 1, 0, 32),
        ),
        1,
    )  # fmt: skip
    assert timeline.threads[0].run_ns == (10 + 120 + 100) * US
    assert TimelineSaid.SWITCH_INS_LOST in map(kind_of, timeline.notes)


def test_a_lost_switch_out_does_not_turn_a_wait_into_a_run() -> None:
    timeline, _ = derive(
        charged(
            (0, "exec", 1, 0, 0), (40, "runtime", 1, 0, 40 * US), (500, "switch", 0, 1, 0),
            (600, "switch", 1, 0, 32),
        ),
        1,
    )  # fmt: skip
    assert timeline.threads[0].run_ns == 140 * US


def test_a_process_that_ran_before_the_recording_is_followed_from_its_first_event_on() -> None:
    # 1 has a CPU when the recording begins, 2 is blocked, 3 ready; 2 is a thread of 1, and 3 made by it.
    events = log(
        (0, "runtime", 9, 0, 5), (100, "waking", 1, 2, 0), (120, "switch", 8, 2, 0),
        (150, "fork", 2, 3, 0), (170, "switch", 8, 3, 0), (200, "switch", 1, 0, 1), (300, "switch", 2, 0, 1),
        (400, "switch", 3, 0, 32), (500, "waking", 0, 1, 1), (510, "switch", 0, 1, 0),
        (600, "switch", 1, 0, 1),
    )  # fmt: skip
    timeline, program = derive(EventLog(events.events, processes={1: 1, 2: 1, 3: 1, 9: 9}), 1)

    first, second, third = timeline.threads
    assert [thread.parent for thread in timeline.threads] == [None, None, 1]
    assert (first.run_ns, second.blocked_ns, second.ready_ns) == (290 * US, 400 * US, 20 * US)
    assert third.run_ns == 230 * US
    assert [a.text() for a in program.threads[1]][:2] == ["wait e0", "ready 20.000"]


def test_a_process_that_is_made_and_never_seen_to_be_executed_begins_when_it_is_made() -> None:
    # As `perf sched record` tells it, which records no exec.
    timeline, _ = derive(log((0, "runtime", 9, 0, 5), *(
        (100, "fork", 9, 1, 0), (120, "switch", 9, 1, 1), (300, "switch", 1, 9, 32),
    )), 1)  # fmt: skip

    assert (timeline.total_ns, timeline.threads[0].run_ns) == (200 * US, 180 * US)


def test_threads_that_did_nothing_while_they_were_followed_slept() -> None:
    timeline, program = derive(log((0, "runtime", 9, 0, 5), (100, "waking", 1, 8, 0)), 1, there=(1, 2))

    assert [thread.blocked_ns for thread in timeline.threads] == [0, 100 * US]
    assert [a.text() for a in program.threads[1]] == ["sleep 100.000"]


def test_a_thread_that_lives_longer_than_the_recording_is_named() -> None:
    timeline, _ = derive(log((0, "exec", 1, 0, 0), (10, "fork", 1, 2, 0), (20, "switch", 1, 0, 32)), 1)
    assert timeline.notes[-1] == "1 threads (1) outlived the recording and are cut at its end"


def test_waits_that_could_never_end_are_slept_for_as_long_as_they_took() -> None:
    texts_of = {0: "create 1\nrun 5\nwait a\nsignal b\nrun 7", 1: "wait b\nrun 3\nsignal a"}
    tangled = Program({number: parse_thread(text, "test") for number, text in texts_of.items()})
    lengths = {(0, "wait a"): 4_000, (1, "wait b"): 9_000}
    mended, slept = _derive._untangled(tangled, lengths)
    assert slept == 1
    assert [action.text() for action in mended.threads[0]] == [
        "create 1", "run 5.000", "sleep 4.000", "signal b", "run 7.000",
    ]  # fmt: skip
    assert mended.threads[1] == tangled.threads[1]


def test_what_other_programs_had_of_the_cpus_is_counted_while_it_lives() -> None:
    switches = [
        (20, 0, 9, 1),
        (300, 1, 8, 0),
        (340, 8, 0, 0),
        (400, 0, 1, 0),
        (500, 1, 8, 0),
        (900, 8, 0, 0),
    ]
    events = (
        Event(10 * US, "exec", 1),
        *(Event(t * US, "switch", prev, following, 32 if (t, prev) == (500, 1) else 1, cpu)
          for t, prev, following, cpu in switches),
    )  # fmt: skip
    timeline, _ = derive(EventLog(events), 1)
    # 9 has CPU 1 from 20 us on, until the program ends at 500; 8 has CPU 0 for 40 us of that.
    assert timeline.total_ns == 490 * US
    assert timeline.others_ns == (480 + 40) * US


def test_a_timeline_keeps_what_others_had(tmp_path: Path) -> None:
    for others in (None, 7):
        save(Timeline("captured", 10, (), others_ns=others), tmp_path)
        assert load(tmp_path).others_ns == others

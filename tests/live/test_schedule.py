"""The schedule of a program that nobody prepared, against what was planted in it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from latlab.errors import InputError, UnavailableError, UsageError
from latlab.model.schedule import Schedule, Source, State, Wait
from latlab.schedule import capture_command, capture_pids
from latlab.system.cpus import ahead_of_others

PROGRAM = """
import os, socket, subprocess, sys, threading, time
class Named(threading.Thread):
    def run(self):
        open(f"/proc/self/task/{threading.get_native_id()}/comm", "w").write(self.name)
        super().run()
def sleeper():
    time.sleep(0.3)
def piped():
    r, w = os.pipe()
    child = subprocess.Popen(["/bin/sleep", "0.3"], stdout=w, close_fds=True)
    os.close(w)
    os.read(r, 1)
    child.wait()
def locked():
    held = threading.Lock(); held.acquire()
    threading.Timer(0.3, held.release).start()
    held.acquire()
def socketed():
    a, b = socket.socketpair()
    threading.Timer(0.3, lambda: b.send(b"x")).start()
    a.recv(1)
def waiting():
    subprocess.Popen(["/bin/sleep", "0.3"]).wait()
threads = [Named(target=t, name=t.__name__) for t in (sleeper, piped, locked, socketed, waiting)]
for t in threads: t.start()
for t in threads: t.join()
"""

pytestmark = pytest.mark.rights


def captured(arguments: list[str], seconds: float | None = 30.0, **options: Any) -> Schedule:
    try:
        return capture_command(arguments, seconds, **options)
    except UnavailableError as error:
        pytest.skip(str(error))


def blocked_seconds(schedule: Schedule, name: str) -> dict[str, float]:
    """Seconds that the thread of this name was blocked, by what on."""
    index = next(i for i, one in enumerate(schedule.threads) if one.name == name)
    rows = schedule.of_thread(index)
    rows = rows[rows["state"] == State.BLOCKED]
    lengths = (rows["end"] - rows["begin"]) / 1e9
    return {Wait(kind).name: float(lengths[rows["wait"] == kind].sum()) for kind in np.unique(rows["wait"])}


WAITS = {"sleeper": "TIMER", "piped": "PIPE", "locked": "FUTEX", "socketed": "SOCKET", "waiting": "CHILD"}


@pytest.fixture(scope="module")
def captures() -> list[Schedule]:
    return [captured([sys.executable, "-c", PROGRAM]) for _ in range(3)]


@pytest.fixture
def planted(captures: list[Schedule]) -> Schedule:
    return captures[0]


@pytest.mark.parametrize(("thread", "wait"), WAITS.items())
def test_a_planted_wait_is_seen_with_its_kind_and_length(
    captures: list[Schedule], thread: str, wait: str
) -> None:
    found = [blocked_seconds(one, thread) for one in captures]
    assert {max(one, key=lambda kind: one[kind]) for one in found} == {wait}
    # Beside others a thread may come late to its wait, which ends at the same time.
    assert sum(0.2 < one.get(wait, 0.0) < 0.6 for one in found) >= 2


def test_each_thread_has_one_interval_after_another_without_a_gap(planted: Schedule) -> None:
    for index in range(len(planted.threads)):
        rows = planted.of_thread(index)
        assert (rows["begin"][1:] == rows["end"][:-1]).all()
        assert (rows["end"] > rows["begin"]).all()


def longest_wait(schedule: Schedule, name: str) -> tuple[Source, int]:
    """By what the longest wait of a thread was ended, and the process of the thread that did; -1 without."""
    rows = schedule.of_thread(next(i for i, one in enumerate(schedule.threads) if one.name == name))
    longest = rows[np.argmax((rows["end"] - rows["begin"]) * (rows["state"] == State.BLOCKED))]
    waker = int(longest["waker"])
    return Source(int(longest["source"])), schedule.threads[waker].pid if waker >= 0 else -1


def test_a_sleep_is_ended_by_a_timer_and_a_socket_by_the_thread_that_sent(captures: list[Schedule]) -> None:
    slept = [longest_wait(one, "sleeper") for one in captures]
    sent = [longest_wait(one, "socketed") == (Source.THREAD, one.threads[0].pid) for one in captures]
    assert set(slept) <= {(Source.TIMER, -1), (Source.UNKNOWN, -1)}
    assert (slept.count((Source.TIMER, -1)) >= 2, sum(sent) >= 2) == (True, True)


def test_children_belong_to_the_program(planted: Schedule) -> None:
    assert sorted(one.name for one in planted.threads if one.process == "sleep") == ["sleep", "sleep"]


def test_nothing_is_lost_and_little_unseen(planted: Schedule) -> None:
    assert (planted.losses.events, planted.losses.unseen_share < 0.02) == (0, True)


def test_two_hogs_on_one_cpu_are_runnable_half_of_the_time() -> None:
    cpu = max(os.sched_getaffinity(0))
    hog = "import time\\nwhile time.process_time() < 0.4: pass"
    script = (
        f"taskset -c {cpu} {sys.executable} -c '{hog}' & taskset -c {cpu} {sys.executable} -c '{hog}'; wait"
    )
    found = captured(["bash", "-c", script.replace("\\n", "\n")])
    hogs = [i for i, one in enumerate(found.threads) if "exit" not in one.name and _ran(found, i) > 0.1]
    assert len(hogs) == 2
    for index in hogs:
        rows = found.of_thread(index)
        lengths = rows["end"] - rows["begin"]
        waited = lengths[rows["state"] == State.RUNNABLE].sum() / lengths.sum()
        assert waited > 0.25


def _ran(schedule: Schedule, index: int) -> float:
    rows = schedule.of_thread(index)
    return float((rows["end"] - rows["begin"])[rows["state"] == State.RUNNING].sum() / 1e9)


def test_when_the_time_is_over_all_processes_of_the_command_have_ended(tmp_path: Path) -> None:
    marker = f"latlab-{os.getpid()}"
    found = captured(["bash", "-c", f"(exec -a {marker} sleep 60) & sleep 60"], 0.5)
    left = subprocess.run(["pgrep", "-f", f"^{marker}"], capture_output=True, text=True, check=False).stdout
    assert (found.exit_code, left, found.seconds < 5) == (None, "", True)


def test_a_running_process_is_observed_and_goes_on() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time\nwhile True: time.sleep(0.01)"])
    try:
        try:
            found = capture_pids([process.pid], 0.6)
        except UnavailableError as error:
            pytest.skip(str(error))
        assert process.poll() is None
        times = blocked_seconds(found, found.threads[0].name)
        assert times["TIMER"] > 0.3
    finally:
        process.kill()
        process.wait()


def test_the_same_records_come_from_perf_events() -> None:
    found = captured([sys.executable, "-c", textwrap.dedent(PROGRAM)], method="perf")
    assert (found.losses.method, len(found.threads) >= 6) == ("perf", True)
    assert found.losses.notes != ()


def test_a_command_that_is_not_there_and_a_process_that_has_gone_are_one_line() -> None:
    with pytest.raises(UsageError, match="unknown command 'no-such-program'"):
        capture_command(["no-such-program"])
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(InputError, match="no such process"):
        capture_pids([process.pid], 0.1)


def test_who_traces_beside_it_by_perf_events_loses_nothing() -> None:
    from latlab.system.kernel.bpf_tracing import BpfTracer
    from latlab.system.kernel.tracing import Tracer

    try:
        outer = BpfTracer(["sched:sched_switch"])
    except UnavailableError as error:
        pytest.skip(str(error))
    with outer, Tracer(["sched:sched_switch"]) as tracer:
        subprocess.run(["sleep", "0.1"], check=True)
    assert len(tracer.events()["sched:sched_switch"]) > 0


def test_of_too_many_samples_the_latest_are_kept_and_all_of_the_seldom_ones() -> None:
    from latlab.system.kernel.bpf_tracing import BpfTracer

    names = ["sched:sched_switch", "sched:sched_process_fork"]
    try:
        tracer = BpfTracer(names, latest=50, always=names[1:])
    except UnavailableError as error:
        pytest.skip(str(error))
    with tracer:
        for _ in range(8):
            subprocess.run(["bash", "-c", "sleep 0.001; sleep 0.001; sleep 0.001"], check=True)
            tracer.keep()
    events = tracer.events()
    switches = events["sched:sched_switch"]["time_ns"]
    assert len(events["sched:sched_process_fork"]) >= 8 * 3
    assert events.forgotten.samples > 0
    # The rings of the CPUs are read one after another: of the first an event may be a little older.
    assert events.forgotten.until_ns <= switches.min() + 1_000_000


def test_who_watches_runs_before_others_and_what_it_starts_as_usual() -> None:
    usual = os.sched_getscheduler(0)
    ask = "import os; os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))"
    if subprocess.run([sys.executable, "-c", ask], capture_output=True, check=False).returncode:
        pytest.skip("no real-time policy is allowed here")
    with ahead_of_others():
        ahead = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
        child = subprocess.run(
            [sys.executable, "-c", "import os; print(os.sched_getscheduler(0))"],
            capture_output=True,
            text=True,
        )
    assert ahead == os.SCHED_RR
    assert int(child.stdout) == os.SCHED_OTHER
    assert os.sched_getscheduler(0) == usual


def test_who_observes_is_nobodys_neighbour(planted: Schedule) -> None:
    own = {int(name) for name in os.listdir("/proc/self/task")}  # noqa: PTH208
    assert own.isdisjoint(planted.foreign["tid"].tolist())


def test_a_child_is_told_by_the_program_that_it_became() -> None:
    found = captured(["bash", "-c", "(sleep 0.1; exec sleep 0.7) | (sleep 0.2; exec sleep 0.8)"], 1.5)
    started = {one.command for one in found.threads if one.tid == one.pid}
    assert {("sleep", "0.7"), ("sleep", "0.8")} <= started

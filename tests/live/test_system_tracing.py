from __future__ import annotations

import os
import subprocess
import time

import numpy as np
import pytest

from latlab.errors import UnavailableError, UsageError
from latlab.system.cpus import online_cpus
from latlab.system.kernel.tracing import Tracer, unavailable

REASON = unavailable()
rights = pytest.mark.skipif(REASON is not None, reason=f"tracing: {REASON}")


@rights
@pytest.mark.rights
def test_a_child_is_seen_from_its_fork_to_its_end() -> None:
    with Tracer() as tracer:
        child = subprocess.Popen(["sleep", "0.05"])
        child.wait()
    events = tracer.events()
    assert child.pid in events["sched:sched_process_fork"]["child_pid"]
    exec_ = events["sched:sched_process_exec"]
    assert exec_["filename"][exec_["event_pid"] == child.pid].tolist()[0].endswith(b"sleep")
    ends = events["sched:sched_process_exit"]
    assert child.pid in ends["event_pid"]
    assert events.comm()[child.pid] == "sleep"
    switch = events["sched:sched_switch"]
    assert np.count_nonzero(switch["prev_pid"] == child.pid) >= 2  # into its sleep, and at its end
    assert events.lost == 0


@rights
@pytest.mark.rights
def test_samples_are_stamped_with_the_monotonic_clock_within_the_traced_time() -> None:
    with Tracer(["sched:sched_switch"]) as tracer:
        start = time.monotonic_ns()
        time.sleep(0.01)
        end = time.monotonic_ns()
    switch = tracer.events()["sched:sched_switch"]
    mine = switch["time_ns"][switch["prev_pid"] == os.getpid()]
    assert np.count_nonzero((mine >= start) & (mine <= end)) >= 1


@rights
@pytest.mark.rights
def test_an_event_that_carries_a_count_comes_once() -> None:
    with Tracer(["sched:sched_stat_runtime", "sched:sched_switch"]) as tracer:
        deadline = time.monotonic() + 0.05
        while time.monotonic() < deadline:
            pass
    table = tracer.events()["sched:sched_stat_runtime"]
    pairs = np.stack([table["time_ns"], table["event_pid"]])
    assert np.unique(pairs, axis=1).shape[1] == len(table) > 0


@rights
@pytest.mark.rights
def test_every_sample_is_either_there_or_counted_as_lost() -> None:
    with Tracer(["raw_syscalls:sys_enter"], ring_bytes=4096) as tracer:
        for _ in range(20_000):
            os.getppid()
    table, lost = tracer.events()["raw_syscalls:sys_enter"], tracer.lost
    assert len(table) + lost >= 20_000


@rights
@pytest.mark.rights
def test_take_works_while_tracing_and_forgets_what_it_gave() -> None:
    with Tracer(["sched:sched_switch"]) as tracer:
        time.sleep(0.005)
        first = tracer.take()
        time.sleep(0.005)
    second = tracer.events()
    assert len(first) > 0
    assert len(second) > 0
    assert first["sched:sched_switch"]["time_ns"].max() <= second["sched:sched_switch"]["time_ns"].min()


@rights
@pytest.mark.rights
def test_a_glob_leaves_out_what_the_kernel_refuses() -> None:
    with Tracer(["irq_vectors:local_timer_*"]) as tracer:
        pass
    assert all(name.startswith("irq_vectors:local_timer") for name in tracer.names)


@rights
@pytest.mark.rights
def test_a_filter_is_applied_by_the_kernel() -> None:
    mine = os.getpid()
    with Tracer(["sched:sched_switch"], filters={"sched:sched_switch": f"prev_pid == {mine}"}) as tracer:
        time.sleep(0.005)
    assert set(tracer.events()["sched:sched_switch"]["prev_pid"].tolist()) == {mine}


@rights
@pytest.mark.rights
def test_an_unknown_event_and_an_absent_cpu_are_named() -> None:
    with pytest.raises(UnavailableError, match="no tracepoint sched:nonsense"):
        Tracer(["sched:nonsense"])
    with pytest.raises(UnavailableError, match=r"sched:sched_switch on CPU|offline"):
        Tracer(["sched:sched_switch"], cpus=[max(online_cpus()) + 1])
    with pytest.raises(UsageError, match="which is not traced"):
        Tracer(["sched:sched_switch"], filters={"a:b": "x"})

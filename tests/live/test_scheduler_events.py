"""The scheduler's events from the kernel's own tracepoints against the same ones from perf's."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from latlab.errors import UnavailableError
from latlab.schedule.context import CONTEXTS
from latlab.system.kernel.bpf_tracing import BpfTracer
from latlab.system.kernel.samples import Events
from latlab.system.kernel.stacks import Sampler
from latlab.system.kernel.tracefs import known_events

pytestmark = pytest.mark.rights

SWITCH, WAKING, MOVE = "sched:sched_switch", "sched:sched_waking", "sched:sched_migrate_task"
FORK = "sched:sched_process_fork"

# Blocks, sleeps, competes for a CPU, moves to another one, is stopped, ends; names and priorities of its own.
PROGRAM = """
import os, signal, threading, time
cpus = sorted(os.sched_getaffinity(0))
def called(name, work):
    def run():
        open(f"/proc/self/task/{threading.get_native_id()}/comm", "w").write(name)
        work()
    return threading.Thread(target=run)
def exchange(mine, theirs):
    for _ in range(300):
        mine.acquire()
        theirs.release()
def compete():
    os.nice(3)
    until = time.thread_time() + 0.1
    while time.thread_time() < until:
        pass
def move():
    for cpu in (cpus[0], cpus[-1]) * 5:
        os.sched_setaffinity(0, {cpu})
        time.sleep(0.001)
a, b = threading.Semaphore(1), threading.Semaphore(0)
threads = [called("to and fro", lambda: exchange(a, b)), called("fro and to", lambda: exchange(b, a)),
           called("a mover's name of any length"[:15], move)]
for one in threads: one.start()
for one in threads: one.join()
os.sched_setaffinity(0, {cpus[-1]})
children = [os.fork() or (compete(), os._exit(0)) for _ in range(2)]
stopped = os.fork() or (os.kill(os.getpid(), signal.SIGSTOP), os._exit(0))
os.waitpid(stopped, os.WUNTRACED)
os.kill(stopped, signal.SIGCONT)
for child in (*children, stopped): os.waitpid(child, 0)
"""


def traced(names: list[str], typed: bool) -> BpfTracer:
    contexts = {name: one for name, one in CONTEXTS.items() if name in names}
    try:
        return BpfTracer(
            names, registers=[SWITCH], contexts=contexts, reports=[WAKING], counts=[SWITCH], typed=typed
        )
    except UnavailableError as error:
        pytest.skip(str(error))


def both() -> tuple[Events, Events, set[int]]:
    """The same program seen in both ways, and its threads; by perf's tracepoints is the second."""
    contexts = [name for name in CONTEXTS if known_events(name)]
    names = [SWITCH, WAKING, MOVE, FORK, *contexts]
    old, new = traced(names, False), traced(names, True)
    if SWITCH not in new.typed:
        pytest.skip("this kernel doesn't describe its types, or not as it should")
    with old, new:
        process = subprocess.Popen([sys.executable, "-c", PROGRAM])
        assert process.wait() == 0
    own = {process.pid}
    forks = old.events()[FORK]
    for parent, child in zip(forks["tid"].tolist(), forks["child_pid"].tolist(), strict=True):
        if parent in own:
            own.add(child)
    return new.events(), old.events(), own


def rows(events: Events, name: str, own: set[int]) -> dict[str, np.ndarray[Any, Any]]:
    """Those that concern these threads, CPU by CPU."""
    table = events[name]
    ours = np.fromiter(own, np.int64)
    wanted = np.isin(table["tid"], ours)
    for key in ("next_pid", "event_pid"):
        if key in table.columns:
            wanted |= np.isin(table[key], ours)
    order = np.flatnonzero(wanted)
    order = order[np.argsort(table["cpu"][order], kind="stable")]
    return {key: column[order] for key, column in table.columns.items()}


@pytest.fixture(scope="module")
def seen() -> tuple[Events, Events, set[int]]:
    # Programs on perf's tracepoints are suspended while anybody on their CPU calls bpf(2), and don't say so:
    # one whole pair is enough. Those that note the contexts miss some then, too.
    for _ in range(5):
        new, old, own = both()
        switches, wakings = ([rows(events, name, own) for events in (new, old)] for name in (SWITCH, WAKING))
        if len(switches[0]["cpu"]) == len(switches[1]["cpu"]) and (
            wakings[0].get("context", wakings[0]["cpu"]).tolist()
            == wakings[1].get("context", wakings[1]["cpu"]).tolist()
        ):
            break
    return new, old, own


@pytest.mark.parametrize("name", [SWITCH, WAKING, MOVE, FORK])
def test_both_ways_give_the_same_rows_in_the_same_order(
    seen: tuple[Events, Events, set[int]], name: str
) -> None:
    new, old = rows(seen[0], name, seen[2]), rows(seen[1], name, seen[2])
    assert list(new) == list(old)
    # What each measures itself; and flags, which perf's tracepoints don't give to programs. The name of who
    # is moved isn't in its place in the record.
    own = {
        "time_ns",
        "common_flags",
        *(["context"] if name == SWITCH else []),
        *(["comm"] if name == MOVE else []),
    }
    different = [key for key in new if key not in own and new[key].tolist() != old[key].tolist()]
    assert (different, len(new["cpu"]) > 5) == ([], True)
    assert np.abs(np.median(new["time_ns"] - old["time_ns"])) < 20_000


def test_every_reason_to_leave_was_among_them(seen: tuple[Events, Events, set[int]]) -> None:
    switches = rows(seen[0], SWITCH, seen[2])
    mine = np.isin(switches["tid"], np.fromiter(seen[2], np.int64))
    states = set(switches["prev_state"][mine].tolist())
    # Asleep, stopped, ended (with or without somebody who waits for it), and taken off its CPU.
    assert states >= {1, 4, 0x100}
    assert states & {0x10, 0x20, 0x80}
    assert set(switches["prev_prio"][mine].tolist()) >= {120, 123}
    assert b"to and fro" in switches["prev_comm"].tolist()


def test_who_comes_is_who_leaves_next_on_each_cpu(seen: tuple[Events, Events, set[int]]) -> None:
    switches, ours = seen[0][SWITCH], np.fromiter(seen[2], np.int64)
    compared = 0
    for cpu in np.unique(switches["cpu"]).tolist():
        own = switches["cpu"] == cpu
        coming, leaving = switches["next_pid"][own][:-1], switches["prev_pid"][own][1:]
        # Some threads of a machine's own leave unseen, in both ways.
        known = np.isin(coming, ours)
        assert (coming[known] == leaving[known]).all()
        compared += int(known.sum())
    assert (seen[0].lost, compared > 100) == (0, True)


def test_time_in_interrupts_only_grows(seen: tuple[Events, Events, set[int]]) -> None:
    switches = seen[0][SWITCH]
    for cpu in np.unique(switches["cpu"]).tolist():
        own = switches["cpu"] == cpu
        served, time = switches["context"][own], switches["time_ns"][own]
        assert (np.diff(served) >= 0).all()
        assert served[-1] - served[0] <= time[-1] - time[0]


def test_a_ring_that_is_too_small_counts_what_it_lost() -> None:
    try:
        small = BpfTracer([SWITCH], ring_bytes=1 << 12)  # of 32 switches a CPU
    except UnavailableError as error:
        pytest.skip(str(error))
    if not small.typed:
        pytest.skip("this kernel doesn't describe its types, or not as it should")
    program = "import os\nfor _ in range(3): os.fork()\nfor _ in range(3000): os.sched_yield()"
    with small:
        subprocess.run([sys.executable, "-c", program], check=True)
    found = small.events()
    assert found.lost > 0
    assert len(found[SWITCH]) > 32


BLOCKS = """
import threading, time
def often():
    for _ in range(2000): time.sleep(0.0002)
def rarely():
    for _ in range(4): time.sleep(0.2)
threads = [threading.Thread(target=one) for one in (often, rarely)]
for one in threads: one.start()
for one in threads: one.join()
"""


def test_stacks_are_taken_where_the_switches_are_read() -> None:
    try:
        sampler = Sampler(python=False)
        tracer = BpfTracer([SWITCH, FORK], stacks=sampler)
    except UnavailableError as error:
        pytest.skip(str(error))
    if SWITCH not in tracer.typed:
        pytest.skip("this kernel doesn't describe its types, or not as it should")
    with tracer, sampler:
        process = subprocess.Popen([sys.executable, "-c", BLOCKS])
        sampler.follow(process.pid)
        assert process.wait() == 0
    stacks, events = sampler.stop(), tracer.events()
    assert tracer.takes_stacks
    forks = events[FORK]
    often, rarely = forks["child_pid"][forks["tid"] == process.pid].tolist()
    left = {tid: int((stacks.tid[stacks.running == 0] == tid).sum()) for tid in (often, rarely)}
    # Each time of a thread that blocks rarely; of the other's thousands a burst, and then one in 20 ms.
    assert 4 <= left[rarely] < 40
    assert 10 < left[often] < 400
    switches = events[SWITCH]
    for tid in (often, rarely):
        mine = switches["time_ns"][switches["tid"] == tid]
        sampled = stacks.time_ns[(stacks.running == 0) & (stacks.tid == tid)]
        behind = sampled - mine[np.searchsorted(mine, sampled, side="right") - 1]
        assert np.median(behind) < 50_000

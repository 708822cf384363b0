"""Whether disturbers that were planted are found and named: 350 preemptions of 50 µs, then a beat of 100 Hz.

The disturber is a real-time thread that sleeps, runs for 50 µs, and notes when it ran, with the clock that
gaps are stamped with. An injection is found if a gap of at least half its length lies over it, and named if
that gap's sources name the disturber.

Needs root and tracing rights. Run with ``python -m benchmarks.jitter_attribution [CPU]``; with ``--beside CPU
[WHAT]`` the disturber has ten unlike rates and lengths, each beside a competitor, a UDP flood and page faults
on the same core (40 s each), and its beat's cause is judged, too.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

from latlab.jitter import analyse, measure
from latlab.jitter._analyse import OWN_NAME
from latlab.jitter._attribution import attribute

COUNT = 350
BUSY_NS = 50_000
# Its waits are random (or exactly periodic).
DISTURBER = """
import ctypes, os, random, sys, time
cpu, count, busy_ns, period_ns = (int(x) for x in sys.argv[1:])
ctypes.CDLL(None).prctl(15, b"vandal", 0, 0, 0)
os.sched_setaffinity(0, {cpu})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(20))
clock, at = time.monotonic_ns, random.Random(1)
print("ready", flush=True)
runs, due = [], clock() + 300_000_000
for _ in range(count):
    due += period_ns or at.randrange(2_000_000, 10_000_000)
    time.sleep(max(0, due - clock()) / 1e9)
    start = clock()
    while clock() - start < busy_ns:
        pass
    runs.append((start, clock()))
print("\\n".join(f"{a} {b}" for a, b in runs))
"""


def disturbed(cpu: int, seconds: float, *arguments: int):  # type: ignore[no-untyped-def]
    """A run beside the disturber, and when it ran."""
    command = [sys.executable, "-c", DISTURBER, str(cpu), *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as vandal:
        assert vandal.stdout is not None
        vandal.stdout.readline()
        measured = measure([cpu], seconds, ring=100_000)
        text, _ = vandal.communicate(timeout=60)
    return measured, np.array([line.split() for line in text.splitlines()], dtype=np.int64)


def found_and_named(measured, runs, busy_ns: int = BUSY_NS):  # type: ignore[no-untyped-def]
    """Of the injections inside of the run: how many, how many in a gap, how many in one that names it."""
    [core] = measured.cores
    joined = attribute([core], measured.events, OWN_NAME, 1.0)
    ends = core.gap_start_ns + core.gap_each_ns
    inside = (runs[:, 0] > core.start_ns) & (runs[:, 1] < core.start_ns + core.ns(core.wall_ticks))
    found = named = 0
    for start, end in runs[inside]:
        over = np.minimum(ends, end) - np.maximum(core.gap_start_ns, start)
        hit = np.nonzero(over >= busy_ns / 2)[0]
        found += bool(len(hit))
        known = any("vandal" in joined.named[core.cpu][i] for i in hit)
        named += known
        if not known:
            print(f"    not named: {start} to {end}, in {[joined.named[core.cpu][i] for i in hit]}")
    return int(inside.sum()), found, named


# Rate in Hz and length in ns of ten disturbers: no two alike, none a multiple of the tick's rate.
TEN = ((430, 20_000), (210, 40_000), (170, 60_000), (97, 100_000), (61, 150_000),
       (43, 250_000), (29, 400_000), (23, 700_000), (17, 1_200_000), (13, 2_000_000))  # fmt: skip
BESIDE = {
    "a competitor": "while True: pass",
    "a UDP flood": """
import socket
a = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); a.bind(("127.0.0.1", 0)); a.setblocking(False)
b = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); b.connect(a.getsockname())
while True:
    for _ in range(64): b.send(bytes(1000))
    try:
        while True: a.recv(2000)
    except BlockingIOError: pass
""",
    "page faults": """
import mmap
while True:
    with mmap.mmap(-1, 1 << 24) as some:
        for at in range(0, 1 << 24, 4096): some[at] = 1
""",
}
_SECONDS = 2.2


def judged(measured, period_ns: int) -> tuple[int, int, int, list[str], list[str]]:  # type: ignore[no-untyped-def]
    """Of the planted beat: right, wrong and unknown causes; the wrong ones' words; what else is told.

    Only the planted period, told as the disturber's, is right. Wrong is every other name on it, and the
    disturber's name on every other period, its own halves and thirds included. Of what else beats here
    nothing is known: those are listed, and are neither.
    """
    right = unknown = 0
    wrong, others = [], []
    for one in analyse(measured).periods:
        planted = abs(one.period_ns / period_ns - 1.0) < 2e-3
        words = f"{one.cause} (planted: {period_ns / 1e6:.3f} ms, share {one.share:.2f})"
        if "cause unknown" in one.cause:
            unknown += planted
            others += [] if planted else [words]
        elif planted and "vandal" in one.cause:
            right += 1
        elif planted or "vandal" in one.cause:
            wrong.append(words)
        else:
            others.append(words)
    return right, len(wrong), unknown, wrong, others


def beside(cpu: int, whats: list[str]) -> None:
    """Ten disturbers, each beside each of the others that are named."""
    counted = found = named = right = wrong = unknown = missed = others = 0
    for what in whats:
        pinned = f"import os; os.sched_setaffinity(0, {{{cpu}}})\n{BESIDE[what]}"
        with subprocess.Popen([sys.executable, "-c", pinned]) as other:
            try:
                for hz, busy_ns in TEN:
                    period = round(1e9 / hz)
                    measured, runs = disturbed(cpu, _SECONDS, int(hz * (_SECONDS + 0.6)), busy_ns, period)
                    assert measured.events is not None, measured.trace_refused
                    one = found_and_named(measured, runs, busy_ns)
                    causes = judged(measured, period)
                    counted, found, named = counted + one[0], found + one[1], named + one[2]
                    right, wrong, unknown = right + causes[0], wrong + causes[1], unknown + causes[2]
                    missed += sum(causes[:3]) == 0
                    others += len(causes[4])
                    print(f"{what}, {hz} Hz of {busy_ns / 1e3:.0f} us: {one[2]} of {one[0]} named, lost "
                          f"{measured.events.lost}; causes right {causes[0]}, wrong {causes[1]}, "
                          f"unknown {causes[2]} {causes[3] or ''}; "
                          f"others {causes[4]}", flush=True)  # fmt: skip
            finally:
                other.kill()
    print(f"preemptions: {counted}, found {100 * found / counted:.2f} %")
    print(f"preemptions named: {100 * named / counted:.2f} % (bar >= 99.5 %)")
    print(
        f"right cause: {right} of {right + wrong} (bar >= 95 %), unknown {unknown};"
        f" planted beats missed in {missed}; other beats told {others}"
    )


def main() -> None:
    """Print each bar beside what was measured."""
    if sys.argv[1:2] == ["--beside"]:
        beside(int(sys.argv[2]), sys.argv[3:] or list(BESIDE))
        return
    cpu = int(sys.argv[1]) if len(sys.argv) > 1 else max(os.sched_getaffinity(0))
    result = analyse(measure([cpu], 3.0))
    known, joined = result.attributed or 0.0, result.joined or 0.0
    print(f"gap time with a known source, undisturbed: {100 * known:.2f} % (bar >= 96 %);", end=" ")
    print(f"joined to kernel events {100 * joined:.2f} %")
    for one in result.sources[:6]:
        print(f"    {(one.total_ns or 0) / 1e3:9.1f} us  {one.count:5}  {one.layer}: {one.name}")

    measured, runs = disturbed(cpu, 6.0, COUNT, BUSY_NS, 0)
    assert measured.events is not None, measured.trace_refused
    count, found, named = found_and_named(measured, runs)
    print(f"injected preemptions found: {found} of {count} ({100 * found / count:.2f} %; bar >= 99.5 %)")
    print(f"injected preemptions named: {named} of {count} ({100 * named / count:.2f} %; bar >= 99.5 %)")
    result = analyse(measured)
    print(
        f"the ranking counts the disturber {sum(s.count for s in result.sources if s.name == 'vandal')} times"
    )
    print(f"gap time with a known source: {100 * (result.attributed or 0):.2f} % (bar >= 96 %);", end=" ")
    print(f"joined {100 * (result.joined or 0):.2f} %, lost events {measured.events.lost}")

    measured, _ = disturbed(cpu, 3.5, 300, BUSY_NS, 10_000_000)
    periods = analyse(measured).periods
    for beat in periods:
        print(f"beat: {beat.period_ns / 1e6:.4f} ms, p {beat.p_value:.1g}, {beat.cause} (planted: 10 ms)")
    right = any(abs(beat.period_ns / 1e7 - 1) < 1e-3 and "vandal" in beat.cause for beat in periods)
    print(f"the planted 100 Hz is {'found and named' if right else 'MISSED'}")


if __name__ == "__main__":
    main()

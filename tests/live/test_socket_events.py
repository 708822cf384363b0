"""Calls on sockets, arrivals and page faults from the kernel's own tracepoints against those from perf's."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from latlab.errors import UnavailableError
from latlab.schedule.collect import FAULTS, PAYLOAD_BYTES, SOCKETS
from latlab.system.kernel.bpf_tracing import BpfTracer
from latlab.system.kernel.samples import Events
from latlab.system.kernel.tracefs import known_events

pytestmark = pytest.mark.rights

# Every way to move bytes through a socket: by one buffer, several, a message; short, long, none; looked at
# and left; failing; over TCP, between processes, and by threads that end right behind it.
PROGRAM = """
import mmap, os, socket, sys, threading
sys.stdin.readline()
listener = socket.create_server(("127.0.0.1", 0))
a = socket.create_connection(listener.getsockname())
b, _ = listener.accept()
for one, other in ((a, b), socket.socketpair()):
    for size in (1, 63, 64, 65, 255, 256, 257, 5000):
        for _ in range(20):
            data = bytes(i % 251 for i in range(size))
            one.sendall(data)
            other.recv(1, socket.MSG_PEEK)
            left = size
            while left: left -= len(other.recv(left))
    one.sendmsg([b"head", b"body"])
    other.recvmsg(100)
    os.writev(one.fileno(), [b"first buffer", b"second"])
    first, second = bytearray(5), bytearray(50)
    os.readv(other.fileno(), [first, second])
    os.write(one.fileno(), b"written")
    os.read(other.fileno(), 100)
    other.setblocking(False)
    try: other.recv(10)
    except BlockingIOError: pass
    threads = [threading.Thread(target=one.send, args=(b"by a thread that ends",)) for _ in range(5)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    one.close()
    while other.recv(1000): pass
pages = mmap.mmap(-1, 200 * 4096)
for at in range(0, len(pages), 4096): pages[at] = 1
"""


def tracer(names: list[str], typed: bool) -> BpfTracer:
    calls = SOCKETS[:2]
    try:
        return BpfTracer(
            names, registers=calls, payload_bytes=dict.fromkeys(calls, PAYLOAD_BYTES), typed=typed,
            chosen=(*calls, *FAULTS), keys={SOCKETS[0]: "sk", SOCKETS[1]: "sk", SOCKETS[2]: "skaddr"},
            counted=calls,
        )  # fmt: skip
    except UnavailableError as error:
        pytest.skip(str(error))


def started() -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, text=True)


def both() -> tuple[Events, Events, int]:
    names = [*SOCKETS, *(name for name in FAULTS if known_events(name))]
    old, new = tracer(names, False), tracer(names, True)
    if not {*SOCKETS} <= {*new.typed}:
        pytest.skip("this kernel doesn't describe its types, or not as it should")
    with old, new, started() as process:
        old.add_process(process.pid)
        new.add_process(process.pid)
        process.communicate("\n")
    return new.events(), old.events(), process.pid


def rows(events: Events, name: str, pid: int) -> dict[str, np.ndarray[Any, Any]]:
    table = events[name]
    return {key: column[table["pid"] == pid] for key, column in table.columns.items()}


@pytest.fixture(scope="module")
def seen() -> tuple[Events, Events, int]:
    # Programs on perf's tracepoints are left out while another one of them runs on their CPU, and so is a
    # program inside of itself, as by a fault; neither says so: one whole pair is enough.
    for _ in range(5):
        new, old, pid = both()
        counts = {
            name: [len(rows(one, name, pid)["pid"]) for one in (new, old)]
            for name in (*SOCKETS, *FAULTS)
            if name in new
        }
        if all(counts[name][0] == counts[name][1] for name in SOCKETS) and all(
            a >= b for a, b in counts.values()
        ):
            break
    return new, old, pid


@pytest.mark.parametrize("name", SOCKETS)
def test_both_ways_give_the_same_calls_in_the_same_order(seen: tuple[Events, Events, int], name: str) -> None:
    new, old = rows(seen[0], name, seen[2]), rows(seen[1], name, seen[2])
    assert list(new) == list(old)
    own = {"time_ns", "common_flags", "common_type", "common_preempt_count", "common_pid", "ip", "payload"}
    different = [key for key in new if key not in own and new[key].tolist() != old[key].tolist()]
    assert (different, len(new["pid"]) > 300) == ([], True)
    assert np.abs(np.median(new["time_ns"] - old["time_ns"])) < 20_000


@pytest.mark.parametrize("name", SOCKETS[:2])
def test_what_a_call_moved_is_what_its_buffer_held(seen: tuple[Events, Events, int], name: str) -> None:
    new, old = rows(seen[0], name, seen[2]), rows(seen[1], name, seen[2])
    captured = new["captured"].tolist()
    texts = [
        [one.tobytes()[:count] for one, count in zip(found["payload"], captured, strict=True)]
        for found in (new, old)
    ]
    assert texts[0] == texts[1]
    whole = bytes(i % 251 for i in range(PAYLOAD_BYTES))
    assert {whole, whole[:63], whole[:64], whole[:65], b"written"} <= {*texts[0]}
    # Of several buffers the first; a peer that ends, or has sent nothing yet, gives none.
    only_here = (
        {b"head", b"first buffer", b"by a thread that ends"} if name == SOCKETS[0] else {b"first", b""}
    )
    assert only_here <= {*texts[0]}


def test_missing_pages_are_told_alike(seen: tuple[Events, Events, int]) -> None:
    for name in FAULTS:
        if name not in seen[0]:
            continue
        new, old = rows(seen[0], name, seen[2]), rows(seen[1], name, seen[2])
        # A fault may come inside of a program of ours, which perf's tracepoints leave out.
        assert len(new["pid"]) >= len(old["pid"])
        for key in ("address", "ip", "error_code"):
            assert {*old[key].tolist()} <= {*new[key].tolist()}
    assert len(rows(seen[0], FAULTS[0], seen[2])["pid"]) >= 200


def test_nothing_of_strangers_comes_and_nothing_is_lost(seen: tuple[Events, Events, int]) -> None:
    assert seen[0].lost == 0
    for name in (*SOCKETS[:2], *(one for one in FAULTS if one in seen[0])):
        assert {*seen[0][name]["pid"].tolist()} <= {seen[2]}


@pytest.mark.parametrize("typed", [True, False])
def test_of_the_sockets_those_are_seen_whose_hash_is_low_and_no_others(typed: bool) -> None:
    program = """
import socket, sys
pairs = [socket.socketpair() for _ in range(200)]
for turn in range(2):
    sys.stdin.readline()
    for one, other in pairs:
        one.send(b"x")
        other.recv(1)
    print(flush=True)
"""
    trace = tracer(list(SOCKETS), typed)
    command = [sys.executable, "-c", program]
    with (
        trace,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        trace.add_process(process.pid)
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        trace.keep()
        keys, counts = trace.counts()[SOCKETS[0]]
        below = trace.sample(keys, 50)
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        assert process.wait() == 0
        trace.keep()
        after = trace.counts()[SOCKETS[0]][0]
        trace.keep()
    again = trace.events()[SOCKETS[0]]["sk"]
    assert (len(keys), counts.max()) == (200, 1)
    assert len(again) == 250
    expected = {int(key) for key, low in zip(keys, trace.hashes(keys) < below, strict=True) if low}
    assert len(expected) == 50
    second = [int(key) for key in again[-50:]]
    assert {*second} == expected
    assert {int(key) for key in after} <= expected

"""What observing costs a server whose requests come at 20,000 a second.

    python -m benchmarks.requests_cost [--only redis|none|busy] [--seconds 4] [--rounds 5]

redis and a C++ server with a thread a connection are asked 20,000 times a second by 16 connections at their
own instants (open loop), and the CPU time of server and client is told per request, with latlab and without,
in turn; what latlab itself takes stands beside it. Since neither fills the machine, the cost is what these
take of all its CPUs: what a closed loop would lose in throughput there. So the same C++ server is also asked
as fast as it answers, with work that lets it reach about 20,000 on two CPUs: throughput is what it loses. Of
each the median over the rounds, of which one takes the seconds given, of at least 2.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.requests_planted import built
from benchmarks.requests_servers import redis
from latlab.words import duration, share, table

_CONNECTIONS = 16
_RATE_HZ = 20_000
_START_S = 60.0  # until latlab observes, at most
_BEHIND_S = 2  # for which it goes on behind the client
_DRAINS = "latlab-drain"  # the thread that is there while it observes
_CLIENT_S = 0.8  # until the client asks in its rhythm: it looks how long an answer is first


@dataclass(frozen=True)
class _Case:
    """A server, what it is asked, and how often a connection asks, in µs; 0: as fast as it answers."""

    name: str
    request: bytes
    interval_us: int


_SPACED_US = 1_000_000 * _CONNECTIONS // _RATE_HZ
_CASES = (
    _Case("redis", b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", _SPACED_US),
    _Case("none", b"hello\n", _SPACED_US),
    _Case("busy", b"hello\n", 0),
)


@dataclass(frozen=True)
class _Run:
    """Requests a second; CPU time a request of server and client, and of latlab, in ns."""

    rate_hz: float
    both_ns: float
    latlab_ns: float
    sampled: float = 1.0
    lost: int = 0


@contextmanager
def _served(case: _Case, folder: Path) -> Iterator[tuple[int, int]]:
    if case.name == "redis":
        with redis(folder) as found:
            yield found
        return
    command = [str(built("server")), case.name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as server:
        assert server.stdout is not None
        try:
            yield server.pid, int(server.stdout.readline())
        finally:
            server.kill()


def _cpu_ns(pid: int) -> int:
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return sum(int((one / "schedstat").read_text().split()[0]) for one in threads)
    except OSError:  # one has just ended
        return 0


def _wait_for(pid: int) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        try:
            names = [(one / "comm").read_text().strip() for one in Path(f"/proc/{pid}/task").iterdir()]
        except OSError:  # one has just ended
            names = []
        if _DRAINS in names:
            return
        time.sleep(0.02)
    raise SystemExit("latlab did not begin to observe")


def _run(case: _Case, pid: int, port: int, request: Path, seconds: int, observed: bool) -> _Run:
    recorder = None
    if observed:
        words = ["requests", "record", "--pid", str(pid), "--json", "--seconds", str(seconds + _BEHIND_S)]
        recorder = subprocess.Popen(
            [sys.executable, "-m", "latlab", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        _wait_for(recorder.pid)
    client = subprocess.Popen(
        [
            str(built("client")),
            str(port),
            str(_CONNECTIONS),
            str(case.interval_us),
            str(seconds),
            str(request),
        ],
        stdout=subprocess.PIPE,
    )
    time.sleep(_CLIENT_S)
    watched = [pid, client.pid, *([recorder.pid] if recorder else [])]
    before, began = [_cpu_ns(one) for one in watched], time.monotonic_ns()
    time.sleep(seconds - _CLIENT_S)
    after, ended = [_cpu_ns(one) for one in watched], time.monotonic_ns()
    out, _ = client.communicate()
    count = sum(began <= int(line.split()[0]) < ended for line in out.splitlines())
    used = [late - early for early, late in zip(before, after, strict=True)]
    rate = count / (ended - began) * 1e9
    if recorder is None:
        return _Run(rate, sum(used) / count, 0.0)
    found = json.loads(recorder.communicate(timeout=300)[0])
    lost, part = int(found["lost_events"]), float(found["sampled_share"])
    return _Run(rate, sum(used[:2]) / count, used[2] / count, part, lost)


def main() -> None:
    """Print one row a case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", choices=[one.name for one in _CASES])
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    seconds, rounds = asked.seconds, asked.rounds
    rows = []
    for case in _CASES:
        if asked.only not in (None, case.name):
            continue
        with tempfile.TemporaryDirectory() as name, _served(case, Path(name)) as (pid, port):
            request = Path(name) / "request"
            request.write_bytes(case.request)
            plain, seen = [], []
            for _ in range(rounds):
                plain.append(_run(case, pid, port, request, seconds, False))
                seen.append(_run(case, pid, port, request, seconds, True))
        own = statistics.median(one.both_ns for one in plain)
        more = statistics.median(one.both_ns for one in seen) - own
        latlab = statistics.median(one.latlab_ns for one in seen)
        rate = statistics.median(one.rate_hz for one in plain)
        lost = 1 - statistics.median(one.rate_hz for one in seen) / rate
        of_machine = (more + latlab) * rate / 1e9 / len(os.sched_getaffinity(0))
        rows.append((
            {"none": "C++, open loop", "busy": "C++, closed loop"}.get(case.name, f"{case.name}, open loop"),
            f"{rate:,.0f}", duration(own), duration(more), duration(latlab), share(of_machine),
            share(lost, signed=True) if not case.interval_us else "–",
            share(statistics.median(one.sampled for one in seen)), f"{max(one.lost for one in seen):,}",
        ))  # fmt: skip
    print(table(
        ("server", "requests/s", "CPU a request", "more with latlab", "latlab's own", "of all CPUs",
         "throughput lost", "connections observed", "events lost"), rows,
    ))  # fmt: skip


if __name__ == "__main__":
    main()

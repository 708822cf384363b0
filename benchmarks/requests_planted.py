"""Planted causes of slow requests: how often `latlab requests` names them, and how true its p99 is.

Over 400 lines: the servers, what is planted in each and how an answer is held against it stand side by
side.

    python -m benchmarks.requests_planted [--seed 1] [--only PART] [--seconds 5] [--json FILE]

Servers of our own (`requests_programs`: C++ threads, Python threads, asyncio) and of the distribution (redis,
nginx, PostgreSQL, where they are installed), each with one cause of a slow tail, are loaded by a client that
asks at fixed instants and times each answer, and observed meanwhile. The seed draws the rate, the number of
connections and the strength of what disturbs from outside. Right: the answer names the planted part.
Withheld: it names none. Wrong: it names another. The client's p99 is the truth that latlab's is held against,
with the way there and back in it; the parts of each slow request must sum to its time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.requests_servers import nginx, postgresql, redis, run
from latlab.words import duration, share, table

PROGRAMS = Path(__file__).parent / "requests_programs"
# On a disk, since some servers wait for one, and where a run that is killed leaves nothing that is committed.
_SCRATCH = Path(__file__).parents[1] / "build" / "requests_planted"
_START_S = 6  # until latlab observes, on a busy machine
_LINE = b"get something\n"


@dataclass
class Case:
    """A server with a planted cause.

    Attributes:
        truth: the parts that are right, each with what its place must contain ("" for any).
        serve: starts it in a folder; gives its process and port.
        asked, other, every: what is asked, and what every nth time instead.
        outside: what disturbs it meanwhile, given its process and port.
        cpu: it may run on this one alone.
    """

    name: str
    truth: Sequence[tuple[str, str]]
    serve: Callable[[ExitStack, Path], tuple[int, Any]]
    asked: bytes = _LINE
    other: bytes = b""
    every: int = 0
    outside: Callable[[ExitStack, int, int, random.Random], None] | None = None
    cpu: int | None = None
    connections: tuple[int, int] = (3, 6)
    needs: str = ""
    rate_hz: tuple[int, int] = (700, 1500)
    facts: dict[str, Any] = field(default_factory=dict)


def own(stack: ExitStack, folder: Path, *command: str) -> tuple[int, int]:
    process = subprocess.Popen(list(command), stdout=subprocess.PIPE, text=True, cwd=folder)
    stack.callback(process.wait)
    stack.callback(process.kill)
    stack.callback(_continue, process.pid)
    assert process.stdout is not None
    stack.enter_context(process.stdout)
    return process.pid, int(process.stdout.readline())


def _continue(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return  # it has ended


def _cxx(cause: str, upstream: bool = False) -> Callable[[ExitStack, Path], tuple[int, int]]:
    def serve(stack: ExitStack, folder: Path) -> tuple[int, int]:
        binary = built("server")
        behind = [str(_slow_peer(stack, folder))] if upstream else []
        return own(stack, folder, str(binary), cause, *behind)

    return serve


def _python(program: str, cause: str, upstream: bool = False) -> Callable[[ExitStack, Path], tuple[int, int]]:
    def serve(stack: ExitStack, folder: Path) -> tuple[int, int]:
        behind = [str(_slow_peer(stack, folder))] if upstream else []
        return own(stack, folder, sys.executable, str(PROGRAMS / f"{program}_server.py"), cause, *behind)

    return serve


def _slow_peer(stack: ExitStack, folder: Path) -> int:
    return own(stack, folder, sys.executable, str(PROGRAMS / "asyncio_server.py"), "upstream")[1]


_SLOW_HTTP = """
import http.server, itertools, time
numbers = itertools.count(1)
class Up(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if next(numbers) % 150 == 0: time.sleep(0.02)
        self.send_response(200)
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"up\\n")
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Up)
print(server.server_port, flush=True)
server.serve_forever()
"""


def redis_with(*options: str) -> Callable[[ExitStack, Path], tuple[int, int]]:
    def serve(stack: ExitStack, folder: Path) -> tuple[int, int]:
        pid, port = stack.enter_context(redis(folder, ["--enable-debug-command", "yes", *options]))
        run("redis-cli", "-p", str(port), "set", "key", "value")
        run("redis-cli", "-p", str(port), "debug", "populate", "200000")
        large = resp("set", "large", "v" * (12 << 20))
        subprocess.run(
            ["redis-cli", "-p", str(port), "--pipe"], input=large, stdout=subprocess.DEVNULL, check=True
        )
        return pid, port

    return serve


def nginx_with(upstream: bool = False) -> Callable[[ExitStack, Path], tuple[int, int]]:
    def serve(stack: ExitStack, folder: Path) -> tuple[int, int]:
        behind = own(stack, folder, sys.executable, "-c", _SLOW_HTTP)[1] if upstream else 0
        pid, port = stack.enter_context(nginx(folder, behind))
        (folder / "large.bin").write_bytes(b"v" * (24 << 20))
        return pid, port

    return serve


def postgresql_with(stack: ExitStack, folder: Path) -> tuple[int, int]:
    pid, port = stack.enter_context(postgresql(folder))
    psql(
        port,
        "create table t (id int primary key, n int); insert into t select i, 0 from generate_series(1, 50) i",
    )
    return pid, port


def psql(port: int, query: str) -> None:
    run("psql", "-q", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres", "-c", query)


def resp(*words: str) -> bytes:
    parts = [f"${len(word)}\r\n{word}\r\n" for word in words]
    return f"*{len(words)}\r\n{''.join(parts)}".encode()


def http(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode()


def pause(stack: ExitStack, pid: int, _: int, chance: random.Random) -> None:
    ended = threading.Event()

    def often() -> None:
        while not ended.wait(chance.uniform(0.15, 0.35)):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(chance.uniform(0.025, 0.05))
            os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=often)
    thread.start()
    stack.callback(thread.join)
    stack.callback(ended.set)


def neighbour(stack: ExitStack, pid: int, _: int, chance: random.Random) -> None:
    busy = (
        "import time\nopen('/proc/self/comm', 'w').write('neighbour')\nwhile True:\n"
        f"    end = time.monotonic() + {chance.uniform(0.03, 0.06)}\n"
        f"    while time.monotonic() < end: pass\n    time.sleep({chance.uniform(0.2, 0.4)})"
    )
    process = subprocess.Popen([sys.executable, "-c", busy])
    stack.callback(process.wait)
    stack.callback(process.kill)
    os.sched_setaffinity(process.pid, {0})
    os.setpriority(os.PRIO_PROCESS, process.pid, -15)


def quota(stack: ExitStack, pid: int, _: int, chance: random.Random) -> None:
    old, new = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
    group = (old if old.is_dir() else new) / f"latlab-planted-{os.getpid()}"
    group.mkdir()
    stack.callback(_gone, group, (old if old.is_dir() else new) / "cgroup.procs")
    part = chance.randint(15, 25) * 1_000
    if old.is_dir():
        (group / "cpu.cfs_period_us").write_text("100000")
        (group / "cpu.cfs_quota_us").write_text(str(part))
    else:
        (group / "cpu.max").write_text(f"{part} 100000")
    (group / "cgroup.procs").write_text(str(pid))


def _gone(group: Path, parent: Path) -> None:
    for pid in (group / "cgroup.procs").read_text().split():
        parent.write_text(pid)
    group.rmdir()


def _bursts(stack: ExitStack, _: int, port: int, chance: random.Random) -> None:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    script = "local n = 0 for i = 1, 20000 do n = n + i end return n"
    (folder / "asked").write_bytes(resp("eval", script, "0"))
    (folder / "other").write_bytes(b"")
    connections, interval_us = chance.randint(24, 40), chance.randint(300, 500) * 1000
    client = [str(built("client")), str(port), str(connections), str(interval_us), "30"]
    asking = subprocess.Popen(
        [*client, str(folder / "asked"), "-1", str(folder / "other")], stdout=subprocess.DEVNULL
    )
    stack.callback(asking.wait)
    stack.callback(asking.kill)


def _row_lock(stack: ExitStack, _: int, port: int, chance: random.Random) -> None:
    """Somebody who keeps a row to himself while he thinks: none of his statements takes long."""
    ended = threading.Event()
    words = ["psql", "-q", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres"]
    client = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)

    def often() -> None:
        with client:
            assert client.stdin is not None
            while not ended.wait(chance.uniform(0.2, 0.4)):
                client.stdin.write("begin;\nupdate t set n = n + 1 where id = 7;\n")
                client.stdin.flush()
                ended.wait(0.03)
                client.stdin.write("commit;\n")
                client.stdin.flush()

    thread = threading.Thread(target=often)
    thread.start()
    stack.callback(thread.join)
    stack.callback(ended.set)


_BUSY = [("receive-queue", "busy"), ("receive-queue", "")]
_GET = resp("get", "key")
CASES = [
    Case("cxx lock", [("lock", "")], _cxx("lock")),
    Case("cxx lock held computing", [("lock", "")], _cxx("lock-busy")),
    Case("cxx fsync", [("disk", "")], _cxx("fsync")),
    Case("cxx sleep", [("timer", "")], _cxx("sleep")),
    Case("cxx compute", [("running", "")], _cxx("compute")),
    Case("cxx page faults", [("fault", "")], _cxx("fault")),
    Case("cxx slow peer", [("process", "")], _cxx("none", upstream=True)),
    Case("cxx large value", [("send", ""), ("running", "")], _cxx("large")),
    Case("cxx paused", [("process", "stopped")], _cxx("none"), outside=pause),
    Case("cxx neighbour", [("runnable", "neighbour")], _cxx("none"), outside=neighbour, cpu=0),
    Case("cxx quota", [("runnable", "quota")], _cxx("compute"), outside=quota),
    Case("threads lock", [("lock", "")], _python("threads", "lock")),
    Case("threads fsync", [("disk", "")], _python("threads", "fsync")),
    Case("threads sleep", [("timer", "")], _python("threads", "sleep")),
    Case("threads interpreter's lock", [("lock", "")], _python("threads", "interpreter")),
    Case("threads slow peer", [("process", "")], _python("threads", "none", upstream=True)),
    Case("threads paused", [("process", "stopped")], _python("threads", "none"), outside=pause),
    Case("asyncio sleep", [("timer", "")], _python("asyncio", "sleep")),
    Case("asyncio compute", [("running", ""), *_BUSY], _python("asyncio", "compute")),
    Case("asyncio slow peer", [("process", "")], _python("asyncio", "none", upstream=True)),
    Case("asyncio paused", [("process", "stopped")], _python("asyncio", "none"), outside=pause),
    Case("redis sleep", [("timer", "")], redis_with(), _GET, resp("debug", "sleep", "0.02"), 200,
         needs="redis-server"),
    Case("redis keys", [("running", ""), *_BUSY], redis_with(), _GET, resp("keys", "key:1111*"), 150,
         needs="redis-server"),
    Case("redis large value", [("send", ""), ("running", ""), *_BUSY], redis_with(), _GET,
         resp("get", "large"), 150, needs="redis-server"),
    Case("redis paused", [("process", "stopped")], redis_with(), _GET, outside=pause, needs="redis-server"),
    Case("redis neighbour", [("runnable", "neighbour")], redis_with(), _GET, outside=neighbour, cpu=0,
         needs="redis-server"),
    Case("redis quota", [("runnable", "quota")], redis_with(), _GET, resp("keys", "key:1111*"), 150,
         outside=quota, needs="redis-server"),
    Case("redis burst", _BUSY, redis_with(), _GET, outside=_bursts, needs="redis-server"),
    Case("nginx slow upstream", [("process", "")], nginx_with(upstream=True), http("/up"), needs="nginx",
         rate_hz=(300, 500)),
    Case("nginx large file", [("send", ""), ("running", ""), *_BUSY], nginx_with(), http("/"),
         http("/large.bin"), 150, needs="nginx"),
    Case("nginx paused", [("process", "stopped")], nginx_with(), http("/"), outside=pause, needs="nginx"),
    Case("nginx neighbour", [("runnable", "neighbour")], nginx_with(), http("/"), outside=neighbour, cpu=0,
         needs="nginx"),
    Case("postgresql row lock", [("lock", ""), ("process", "postgres")], postgresql_with, outside=_row_lock,
         needs="pgbench"),
]  # fmt: skip


_binaries = tempfile.TemporaryDirectory()


def built(name: str) -> Path:
    binary = Path(_binaries.name) / name
    if not binary.exists():
        run("g++", "-std=c++20", "-O2", "-g", "-pthread", str(PROGRAMS / f"{name}.cpp"), "-o", str(binary))
    return binary


@contextmanager
def _served(case: Case, folder: Path) -> Iterator[tuple[ExitStack, int, Any]]:
    with ExitStack() as stack:
        pid, port = case.serve(stack, folder)
        if case.cpu is not None:
            for task in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setaffinity(int(task.name), {case.cpu})
        yield stack, pid, port


def measure(case: Case, seed: int, seconds: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """One run: what was planted and said, beside the client's p99; and all that was found."""
    chance = random.Random(f"{case.name} {seed}")
    _SCRATCH.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=_SCRATCH))
    try:
        with _served(case, folder) as (stack, pid, port):
            connections = chance.randint(*case.connections)
            interval_us = round(1e6 * connections / chance.randint(*case.rate_hz))
            (folder / "asked").write_bytes(case.asked)
            (folder / "other").write_bytes(case.other)
            client = [str(built("client")), str(port), str(connections), str(interval_us),
                      str(seconds + _START_S), str(folder / "asked")]  # fmt: skip
            if case.other:
                client += [str(case.every), str(folder / "other")]
            if case.needs == "pgbench":
                found, pairs, began = _with_pgbench(case, stack, pid, port, folder, seconds, chance)
                return _told(case, found, pairs, began), found
            asking = subprocess.Popen(client, stdout=subprocess.PIPE, text=True)
            stack.callback(asking.wait)
            stack.callback(asking.kill)
            time.sleep(0.8)
            if case.outside is not None:
                case.outside(stack, pid, port, chance)
            began = time.monotonic_ns()
            found = recorded(pid, seconds)
            text, _ = asking.communicate(timeout=60)
            pairs = [tuple(map(int, line.split())) for line in text.splitlines()]
            return _told(case, found, pairs, began), found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _with_pgbench(
    case: Case, stack: ExitStack, pid: int, port: int, folder: Path, seconds: int, chance: random.Random
) -> tuple[dict[str, Any], list[tuple[int, ...]], int]:
    script = folder / "script.sql"
    script.write_text("\\set id random(1, 12)\nupdate t set n = n + 1 where id = :id;\n")
    scripts = ["-f", f"{script}@{max(1, case.every)}"]
    if case.other:
        (folder / "other.sql").write_bytes(case.other)
        scripts += ["-f", f"{folder / 'other.sql'}@1"]
    asking = subprocess.Popen(
        ["pgbench", "-n", *scripts, "-c", "4", "-R", "400", "-T", str(seconds + _START_S),
         "-h", "127.0.0.1", "-p", str(port), "-U", "postgres", "postgres"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    stack.callback(asking.wait)
    stack.callback(asking.kill)
    time.sleep(0.8)
    if case.outside is not None:
        case.outside(stack, pid, port, chance)
    return recorded(pid, seconds), [], 0


def recorded(pid: int, seconds: int) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "latlab",
        "requests",
        "record",
        "--pid",
        str(pid),
        "--seconds",
        str(seconds),
    ]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False, timeout=100)
    if not done.stdout:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def _told(case: Case, found: dict[str, Any], pairs: list[tuple[int, ...]], began: int) -> dict[str, Any]:
    answer = found["answer"]
    if answer["withheld"]:
        outcome = "withheld"
    elif any(answer["kind"] == kind and where in answer["where"] for kind, where in case.truth):
        outcome = "right"
    else:
        outcome = "wrong"
    # Requests that latlab saw whole: those that began while it observed.
    first, last = found["began_ns"], found["began_ns"] + found["seconds"] * 1e9
    times = sorted(received for at, taken, received in pairs if first <= at and at + taken <= last)
    truth = times[int(0.99 * len(times))] if len(times) > 100 else 0
    sums = [abs(sum(part["ns"] for part in one["parts"]) - one["ns"]) / one["ns"] for one in found["slowest"]]
    return {
        "case": case.name, "outcome": outcome, "kind": answer["kind"], "where": answer["where"],
        "withheld": answer["withheld"], "candidates": answer["candidates"], "requests": found["requests"],
        "p99_ns": found["p99_ns"], "client_p99_ns": truth, "client_requests": len(times),
        "worst_sum": max(sums, default=0.0), "distrust": found["distrust"], "lost": found["lost_events"],
    }  # fmt: skip


def main(arguments: Sequence[str], cases: Sequence[Case] = CASES) -> None:
    """A row a run, and how many were right."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path, help="Folder for what was found in each run.")
    asked = parser.parse_args(arguments)
    runs = []
    for case in cases:
        if asked.only not in case.name or (case.needs and shutil.which(case.needs) is None):
            continue
        one, found = measure(case, asked.seed, asked.seconds)
        if asked.keep is not None:
            asked.keep.mkdir(exist_ok=True)
            (asked.keep / f"{case.name} {asked.seed}.json").write_text(json.dumps(found))
        runs.append(one)
        said = one["withheld"] or f"{one['kind']} {one['where']}"
        print(f"{one['case']:28} {one['outcome']:9} {said[:70]}", file=sys.stderr, flush=True)
        if asked.json is not None:
            asked.json.write_text(json.dumps({"schema": 1, "seed": asked.seed, "runs": runs}, indent=1))
    rows = [
        (one["case"], one["outcome"], f"{one['kind']} {one['where']}"[:40], duration(one["p99_ns"]),
         duration(one["client_p99_ns"]), share(one["p99_ns"] / one["client_p99_ns"] - 1, signed=True)
         if one["client_p99_ns"] else "–", share(one["worst_sum"], digits=2))
        for one in runs
    ]  # fmt: skip
    print(table(("case", "outcome", "named", "p99", "client's p99", "difference", "parts miss"), rows))
    for outcome in ("right", "withheld", "wrong"):
        print(f"{outcome}: {sum(one['outcome'] == outcome for one in runs)} of {len(runs)}")


if __name__ == "__main__":
    main(sys.argv[1:])

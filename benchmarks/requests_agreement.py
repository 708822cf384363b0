"""`latlab requests` beside the client's own tool on the same run, and what observing costs the server.

    python -m benchmarks.requests_agreement [redis] [nginx] [postgresql] [--rounds 3]

Each server that is installed is started on a port of its own, loaded by its own tool (redis-benchmark,
wrk, pgbench -S), and observed meanwhile. The client's latency holds the way there and back and its own
waking, too: the difference is what the table shows. The cost is the throughput under a closed loop that
observing takes, by the median of interleaved runs; server, client and latlab share the machine.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.requests_servers import nginx, postgresql, redis, run
from latlab.words import duration, share, table

_SECONDS = 4
_CLIENTS = 8
Run = Callable[[], tuple[float, float, float]]  # p50 and p99 in ns, requests a second


@contextmanager
def _redis(folder: Path) -> Iterator[tuple[int, Run]]:
    with redis(folder) as (pid, port):
        common = ("-p", str(port), "-c", str(_CLIENTS), "-n", str(_SECONDS * 25_000))

        def load() -> tuple[float, float, float]:
            out = run("redis-benchmark", *common, "-t", "get", "--csv")
            row = next(iter(csv.DictReader(out.splitlines())))
            return float(row["p50_latency_ms"]) * 1e6, float(row["p99_latency_ms"]) * 1e6, float(row["rps"])

        yield pid, load


@contextmanager
def _nginx(folder: Path) -> Iterator[tuple[int, Run]]:
    with nginx(folder) as (pid, port):
        asked = ("-t1", f"-c{_CLIENTS}", f"-d{_SECONDS}s", "--latency", f"http://127.0.0.1:{port}/")

        def load() -> tuple[float, float, float]:
            out = run("wrk", *asked)
            found = {name: float(value) * _UNITS[unit] for name, value, unit in _WRK.findall(out)}
            rate = re.search(r"Requests/sec:\s*([\d.]+)", out)
            assert rate is not None
            return found["50"], found["99"], float(rate[1])

        yield pid, load


_WRK = re.compile(r"(\d+)%\s+([\d.]+)(us|ms|s)\b")
_UNITS = {"us": 1e3, "ms": 1e6, "s": 1e9}


@contextmanager
def _postgresql(folder: Path) -> Iterator[tuple[int, Run]]:
    with postgresql(folder) as (pid, port):
        common = ("-h", "127.0.0.1", "-p", str(port), "-U", "postgres", "postgres")
        run("pgbench", "-i", "-q", "-s", "2", *common)

        def load() -> tuple[float, float, float]:
            log = folder / f"log{time.monotonic_ns()}"
            log.mkdir()
            logged = ("-l", "--log-prefix", str(log / "p"))
            run("pgbench", "-S", "-n", "-c", "4", "-T", str(_SECONDS), *logged, *common)
            lines = [line for file in log.iterdir() for line in file.read_text().splitlines()]
            times = sorted(int(line.split()[2]) * 1_000 for line in lines)
            return times[len(times) // 2], times[int(0.99 * len(times))], len(times) / _SECONDS

        yield pid, load


SERVERS = {
    "redis": (_redis, "redis-benchmark"),
    "nginx": (_nginx, "wrk"),
    "postgresql": (_postgresql, "pgbench"),
}


def _observed(pid: int, load: Run) -> tuple[tuple[float, float, float], dict[str, object]]:
    recorder = subprocess.Popen(
        [sys.executable, "-m", "latlab", "requests", "record", "--pid", str(pid), "--json",
         "--seconds", str(_SECONDS + 3)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(1.5)
    client = load()
    out, _ = recorder.communicate(timeout=120)
    return client, json.loads(out)


def main() -> None:
    """Print one row a server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("servers", nargs="*", help=", ".join(SERVERS))
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    if unknown := set(asked.servers) - set(SERVERS):
        parser.error(f"unknown server {unknown.pop()!r}")
    rows = []
    for name in asked.servers or list(SERVERS):
        serve, tool = SERVERS[name]
        if shutil.which(tool) is None:
            continue
        with tempfile.TemporaryDirectory() as folder, serve(Path(folder)) as (pid, load):
            plain, seen = [], []
            for _ in range(asked.rounds):
                plain.append(load()[2])
                client, found = _observed(pid, load)
                seen.append(client[2])
            kind = found["kinds"][0]  # type: ignore[index]
        cost = 1 - statistics.median(seen) / statistics.median(plain)
        rows.append((
            name, f"{client[2]:,.0f}", kind["name"], duration(client[0]), duration(kind["p50_ns"]),
            duration(client[1]), duration(kind["p99_ns"]), share(cost), share(float(found["sampled_share"])),  # type: ignore[arg-type]
        ))  # fmt: skip
    print(table(
        ("server", "requests/s", "kind", "p50 of the client", "latlab", "p99 of the client", "latlab",
         "throughput lost", "connections observed"), rows,
    ))  # fmt: skip


if __name__ == "__main__":
    main()

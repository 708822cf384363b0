"""Redis by the native client beside redis-benchmark: at 1 connection, at 50, and pipelined.

Both push messages of 64 bytes to a list of one server, in turn. redis-benchmark pushes alone, and beside a
second one that pops them, as latlab's receiver does: the latter is the same traffic, and has the bar.

    python -m benchmarks.messaging_redis
"""

from __future__ import annotations

import csv
import shutil
import statistics
import subprocess
import sys

from benchmarks._bars import Bar, report
from latlab.errors import UnavailableError
from latlab.messaging import analyse, every_transport, measure
from latlab.messaging.products.broker_processes import started
from latlab.messaging.running.ways.clients import require_library
from latlab.model.messaging.results import Settings

ROUNDS = 9
PREFETCH = 100
# Name, connections, pipeline, messages: about a second each.
CASES = (
    ("1 connection", 1, 1, 30_000),
    ("50 connections", 50, 1, 80_000),
    ("1 connection, pipeline of 16", 1, 16, 400_000),
)


def begun(port: int, connections: int, pipeline: int, count: int, *words: str) -> subprocess.Popen[str]:
    options = ["-p", str(port), "-c", str(connections), "-P", str(pipeline), "-n", str(count), "--csv"]
    return subprocess.Popen(["redis-benchmark", *options, *words], stdout=subprocess.PIPE, text=True)


def rate_of(process: subprocess.Popen[str]) -> float:
    said, _ = process.communicate(timeout=300)
    rows = list(csv.DictReader(said.splitlines()))
    return float(rows[-1]["rps"])


def their_rates(port: int, connections: int, pipeline: int, count: int) -> tuple[float, float]:
    """Messages a second that redis-benchmark pushes: alone, and while another one pops them."""
    push = ("RPUSH", "latlab-benchmark", "x" * 64)
    alone = rate_of(begun(port, connections, pipeline, count, *push))
    subprocess.run(["redis-cli", "-p", str(port), "DEL", push[1]], check=True, capture_output=True)
    popping = begun(port, 1, PREFETCH, count, "BLPOP", push[1], "0")
    pushing = begun(port, connections, pipeline, count, *push)
    return alone, min(rate_of(pushing), rate_of(popping))


def our_rate(transport: str, port: int, connections: int, pipeline: int, count: int) -> float:
    driver = {"pipeline": str(pipeline)} | ({"connections": str(connections)} if connections > 1 else {})
    settings = Settings(transport, messages=count, driver=driver, server=f"127.0.0.1:{port}", timeout_s=120.0)
    result = analyse(measure(settings))
    assert (result.received, result.lost, result.corrupted) == (count, 0, 0), result
    return result.receiving_throughput.messages_per_s or 0.0


def main() -> int:
    """Exit status 1 when a bar is missed."""
    facts = every_transport()["hiredis-list"]
    try:
        require_library(facts)
    except UnavailableError as error:
        print(f"{error}: left out")
        return 0
    if shutil.which("redis-benchmark") is None or shutil.which("redis-server") is None:
        print("redis-server or redis-benchmark is not installed: left out")
        return 0
    bars = []
    with started(facts, Settings("hiredis-list")) as (address, _):
        assert address is not None
        for name, connections, pipeline, count in CASES:
            rows = []
            for _ in range(ROUNDS):
                ours = our_rate("hiredis-list", address[1], connections, pipeline, count)
                alone, beside = their_rates(address[1], connections, pipeline, count)
                rows.append((ours, alone, beside))
            ours, alone, beside = (statistics.median(side) for side in zip(*rows, strict=True))
            same, half = (statistics.median(row[0] / row[other] for row in rows) for other in (2, 1))
            print(
                f"{name}, medians of {ROUNDS}: hiredis-list {ours:,.0f} messages/s, redis-benchmark "
                f"{beside:,.0f} (pushed and popped), {alone:,.0f} (pushed only; ratio {half:.3f})",
                flush=True,
            )
            bars.append(Bar(f"{name}: of redis-benchmark with the same traffic", same, 0.9, "×", True))
        python = our_rate("redis-list", address[1], 1, 1, 5000)
    print(f"the Python client (redis-list), 1 connection: {python:,.0f} messages/s")
    return report(bars)


if __name__ == "__main__":
    sys.exit(main())

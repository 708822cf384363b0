from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from latlab.errors import LatlabError, UnavailableError, UsageError
from latlab.messaging import analyse, measure
from latlab.messaging._counters import counter
from latlab.model.messaging.results import Settings

pytestmark = pytest.mark.side_by_side  # messages arrive whole: no time is judged


@pytest.fixture
def host() -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-u", "-m", "latlab", "messaging", "broker", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().rpartition(" ")[2].strip()
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


Host = tuple[subprocess.Popen[str], str]


@pytest.mark.parametrize("name", ["tcp", "tcp-nagle", "udp"])
def test_a_broker_on_another_host_forwards_every_message_and_says_its_cpu_time(name: str, host: Host) -> None:
    result = analyse(measure(Settings(name, messages=200, load="rate", rate_hz=2000.0, broker=host[1])))
    assert (result.received + result.lost, result.corrupted, result.partial) == (200, 0, None)
    assert result.cpu.broker is not None
    assert result.cpu.broker > 0
    assert host[0].stdout is not None
    assert host[0].stdout.readline().startswith("127.0.0.1: ")


def test_a_broker_on_another_host_serves_one_run_after_another_and_errs_as_told(host: Host) -> None:
    lost = [
        analyse(measure(Settings("tcp", messages=100, broker=host[1], faults={"drop": 10}))).lost
        for _ in range(2)
    ]
    assert lost == [10, 10]


def test_a_ping_pong_reaches_another_host_and_back(host: Host) -> None:
    result = analyse(measure(Settings("tcp", messages=100, topology="pingpong", broker=host[1])))
    assert (result.received, result.partial) == (100, None)


def test_a_host_that_dies_in_the_middle_leaves_a_partial_run(host: Host) -> None:
    command = [sys.executable, "-m", "latlab", "messaging", "run", "--transport", "tcp", "--broker", host[1]]
    command += ["--messages", "100k", "--rate", "2000", "--json", "--timeout", "5"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        time.sleep(3.0)
        os.kill(host[0].pid, signal.SIGKILL)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1, err
    document = json.loads(out)
    assert document["partial"]
    assert document["received"] < 100_000
    assert "Traceback" not in err


def test_nobody_at_the_address_is_one_line_with_what_to_start() -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{s.getsockname()[1]}"
    with pytest.raises(UnavailableError, match="latlab messaging broker"):
        measure(Settings("tcp", messages=10, broker=address))


def test_an_order_that_is_not_understood_is_refused_and_the_next_one_served(host: Host) -> None:
    address, _, port = host[1].rpartition(":")
    with socket.create_connection((address, int(port)), 5) as s:
        s.sendall(b"GET / HTTP/1.1\r\n\r\n")
        s.settimeout(5)
        assert s.recv(100) == b""
    with socket.create_connection((address, int(port)), 5) as s:
        s.sendall(b'{"version": 1}\n')
        s.settimeout(5)
        assert b"not a request that is understood" in s.recv(100)
    assert analyse(measure(Settings("tcp", messages=50, broker=host[1]))).received == 50


def test_what_reaches_no_other_host_is_refused() -> None:
    with pytest.raises(UsageError, match="reaches no other host"):
        measure(Settings("unix", messages=10, broker="127.0.0.1:1"))


def ticking() -> int:
    """A counter of our own."""
    return time.monotonic_ns() // 1000


def test_auxiliary_counters_are_read_on_the_window_of_the_messages() -> None:
    mine = f"{__name__}:ticking" if __name__ in sys.modules else "time:monotonic_ns"
    names = ("context-switches", "net-bytes:lo", mine)
    result = analyse(measure(Settings("tcp", messages=500, load="rate", rate_hz=2000.0, counters=names)))
    assert list(result.counters) == list(names)
    assert result.counters["net-bytes:lo"].total > 500 * 64 * 2
    assert result.counters["context-switches"].total > 0
    assert result.counters[mine].per_message is not None


@pytest.mark.parametrize("name", ["nothing", "net-bytes:nodevice", "file:/nowhere", "os:nothing"])
def test_a_counter_that_can_not_be_read_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(LatlabError, match=name):
        counter(name)

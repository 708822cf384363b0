"""Requests of a server that nobody prepared, against what was planted in it."""

from __future__ import annotations

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from latlab.errors import UnavailableError
from latlab.system.kernel.tracing import BpfTracer

SERVER = """
import os, socket, sys, threading, time
how = sys.argv[1]
lock = threading.Lock()
def hold():
    while True:
        time.sleep(0.1)
        with lock: time.sleep(0.03)
if how == "lock": threading.Thread(target=hold, daemon=True).start()
def serve(connection):
    count = 0
    while data := connection.recv(4096):
        count += 1
        if how == "sync" and count % 50 == 0:
            time.sleep(0.03)
        with lock: answer = data.upper()
        connection.sendall(answer)
listener = socket.create_server(("127.0.0.1", 0), backlog=64)
print(listener.getsockname()[1], flush=True)
while True:
    connection, _ = listener.accept()
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
"""


@contextmanager
def server(how: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    process = subprocess.Popen([sys.executable, "-c", SERVER, how], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, int(process.stdout.readline())
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
        process.stdout.close()


class Clients:
    """Three connections that ask every few milliseconds, and time the answers."""

    def __init__(self, port: int) -> None:
        self.times: list[float] = []
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(port,)) for _ in range(3)]
        for thread in self._threads:
            thread.start()

    def _ask(self, port: int) -> None:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            while not self._ended.is_set():
                begin = time.monotonic()
                connection.sendall(b"hello\n")
                connection.recv(4096)
                self.times.append(time.monotonic() - begin)
                time.sleep(0.002)

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()


def latlab(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "latlab", "requests", *arguments], capture_output=True, text=True, check=False
    )


def observed(how: str, tmp_path: Path, stop: bool = False) -> tuple[dict[str, Any], list[float]]:
    try:
        BpfTracer(["sched:sched_switch"])
    except UnavailableError as error:
        pytest.skip(str(error))
    with server(how) as (process, port):
        clients = Clients(port)
        ended = threading.Event()

        def pause() -> None:
            while not ended.wait(0.2):
                os.kill(process.pid, signal.SIGSTOP)
                time.sleep(0.04)
                os.kill(process.pid, signal.SIGCONT)

        pausing = threading.Thread(target=pause)
        if stop:
            pausing.start()
        try:
            done = latlab(
                "record", "--pid", str(process.pid), "--seconds", "2", "-o", str(tmp_path / "run"), "--json"
            )
        finally:
            ended.set()
            if stop:
                pausing.join()
            clients.end()
        assert process.poll() is None
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
    return json.loads(done.stdout), clients.times


pytestmark = pytest.mark.rights


@pytest.mark.parametrize(("how", "kind"), [("lock", "lock"), ("sync", "timer")])
def test_the_planted_cause_is_the_tails_main_part(how: str, kind: str, tmp_path: Path) -> None:
    found, _ = observed(how, tmp_path)
    assert found["requests"] > 100
    assert found["parts"][0]["kind"] == kind


def test_a_paused_process_is_the_tails_main_part(tmp_path: Path) -> None:
    found, _ = observed("plain", tmp_path, stop=True)
    assert (found["parts"][0]["kind"], found["parts"][0]["where"]) == ("process", "stopped by a signal")


def test_parts_sum_to_the_whole_and_the_median_is_the_clients(tmp_path: Path) -> None:
    found, times = observed("plain", tmp_path)
    for one in found["slowest"]:
        assert sum(part["ns"] for part in one["parts"]) == pytest.approx(one["ns"], rel=0.01)
    assert sum(part["share"] for part in found["parts"]) == pytest.approx(1.0)
    # The client's time holds the way there and back too: never less than the server's, and not far more.
    assert found["p50_ns"] / 1e9 < statistics.median(times)
    shown = latlab("show", str(tmp_path / "run"))
    assert (shown.returncode, "Where the slow ones spend it" in shown.stdout) == (0, True)


def test_a_wrong_call_is_one_line(tmp_path: Path) -> None:
    assert latlab("record").returncode == 2
    done = latlab("show", str(tmp_path))
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)

"""Requests of a server that nobody prepared, against what was planted in it.

Over 400 lines: several servers, and what each of them is asked.
"""

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
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from latlab.errors import UnavailableError
from latlab.system.kernel.bpf_tracing import BpfTracer

REQUESTS = (sys.executable, "-m", "latlab", "requests")
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
def server(how: str, cpu: int | None = None) -> Iterator[tuple[subprocess.Popen[str], int]]:
    process = subprocess.Popen([sys.executable, "-c", SERVER, how], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    if cpu is not None:
        os.sched_setaffinity(process.pid, {cpu})
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
    return subprocess.run([*REQUESTS, *arguments], capture_output=True, text=True, check=False)


def skip_without_bpf() -> None:
    try:
        BpfTracer(["sched:sched_switch"])
    except UnavailableError as error:
        pytest.skip(str(error))


def observed(how: str, tmp_path: Path, stop: bool = False) -> tuple[dict[str, Any], list[float]]:
    skip_without_bpf()
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
    main = found["parts"][0]
    assert (main["kind"], main["where"]) == ("process", "stopped by a signal, or frozen")


def test_parts_sum_to_the_whole_and_the_median_is_the_clients(tmp_path: Path) -> None:
    found, times = observed("plain", tmp_path)
    for one in found["slowest"]:
        assert sum(part["ns"] for part in one["parts"]) == pytest.approx(one["ns"], rel=0.01)
    assert sum(part["share"] for part in found["parts"]) == pytest.approx(1.0)
    # The client's time holds the way there and back too: never less than the server's, and not far more.
    assert found["p50_ns"] / 1e9 < statistics.median(times)
    shown = latlab("show", str(tmp_path / "run"))
    assert (shown.returncode, "time, beside the median ones" in shown.stdout) == (0, True)


def asked(port: int, ended: threading.Event) -> None:
    """Commands in batches of forty, each batch in one write: more than is captured of a call."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        while not ended.is_set():
            connection.sendall(b"*2\r\n$8\r\nJSON.GET\r\n$3\r\nkey\r\n" * 40)
            left = 5 * 40
            while left:
                left -= len(connection.recv(left))
            time.sleep(0.01)


BATCHES = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    connection, _ = listener.accept()
    left = b""
    while data := connection.recv(16384):
        left += data
        commands, left = left[: len(left) // 27 * 27], left[len(left) // 27 * 27 :]
        if commands: connection.sendall(b"+OK\\r\\n" * (len(commands) // 27))
"""


@pytest.mark.side_by_side
def test_every_request_of_pipelined_batches_is_counted(tmp_path: Path) -> None:
    skip_without_bpf()
    process = subprocess.Popen([sys.executable, "-c", BATCHES], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline())
        ended = threading.Event()
        client = threading.Thread(target=asked, args=(port, ended))
        client.start()
        done = latlab("record", "--pid", str(process.pid), "--seconds", "2", "--json")
        ended.set()
        client.join()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    found = json.loads(done.stdout)
    # A batch arrives as a whole, and is answered as one: as one request each there would be some hundred.
    assert (found["requests"] % 40, found["framing"], found["uncounted"]) == (0, "resp", 0)
    assert found["requests"] > 400


PIPED = """
import os, time
count = 0
while data := os.read(0, 4096):
    count += 1
    if count % 20 == 0: time.sleep(0.03)
    os.write(1, data.upper())
"""


def test_a_server_over_pipes_has_requests_too(tmp_path: Path) -> None:
    skip_without_bpf()
    answer = tmp_path / "answer.json"
    process = subprocess.Popen([sys.executable, "-c", PIPED], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    with process, answer.open("w") as out:
        recorder = subprocess.Popen(
            [*REQUESTS, "top", "--pid", str(process.pid), "--period", "2s",
             "--count", "1", "--json"],
            stdout=out,
        )  # fmt: skip
        with recorder:
            while recorder.poll() is None:
                os.write(process.stdin.fileno(), b"hello\n")
                os.read(process.stdout.fileno(), 100)
                time.sleep(0.002)
        process.stdin.close()
    found = json.loads(answer.read_text())
    assert (found["connections"], found["framing"]) == (1, "lines")
    assert found["requests"] > 50
    assert found["without_arrival"] <= 1
    assert found["parts"][0]["kind"] == "timer"


FORKING = """
import os, signal, socket
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
listener = socket.create_server(("127.0.0.1", 0), backlog=64)
print(listener.getsockname()[1], flush=True)
while True:
    connection, _ = listener.accept()
    if os.fork() == 0:
        connection.sendall(connection.recv(100).upper())
        os._exit(0)
    connection.close()
"""


@pytest.mark.side_by_side
def test_a_server_with_a_process_for_each_connection_shows_every_request(tmp_path: Path) -> None:
    skip_without_bpf()
    asked = []
    answer = tmp_path / "answer.json"  # and no pipe: nobody reads while requests are made
    with ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen([sys.executable, "-c", FORKING], stdout=subprocess.PIPE, text=True)
        )
        stack.callback(process.kill)  # also where something fails: it serves for ever
        assert process.stdout is not None
        port = int(process.stdout.readline())
        recorder = subprocess.Popen(
            [*REQUESTS, "record", "--pid", str(process.pid),
             "--seconds", "2", "--json"],
            stdout=stack.enter_context(answer.open("w")),
        )  # fmt: skip
        with recorder:
            while recorder.poll() is None:
                asked.append(time.monotonic_ns())
                with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
                    connection.sendall(b"hello\n")
                    connection.recv(100)
                time.sleep(0.01)
    found = json.loads(answer.read_text())
    first, last = found["began_ns"], found["began_ns"] + 1e9 * found["seconds"]
    assert found["requests"] >= 0.9 * sum(first <= at <= last - 50_000_000 for at in asked)


def test_a_stall_at_the_end_of_a_recording_is_seen(tmp_path: Path) -> None:
    skip_without_bpf()
    with server("plain") as (process, port):
        clients = Clients(port)
        stopping = threading.Timer(2.0, os.kill, (process.pid, signal.SIGSTOP))
        stopping.start()
        try:
            done = latlab("record", "--pid", str(process.pid), "--seconds", "3", "--json")
        finally:
            stopping.join()
            os.kill(process.pid, signal.SIGCONT)
            clients.end()
        assert process.poll() is None
    found = json.loads(done.stdout)
    # Three clients ask one request at a time, and each waits for its answer.
    assert found["still_open"] == 3
    assert found["longest_open_ns"] > 0.1e9
    assert "max_ns" in found["at_least"]


def test_a_recording_that_is_interrupted_tells_what_it_saw() -> None:
    skip_without_bpf()
    with server("plain") as (process, port):
        clients = Clients(port)
        command = [sys.executable, "-m", "latlab", "requests", "record", "--pid", str(process.pid)]
        with subprocess.Popen([*command, "--seconds", "60", "--json"], stdout=subprocess.PIPE) as recorder:
            time.sleep(4)
            recorder.send_signal(signal.SIGINT)
            out, _ = recorder.communicate(timeout=60)
        clients.end()
    found = json.loads(out)
    assert found["requests"] > 0
    assert found["seconds"] < 30


@pytest.mark.side_by_side
def test_the_server_lives_on_when_the_recorder_is_killed(tmp_path: Path) -> None:
    skip_without_bpf()
    with server("plain") as (process, port):
        clients = Clients(port)
        recorder = subprocess.Popen([*REQUESTS, "record", "--seconds", "20", "--pid", str(process.pid)])
        time.sleep(2)
        recorder.kill()
        recorder.wait()
        answered = len(clients.times)
        time.sleep(0.5)
        clients.end()
        assert process.poll() is None
        assert len(clients.times) > answered


@pytest.mark.side_by_side
def test_of_a_server_that_ends_what_was_measured_is_told(tmp_path: Path) -> None:
    skip_without_bpf()
    with server("plain") as (process, port), socket.create_connection(("127.0.0.1", port)) as connection:
        recorder = subprocess.Popen(
            [*REQUESTS, "record", "--pid", str(process.pid),
             "--seconds", "20", "--json"],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        until = time.monotonic() + 3
        while time.monotonic() < until:
            connection.sendall(b"hello\n")
            connection.recv(100)
            time.sleep(0.01)
        process.kill()
        with recorder:
            out, _ = recorder.communicate()
    found = json.loads(out)
    assert found["seconds"] < 10
    assert found["requests"] > 20


def test_a_neighbour_on_the_same_cpu_has_its_name(tmp_path: Path) -> None:
    skip_without_bpf()
    busy = subprocess.Popen(
        [sys.executable, "-c", "open('/proc/self/comm', 'w').write('neighbour')\nwhile True: pass"]
    )
    cpu = min(os.sched_getaffinity(0))
    try:
        os.sched_setaffinity(busy.pid, {cpu})
        with server("plain", cpu) as (process, port):
            clients = Clients(port)
            done = latlab("record", "--pid", str(process.pid), "--seconds", "2", "--json")
            clients.end()
    finally:
        busy.kill()
        busy.wait()
    places = {one["where"] for one in json.loads(done.stdout)["parts"] if one["kind"] == "runnable"}
    assert "neighbour had the CPU" in places


LOOP = """
import asyncio
count = 0
async def serve(reader, writer):
    global count
    while data := await reader.read(4096):
        count += 1
        if count % 30 == 0: await asyncio.sleep(0.03)
        writer.write(data.upper())
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


def test_what_sleeps_in_an_event_loop_that_serves_others_waits_for_a_timer() -> None:
    skip_without_bpf()
    with subprocess.Popen([sys.executable, "-c", LOOP], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        clients = [Clients(port) for _ in range(3)]
        done = latlab("record", "--pid", str(process.pid), "--seconds", "1.5", "--json")
        for one in clients:
            one.end()
        process.kill()
    found = json.loads(done.stdout)
    assert (found["parts"][0]["kind"], found["answer"]["kind"]) == ("timer", "timer")


@pytest.mark.side_by_side
def test_a_wrong_call_is_one_line(tmp_path: Path) -> None:
    assert latlab("record").returncode == 2
    done = latlab("show", str(tmp_path))
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)

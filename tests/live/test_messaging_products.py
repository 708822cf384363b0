"""Transports of the Python loop, each for real where its package and its server are installed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from latlab.errors import UnavailableError
from latlab.messaging import _registry, analyse, every_transport, measure, missing
from latlab.messaging.products.table import PRODUCTS
from latlab.model.messaging.results import Settings

pytestmark = pytest.mark.side_by_side  # messages arrive whole: no time is judged but one that was planted

ZEROMQ = [name for name in every_transport() if name.startswith("zeromq")]


def skip_where_missing(name: str) -> None:
    need = missing(every_transport()[name])
    if need is not None:
        pytest.skip(f"{name} did not run: {need}")


@pytest.mark.peer
@pytest.mark.parametrize("name", [*PRODUCTS, *ZEROMQ])
def test_a_products_messages_arrive_numbered_and_whole(name: str) -> None:
    skip_where_missing(name)
    result = analyse(
        measure(Settings(name, messages=150, warmup=10, load="rate", rate_hz=500.0, timeout_s=30.0))
    )
    assert (result.partial, result.corrupted, result.duplicated) == (None, 0, 0)
    assert result.received + result.lost == 150
    if every_transport()[name].lossless:
        assert result.lost == 0
    assert result.cpu.broker is not None


@pytest.mark.peer
@pytest.mark.parametrize("name", ZEROMQ)
@pytest.mark.parametrize("size", [64, 4096, 4097])
def test_messages_that_libzmq_holds_in_our_memory_are_not_written_over(name: str, size: int) -> None:
    """Its queues are full all the time: the sender is faster than the receiver."""
    skip_where_missing(name)
    for topology in ("direct", "broker"):
        settings = Settings(
            name, size=size, messages=20_000, topology=topology, receiver_delay_ns=5000, batch=7
        )
        result = analyse(measure(settings))
        assert (result.received, result.corrupted, result.reordered, result.duplicated) == (20_000, 0, 0, 0)


@pytest.mark.parametrize("name", ["mp-queue", "redis-list"])
def test_a_stall_of_a_broker_or_a_server_is_made_and_shows(name: str) -> None:
    skip_where_missing(name)
    settings = Settings(name, messages=150, load="rate", rate_hz=500.0, stalls=((50, 200_000_000),))
    result = analyse(measure(settings))
    ((message, made_ns),) = result.stalls_ns
    assert message == 50
    assert made_ns >= 200_000_000
    assert result.intended_latency is not None
    assert result.intended_latency.maximum >= 190_000_000
    assert (result.received, result.lost) == (150, 0)


@pytest.mark.peer
def test_a_server_that_is_killed_leaves_a_partial_result_and_no_process() -> None:
    skip_where_missing("redis-list")
    command = [sys.executable, "-m", "latlab", "messaging", "run", "--transport", "redis-list", "--json"]
    command += ["--messages", "100k", "--rate", "500", "--timeout", "5"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        server = _child(process.pid, b"redis-server")
        _wait_for_commands(server, 300)
        os.kill(server, signal.SIGKILL)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    document = json.loads(out)
    assert (process.returncode, document["partial"]) == (1, True)
    assert "Traceback" not in err


def _wait_for_commands(server: int, count: int) -> None:
    """Until messages flow: the server itself says how many commands it has served."""
    import redis

    words = Path(f"/proc/{server}/cmdline").read_bytes().split(b"\0")
    address = next(word for word in words if b":" in word) if b"--port" not in words else None
    port = int(words[words.index(b"--port") + 1] if address is None else address.rpartition(b":")[2])
    for _ in range(3000):
        try:
            with redis.Redis("127.0.0.1", port) as client:
                if client.info("stats")["total_commands_processed"] > count:
                    return
        except redis.ConnectionError:
            pass
        time.sleep(0.02)
    raise AssertionError("no messages flow")


def _child(pid: int, name: bytes) -> int:
    for _ in range(500):
        found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout
        for child in map(int, found.split()):
            if name in Path(f"/proc/{child}/cmdline").read_bytes():
                return child
        time.sleep(0.02)
    raise AssertionError(f"the run started no {name.decode()}")


@pytest.mark.peer
def test_a_server_that_is_not_there_is_one_line() -> None:
    skip_where_missing("redis-list")
    command = [sys.executable, "-m", "latlab", "messaging", "run", "--transport", "redis-list"]
    command += ["--server", "127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert "redis-server at 127.0.0.1:1: Connection refused" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_server_is_found_where_only_roots_path_looks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    skip_where_missing("nats")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing(every_transport()["nats"]) is None


def test_a_server_elsewhere_needs_no_program_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_registry, "server_program", lambda _name: None)
    facts = every_transport()["redis-list"]
    if not _registry._importable("redis"):
        pytest.skip("redis-list did not run: no redis client")
    with pytest.raises(UnavailableError, match="redis-server is not installed"):
        _registry.require(facts)
    _registry.require(facts, server="127.0.0.1:6379")


PLUGIN = """
import socket, tempfile, time
from latlab.messaging import TransportClosed
from latlab.model.messaging.results import Facts

class Datagrams:
    # Large ones would fill a socket by twos: what a busy machine drops then is no plug-in's fault.
    facts = Facts("my-datagrams", "datagrams of mine", False, True, 8000, "application, after recv",
                  topologies=("broker", "direct"))

    @classmethod
    def prepare(cls, settings, server):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.bind(("127.0.0.1", 0))
            return {"address": s.getsockname()}

    def connect(self, role, where):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        if role == "receiver":
            self.socket.bind(tuple(where["address"]))
        else:
            self.socket.connect(tuple(where["address"]))

    def send(self, message):
        self.socket.send(message)

    def receive(self, timeout_s):
        self.socket.settimeout(timeout_s)
        try:
            return self.socket.recv(65536)
        except TimeoutError:
            return None

    def close(self):
        self.socket.close()

class Liar(Datagrams):
    facts = Facts("liar", "loses and says it doesn't", True, True, 8000, "nowhere")
    sent = 0

    def connect(self, role, where):
        super().connect(role, where)
        tempfile.mkstemp(prefix="latlab-test-of-a-leak-")

    def send(self, message):
        Liar.sent += 1
        if Liar.sent % 10:
            try:
                self.socket.send(message)
            except OSError:
                pass

    def receive(self, timeout_s):
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            if (message := super().receive(0.0001)) is not None:
                return message
            time.sleep(0.002)

    def close(self):
        self.kept = self.socket.dup()
        Liar.all = [*getattr(Liar, "all", []), self.kept]
        self.socket.close()
"""


def conform(tmp_path: Path, name: str, *more: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "plugin_of_mine.py").write_text(PLUGIN)
    command = [
        sys.executable,
        "-m",
        "latlab",
        "messaging",
        "conform",
        "--transport",
        f"plugin_of_mine:{name}",
        *more,
    ]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=100)


def test_a_plug_in_that_keeps_its_promises_conforms(tmp_path: Path) -> None:
    done = conform(tmp_path, "Datagrams")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "over two hops" in done.stdout
    assert "leaves no files behind" in done.stdout


def test_whether_a_plug_in_conforms_is_told_to_machines(tmp_path: Path) -> None:
    done = conform(tmp_path, "Liar", "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["schema"], document["conforms"]) == (1, 1, False)
    assert document["checks"][0]["wrong"] is None
    wrong = {check["what"]: check["wrong"] for check in document["checks"]}
    assert "promises to lose nothing and lost" in wrong["carries 20,000 messages at full rate over one hop"]
    # What ends polls when nothing arrives, and says nothing of its peer, is found without a message.
    assert "it polls" in wrong["sleeps while nothing arrives"]
    assert "more are open" in wrong["closes its descriptors"]
    assert "such as" in wrong["leaves no files behind"]
    assert "and took" in wrong["tells, or waits, when its receiver was killed"]

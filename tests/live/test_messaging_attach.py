from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from latlab.errors import UnavailableError, UsageError
from latlab.messaging import analyse, check, measure
from latlab.messaging.running.processes import free_port
from latlab.model.messaging.results import Settings

pytestmark = pytest.mark.side_by_side  # messages arrive whole: no time is judged

# A program of somebody else: it echoes, or forwards to the address behind its own.
PROGRAM = """
import socket, sys
kind, at, to = sys.argv[1:]
def pump(a, b):
    while data := a.recv(65536):
        b.sendall(data)
def address(text):
    host, _, port = text.rpartition(":")
    return host, int(port)
if kind == "udp":
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(address(at))
    print("up", flush=True)
    while True:
        data, peer = s.recvfrom(65536)
        s.sendto(data, peer)
if kind == "unix":
    l = socket.socket(socket.AF_UNIX)
    l.bind(at)
    l.listen()
else:
    l = socket.create_server(address(at), family=socket.AF_INET6 if kind == "tcp6" else socket.AF_INET)
print("up", flush=True)
c, _ = l.accept()
pump(c, socket.create_connection(address(to)) if to else c)
c.recv(1)
"""


@contextmanager
def program(kind: str, at: str, to: str = "") -> Iterator[None]:
    started = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, kind, at, to], stdout=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    try:
        assert started.stdout.readline() == "up\n"
        yield
    finally:
        started.kill()
        started.wait()
        started.stdout.close()


PACED = Settings("tcp", messages=300, load="rate", rate_hz=2000.0)


def test_a_program_that_forwards_is_the_broker_and_its_cpu_time_is_found() -> None:
    there, back = (f"127.0.0.1:{free_port()}" for _ in range(2))
    with program("tcp", there, back):
        m = measure(PACED.with_(connect=there, listen=back))
    result = analyse(m)
    assert (result.received, result.lost, result.partial) == (300, 0, None)
    assert m.broker_cpu_ns is not None
    assert m.broker_cpu_ns > 0


@pytest.mark.parametrize("topology", ["broker", "pingpong"])
def test_an_echo_server_sends_the_messages_back_on_their_connection(topology: str) -> None:
    there = f"127.0.0.1:{free_port()}"
    with program("tcp", there):
        result = analyse(measure(PACED.with_(connect=there, topology=topology)))
    assert (result.received, result.lost, result.corrupted) == (300, 0, 0)


def test_datagrams_and_unix_sockets_are_attached_to_as_well(tmp_path: Path) -> None:
    there = f"127.0.0.1:{free_port()}"
    with program("udp", there):
        assert analyse(measure(PACED.with_(transport="udp", connect=there))).received > 0
    path = str(tmp_path / "echo")
    with program("unix", path):
        assert analyse(measure(PACED.with_(transport="unix", connect=path))).received == 300


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
            port = s.getsockname()[1]
    except OSError:
        pytest.skip("IPv6 was not tried: this machine has none")
    with program("tcp6", f"::1:{port}"):
        assert analyse(measure(PACED.with_(connect=f"[::1]:{port}"))).received == 300


def test_where_no_program_listens_it_is_said_in_one_line() -> None:
    with pytest.raises(UnavailableError, match="no program listens at"):
        measure(PACED.with_(connect=f"127.0.0.1:{free_port()}"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"connect": "127.0.0.1:1", "topology": "direct"}, "is the broker"),
        ({"listen": "127.0.0.1:1"}, "--connect reaches"),
        ({"connect": "127.0.0.1:1", "transport": "pipe"}, "can't be attached"),
        ({"connect": "127.0.0.1:1", "faults": {"drop": 3}}, "nothing can be planted"),
    ],
)
def test_what_can_not_be_attached_to_is_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check(PACED.with_(**changes))

"""Servers as people run them: passwords, certificates, options of the client, many senders and receivers."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from latlab.messaging import analyse, every_transport, measure, missing
from latlab.messaging.products.servers import Nats
from latlab.messaging.products.table import server_program
from latlab.messaging.running.processes import Child, free_port, wait_for_port
from latlab.model.messaging.results import Settings

pytestmark = pytest.mark.side_by_side  # messages arrive whole, and no password is told: no time is judged

SECRET = "open-sesame-4711"


def skip_where_missing(name: str) -> None:
    need = missing(every_transport()[name])
    if need is not None:
        pytest.skip(f"{name} did not run: {need}")


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that vouches for itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("no certificate: apt install openssl")
    pem, key = tmp_path / "server.pem", tmp_path / "server.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj"]
    command += [
        "/CN=127.0.0.1",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-out",
        str(pem),
        "-keyout",
        str(key),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return pem, key


def served(command: list[str], port: int) -> Generator[int, None, None]:
    child = Child(command, quiet=True)
    try:
        wait_for_port("127.0.0.1", port, child, 20.0)
        yield port
    finally:
        child.close()


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[int]:
    skip_where_missing("redis-list")
    port = free_port()
    command = [
        "redis-server",
        "--port",
        str(port),
        "--requirepass",
        SECRET,
        "--save",
        "",
        "--dir",
        str(tmp_path),
    ]
    yield from served(command, port)


def run(*more: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "latlab",
        "messaging",
        "run",
        "--messages",
        "200",
        "--rate",
        "500",
        *more,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.peer
def test_a_password_opens_a_server_and_is_kept_in_no_recording(redis: int, tmp_path: Path) -> None:
    kept, secret = tmp_path / "kept", tmp_path / "secret"
    secret.write_text(SECRET + "\n")
    order = ["--transport", "redis-list", "--server", f"127.0.0.1:{redis}", "--json"]
    done = run(*order, "--password", f"file:{secret}", "-o", str(kept))
    assert json.loads(done.stdout)["received"] == 200
    given = run(*order, "--password", SECRET, "-o", str(tmp_path / "given"))
    assert json.loads(given.stdout)["received"] == 200
    assert SECRET not in done.stdout + given.stdout
    files = [p for folder in (kept, tmp_path / "given") for p in folder.rglob("*") if p.is_file()]
    assert len(files) > 4
    assert not [p for p in files if SECRET.encode() in p.read_bytes()]


@pytest.mark.peer
def test_a_password_that_is_wrong_or_missing_is_one_line(redis: int) -> None:
    order = ["--transport", "redis-stream", "--server", f"127.0.0.1:{redis}"]
    for more, why in (([], "wants a password"), (["--password", "wrong"], "does not take this user and")):
        done = run(*order, *more)
        assert (done.returncode, done.stdout) == (1, "")
        assert len(done.stderr.splitlines()) == 1
        assert f"did not start: the server {why}" in done.stderr
        assert done.stderr.endswith("; see --server, --user, --password, --tls\n")


@pytest.mark.peer
def test_a_list_in_redis_is_carried_encrypted(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    skip_where_missing("redis-list")
    pem, key = certificate
    port = free_port()
    command = ["redis-server", "--port", "0", "--tls-port", str(port), "--save", "", "--dir", str(tmp_path)]
    command += ["--tls-cert-file", str(pem), "--tls-key-file", str(key), "--tls-ca-cert-file", str(pem)]
    server = served([*command, "--tls-auth-clients", "optional"], port)
    next(server)
    order = ["--transport", "redis-list", "--server", f"127.0.0.1:{port}", "--tls", "--json"]
    try:
        trusted = run(*order, "--tls-ca", str(pem))
        assert json.loads(trusted.stdout)["received"] == 200
        own = run(*order, "--tls-ca", str(pem), "--tls-cert", str(pem), "--tls-key", str(key))
        assert json.loads(own.stdout)["received"] == 200
        unknown = run(*order)
        assert (unknown.returncode, unknown.stdout) == (1, "")
        assert "certificate" in unknown.stderr.lower()
    finally:
        server.close()


@pytest.mark.peer
def test_a_nats_server_that_does_not_encrypt_gets_no_password_in_the_clear(
    certificate: tuple[Path, Path],
) -> None:
    skip_where_missing("nats")
    pem, key = certificate
    program, order = server_program("nats-server") or "", ["--transport", "nats", "--tls", "--json"]
    port = free_port()
    plain = served([program, "-a", "127.0.0.1", "-p", str(port), "--user", "u", "--pass", SECRET], port)
    next(plain)
    try:
        done = run(*order, "--server", f"127.0.0.1:{port}", "--user", "u", "--password", SECRET)
        assert (done.returncode, done.stdout) == (1, "")
        assert "the server does not encrypt, and --tls was asked for; see --server" in done.stderr
        wrong = run("--transport", "nats", "--server", f"127.0.0.1:{port}", "--user", "u", "--password", "x")
        assert wrong.returncode == 1
        assert "did not start: Authorization Violation; see --server, --user, --password" in wrong.stderr
    finally:
        plain.close()
    port = free_port()
    command = [program, "-a", "127.0.0.1", "-p", str(port), "--tls", "--tlscert", str(pem)]
    encrypting = served([*command, "--tlskey", str(key)], port)
    next(encrypting)
    try:
        done = run(*order, "--server", f"127.0.0.1:{port}", "--tls-ca", str(pem))
        found = json.loads(done.stdout)
        assert found["received"] + found["lost"] == 200
    finally:
        encrypting.close()


@pytest.mark.peer
def test_no_list_of_processes_shows_a_password(redis: int, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    command = [sys.executable, "-m", "latlab", "messaging", "run", "--transport", "redis-list", "--messages"]
    command += ["2000", "--rate", "500", "--server", f"127.0.0.1:{redis}", "--password", f"file:{secret}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    shown, loops = b"", 0
    try:
        for _ in range(200):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    words = path.read_bytes()
                    parent = int((path.parent / "stat").read_text().rpartition(")")[2].split()[1])
                except OSError:
                    continue
                if parent == process.pid or str(secret).encode() in words:
                    shown, loops = shown + words, loops + (parent == process.pid and b"python_loop" in words)
            if loops > 4:
                break
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    assert loops > 4
    assert SECRET.encode() not in shown


@pytest.mark.peer
def test_an_encrypted_connection_checks_who_answers(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    skip_where_missing("mqtt")
    pem, key = certificate
    port, config = free_port(), tmp_path / "mosquitto.conf"
    config.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\ncertfile {pem}\nkeyfile {key}\nuser root\n"
    )
    for path in (tmp_path, pem, key):
        path.chmod(0o755)
    order = ["--transport", "mqtt", "--server", f"127.0.0.1:{port}", "--tls", "--json"]
    server = served([server_program("mosquitto") or "", "-c", str(config)], port)
    next(server)
    try:
        trusted = run(*order, "--tls-ca", str(pem), "--driver", "qos=1")
        assert json.loads(trusted.stdout)["received"] == 200
        believed = run(*order, "--tls-unverified")
        assert json.loads(believed.stdout)["received"] + json.loads(believed.stdout)["lost"] == 200
        unknown = run(*order)
        assert (unknown.returncode, unknown.stdout) == (1, "")
        assert "certificate" in unknown.stderr.lower()
    finally:
        server.close()


CONFIRMED: list[tuple[str, dict[str, str]]] = [
    ("redis-list", {}),
    ("redis-stream", {"pipeline": "8", "ack": "yes"}),
    ("mqtt", {"qos": "1"}),
    ("mqtt", {"qos": "2", "protocol": "5"}),
    ("rabbitmq", {"confirms": "yes"}),
    ("rabbitmq", {"confirms": "yes", "pipeline": "8", "durable": "yes", "persistent": "yes", "ack": "yes",
                  "prefetch": "10"}),
]  # fmt: skip


@pytest.mark.peer
@pytest.mark.parametrize(("name", "driver"), CONFIRMED)
def test_every_message_that_a_server_confirms_has_a_latency_of_its_confirmation(
    name: str, driver: dict[str, str]
) -> None:
    skip_where_missing(name)
    settings = Settings(
        name, messages=150, warmup=10, load="rate", rate_hz=500.0, driver=driver, timeout_s=30.0
    )
    result = analyse(measure(settings))
    assert (result.partial, result.received, result.lost) == (None, 150, 0)
    assert result.confirm_latency is not None
    assert (result.confirm_latency.count, result.unconfirmed) == (150, 0)
    assert result.confirm_latency.minimum > 0


def test_a_client_that_asks_for_no_confirmation_has_none() -> None:
    skip_where_missing("mqtt")
    result = analyse(measure(Settings("mqtt", messages=100, load="rate", rate_hz=500.0)))
    assert result.confirm_latency is None


MANY: list[tuple[str, dict[str, Any]]] = [
    ("redis-list", {"senders": 3, "receivers": 2}),
    ("redis-pubsub", {"senders": 2, "receivers": 3, "groups": 3}),
    ("redis-stream", {"receivers": 4, "groups": 2}),
    ("mqtt", {"senders": 2, "receivers": 4, "groups": 2, "driver": {"qos": "1"}}),
    ("rabbitmq", {"senders": 2, "receivers": 3, "groups": 3}),
    ("rabbitmq", {"senders": 2, "receivers": 4, "groups": 2}),
]


@pytest.mark.peer
@pytest.mark.parametrize(("name", "more"), MANY)
def test_each_group_of_receivers_has_every_message_once(name: str, more: dict[str, Any]) -> None:
    skip_where_missing(name)
    settings = Settings(name, messages=300, load="rate", rate_hz=500.0, timeout_s=30.0, **more)
    measurement = measure(settings)
    result = analyse(measurement)
    assert (result.partial, result.sent, result.received) == (None, 300, 300)
    assert (result.lost, result.duplicated, result.corrupted, result.clock_steps) == (0, 0, 0, 0)
    assert [sum(group.received) for group in result.groups] == [300] * settings.groups
    assert {len(group.received) for group in result.groups} == {settings.receivers // settings.groups}
    if settings.senders > 1:
        assert [side.count for side in measurement.senders] == [300 // settings.senders] * settings.senders


@pytest.mark.parametrize("name", ["redis-list", "mqtt", "rabbitmq"])
def test_a_request_has_its_reply(name: str) -> None:
    skip_where_missing(name)
    delay_ns = 3_000_000
    result = analyse(
        measure(Settings(name, messages=60, topology="pingpong", receiver_delay_ns=delay_ns, timeout_s=30.0))
    )
    assert (result.partial, result.received, result.lost) == (None, 60, 0)
    assert result.latency is not None
    assert result.latency.minimum >= delay_ns


def test_nats_is_told_who_asks() -> None:
    """By a server of a few lines, which keeps what its client says of itself."""
    pytest.importorskip("nats")
    said: dict[str, Any] = {}
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as lines:
                connection.sendall(b'INFO {"server_id":"x","max_payload":1048576,"auth_required":true}\r\n')
                for line in lines:
                    if line.startswith(b"CONNECT "):
                        said.update(json.loads(line[8:]))
                    elif line.startswith(b"PING"):
                        connection.sendall(b"PONG\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        settings = Settings("nats", user="me", password=SECRET, server="here:1")
        end = Nats()
        end.connect("receiver", Nats.prepare(settings, ("127.0.0.1", listener.getsockname()[1])))
        end.close()
        end._loop.close()
        thread.join()
    assert (said["user"], said["pass"]) == ("me", SECRET)

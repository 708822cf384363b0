"""Servers of the distribution, each started on a loopback port of its own in a folder of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["free_port", "nginx", "postgresql", "redis", "run", "wait_for"]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def run(*command: str, **options: object) -> str:
    """What a command prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, **options).stdout  # type: ignore[call-overload, no-any-return]


def wait_for(port: int) -> None:
    """Until somebody listens there, ten seconds at most."""
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.1)


@contextmanager
def _ended(server: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


@contextmanager
def redis(folder: Path, options: Sequence[str] = ()) -> Iterator[tuple[int, int]]:
    """Its process and port."""
    port = free_port()
    command = ["redis-server", "--port", str(port), "--save", "", "--dir", str(folder), *options]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    with _ended(server):
        wait_for(port)
        yield server.pid, port


@contextmanager
def nginx(folder: Path, upstream: int = 0, outside: str = "", inside: str = "") -> Iterator[tuple[int, int]]:
    """Its process and port; with an upstream its requests for /up go there."""
    port = free_port()
    (folder / "index.html").write_text("hello\n" * 100)
    behind = f"location /up {{ proxy_pass http://127.0.0.1:{upstream}; }}" if upstream else ""
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/log;\n"
        "events {}\n"
        f"http {{ access_log off; keepalive_requests 100000000; {outside}\n"
        f"server {{ listen 127.0.0.1:{port}; root {folder}; {behind} {inside} }} }}\n"
    )
    server = subprocess.Popen(["nginx", "-c", str(folder / "nginx.conf")], stderr=subprocess.DEVNULL)
    with _ended(server):
        wait_for(port)
        yield server.pid, port


@contextmanager
def postgresql(folder: Path) -> Iterator[tuple[int, int]]:
    """Its process and port; its user is postgres."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
    port, data = free_port(), folder / "data"
    user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if user:
        shutil.chown(folder, "postgres")
        folder.chmod(0o755)
    run(*user, str(programs / "initdb"), "-D", str(data), "-A", "trust", "-U", "postgres", cwd="/")
    server = subprocess.Popen(
        [*user, str(programs / "postgres"), "-D", str(data), "-p", str(port), "-k", str(folder)],
        stderr=subprocess.DEVNULL, cwd="/",
    )  # fmt: skip
    with _ended(server):
        wait_for(port)
        ready = [str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
        while subprocess.run(ready, check=False).returncode != 0:
            time.sleep(0.1)
        yield server.pid, port

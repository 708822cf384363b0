"""Products' servers: started on loopback from the distribution's package, waited for, and stopped."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from latlab.errors import UnavailableError, UsageError
from latlab.messaging.products.table import server_program
from latlab.messaging.running import processes as _processes
from latlab.model.messaging.results import Facts, Settings
from latlab.system.scratch import scratch

Address = tuple[str, int]


@contextlib.contextmanager
def started(facts: Facts, settings: Settings) -> Iterator[tuple[Address | None, _processes.Child | None]]:
    """The server's address and, where we started it, its process; (None, None) where no server is needed.

    Raises:
        UnavailableError: when it doesn't start, or an address that was given doesn't answer.
        UsageError: for an address that is none.
    """
    if facts.broker is None:
        yield None, None
        return
    if settings.server != "auto":
        yield _given(facts, settings.server), None
        return
    if facts.broker not in _START:
        raise UnavailableError(
            f"no {facts.broker} is started here", remedy="give --server HOST:PORT of yours"
        )
    port = _processes.free_port()
    with (
        scratch("server") as folder,
        contextlib.ExitStack() as stack,
    ):
        child = _START[facts.broker](folder, port, stack)
        stack.callback(child.close)
        _processes.wait_for_port(
            # On a machine of two cores with a load of 11, Erlang took more than 60 s to start.
            "127.0.0.1",
            port,
            child,
            180.0 if facts.broker == "rabbitmq-server" else 20.0,
        )
        yield ("127.0.0.1", port), child


def _given(facts: Facts, server: str) -> Address:
    import socket

    host, colon, port = server.rpartition(":")
    if not colon or not port.isdigit():
        raise UsageError(f"--server {server} is not an address", remedy="write HOST:PORT, or auto")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        remedy = f"start {facts.broker} there" + (", or say --server auto" if facts.broker in _START else "")
        raise UnavailableError(
            f"{facts.broker} at {server}: {error.strerror or error}", remedy=remedy
        ) from None
    return host, int(port)


def _path(program: str) -> str:
    return server_program(program) or program


def _redis(folder: Path, port: int, _stack: contextlib.ExitStack) -> _processes.Child:
    options = [
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
        "--dir",
        str(folder),
    ]
    # A slow subscriber is dropped by default; here it is what is measured.
    options += ["--client-output-buffer-limit", "pubsub 0 0 0", "--loglevel", "warning"]
    return _processes.Child([_path("redis-server"), *options], quiet=True)


def _nats(_folder: Path, port: int, _stack: contextlib.ExitStack) -> _processes.Child:
    return _processes.Child([_path("nats-server"), "-a", "127.0.0.1", "-p", str(port)], quiet=True)


def _mosquitto(folder: Path, port: int, _stack: contextlib.ExitStack) -> _processes.Child:
    config = folder / "mosquitto.conf"
    config.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nset_tcp_nodelay true\n"
        "persistence false\nlog_type error\n"
    )
    return _processes.Child([_path("mosquitto"), "-c", str(config)], quiet=True)


def _rabbitmq(folder: Path, port: int, stack: contextlib.ExitStack) -> _processes.Child:
    # Debian's wrapper changes the user when it is root; the script behind it doesn't.
    script = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
    program = str(script) if script.is_file() else _path("rabbitmq-server")
    names = _processes.free_port()  # Erlang's name service would otherwise stay behind as a daemon
    epmd = shutil.which("epmd")
    if epmd is not None:
        registry = _processes.Child([epmd, "-port", str(names), "-address", "127.0.0.1"], quiet=True)
        stack.callback(registry.close)
        _processes.wait_for_port("127.0.0.1", names, registry, 5.0)
    return _processes.Child(
        [program],
        quiet=True,
        own_group=True,
        open_stdin=True,
        environment={
            "HOME": str(folder),
            "RABBITMQ_NODENAME": f"latlab{port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(_processes.free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(folder / "none"),
            "RABBITMQ_ALLOW_INPUT": "1",  # stay in the foreground, and end when the input does
            "ERL_EPMD_PORT": str(names),
        },
    )


_START = {"redis-server": _redis, "nats-server": _nats, "mosquitto": _mosquitto, "rabbitmq-server": _rabbitmq}

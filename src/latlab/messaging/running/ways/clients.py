"""Products by their C clients: plug-ins of latlab's own, which open the client's library at run time."""

from __future__ import annotations

import ctypes.util
import functools
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import latlab
from latlab.errors import UnavailableError, UsageError
from latlab.messaging.running.ways import greetings
from latlab.messaging.running.ways.links import Link
from latlab.messaging.running.ways.plugin import open_at
from latlab.model.messaging.driver import DriverOption, checked_driver
from latlab.model.messaging.results import Facts, Settings

__all__ = ["CLIENTS", "Client", "batched", "library", "promises", "require_library", "served"]

_NUMBERS = itertools.count()
_PIPELINE = DriverOption(
    "pipeline",
    "commands of a connection that are sent before the first one's answer has come; without a rate they are "
    "handed over together",
    "1",
    least=1,
)
_CONNECTIONS = DriverOption(
    "connections", "connections of the sender, which take turns; above 1, messages may overtake", "1", least=1
)
_DB = DriverOption("db", "number of the database", "0")


def _prefetch(about: str) -> DriverOption:
    return DriverOption("prefetch", about, "100", least=1)


def _server(program: str) -> dict[str, Any]:
    """A broker that is called as its program and as Debian's package."""
    return {"broker": program, "program": program, "debian": program}


def _redis(kind: str, title: str, call: str, *driver: DriverOption, lossless: bool = True) -> Facts:
    return Facts(
        f"hiredis-{kind}", title, lossless, True, 16 << 20, f"application, after hiredis has read {call}",
        "native", ("broker", "pingpong"), **_server("redis-server"), access=("user", "password"),
        driver=(_PIPELINE, _CONNECTIONS, _DB, *driver), library="hiredis",
    )  # fmt: skip


def _yes_or_no(name: str, about: str, default: str = "no") -> DriverOption:
    return DriverOption(name, about, default, ("no", "yes"))


CLIENTS: dict[str, Facts] = {
    f.name: f
    for f in (
        _redis(
            "list", "Redis list by hiredis, native (RPUSH, BLPOP)", "BLPOP's answer",
            _prefetch("BLPOPs that are sent before the first one's message has come"),
        ),
        _redis(
            "pubsub", "Redis PUBLISH/SUBSCRIBE by hiredis, native", "the message", lossless=False
        ),
        _redis(
            "stream", "Redis stream by hiredis, native (XADD, XREAD)", "XREAD's answer",
            _prefetch("entries that one read may bring"),
            DriverOption("maxlen", "entries that the stream keeps, about; 0: all", "0"),
            _yes_or_no("ack", "read as a consumer group, and acknowledge each entry (XREADGROUP, XACK)"),
        ),
        Facts(
            "librabbitmq", "RabbitMQ by librabbitmq, native (AMQP 0-9-1)", True, True, 16 << 20,
            "application, after amqp_consume_message", "native", ("broker", "pingpong"),
            **_server("rabbitmq-server"), access=("user", "password", "vhost"), library="rabbitmq",
            driver=(
                _yes_or_no("confirms", "publisher confirms"),
                DriverOption(
                    "pipeline",
                    "messages that may wait for their confirmation; without a rate they are sent together",
                    "1", least=1,
                ),
                _yes_or_no("durable", "a queue that outlives a restart of the server"),
                _yes_or_no("persistent", "messages that do (delivery mode 2)"),
                DriverOption("queue-type", "kind of queue", "classic", ("classic", "quorum")),
                _yes_or_no("ack", "acknowledge each message"),
                DriverOption("prefetch", "messages without an acknowledgement, at most; 0: any number", "0"),
            ),
        ),
        Facts(
            "libnats", "NATS core by nats.c, native", False, True, 1 << 20,
            "application, after natsSubscription_NextMsg", "native", ("broker", "pingpong"),
            **_server("nats-server"), access=("user", "password", "token"), library="nats",
            driver=(
                _yes_or_no(
                    "asap", "write each message at once; no: the library's thread writes what has gathered",
                    "yes",
                ),
            ),
        ),
    )
}  # fmt: skip
# Of each C client: the Python client of the same product, and how its server is greeted.
_PYTHON = {"librabbitmq": "rabbitmq", "libnats": "nats"}
_Greeting = Callable[[tuple[str, int], Settings], str | None]
_GREETINGS: dict[str, _Greeting] = {
    "hiredis": greetings.redis, "rabbitmq": greetings.amqp, "nats": greetings.nats,
}  # fmt: skip


def _in_python(facts: Facts) -> str:
    return _PYTHON.get(facts.name, facts.name.replace("hiredis", "redis"))


@functools.cache
def library(name: str) -> str | None:
    """The file of a client's library, as the linker finds it; None where it is not installed."""
    return ctypes.util.find_library(name)


def require_library(facts: Facts) -> None:
    """Raise the one helpful line where a client's library is missing.

    Raises:
        UnavailableError: with what to install, or which Python client needs none.
    """
    if facts.library is not None and library(facts.library) is None:
        python = _in_python(facts)
        remedy = f"run: apt install lib{facts.library}-dev, or say --transport {python}, the Python client"
        raise UnavailableError(f"lib{facts.library} is not installed", remedy=remedy)


def promises(facts: Facts, settings: Settings) -> Facts:
    """What carries the messages as it is set: a server takes several connections in any order."""
    there = {
        f"through the program at {settings.connect}": settings.connect is not None,
        f"by the broker at {settings.broker}": settings.broker is not None,
        "through a network namespace": settings.network == "namespace",
    }
    for where in (words for words, holds in there.items() if holds):
        facts = replace(facts, title=f"{facts.title.replace(' on loopback', '')} {where}")
    several = facts.library is not None and int(settings.driver.get("connections", "1")) > 1
    return replace(facts, ordered=False) if several else facts


def batched(settings: Settings, facts: Facts) -> Settings:
    """As fast as possible, a pipeline's commands are written together, as every client's benchmark does."""
    if facts.library is None or settings.load != "max" or settings.batch != 1:
        return settings
    if settings.topology == "pingpong":
        return settings
    return settings.with_(batch=int(settings.driver.get("pipeline", "1")))


class Client:
    """A product's server, and ways through it by the plug-in of its client.

    Attributes:
        server: its process, where we started it.
        listens: the process that listens there, where somebody else started it on this machine.
    """

    def __init__(self, settings: Settings, facts: Facts, address: tuple[str, int], server: Any) -> None:
        from latlab.messaging.judging.looks import listener

        self._settings, self._facts, self._address = settings, facts, address
        self.server = server
        self.listens = None if server is not None else listener(*address)
        self.path = Path(latlab.__file__).parent / "bin" / f"latlab-{facts.library}.so"

    def options(self) -> str:
        """What the plug-in is told; there may be a password in it."""
        s, (host, port) = self._settings, self._address
        own = {
            "hiredis": {"kind": self._facts.name.rpartition("-")[2]},
            "rabbitmq": {"vhost": s.vhost or ""},
            "nats": {"token": s.token or ""},
        }
        told = {
            "library": library(self._facts.library or "") or "",
            "host": host.strip("[]"),
            "port": str(port),
            "user": s.user or "",
            "password": s.password or "",
            "key": f"latlab-{os.getpid()}-{next(_NUMBERS)}",
            **own[self._facts.library or ""],
            **checked_driver(self._facts.name, self._facts.driver, s.driver),
        }
        return "&".join(f"{name}={quote(value, safe='')}" for name, value in told.items())

    def link(self) -> Link:
        """A fresh way."""
        return open_at(f"{self.path}?{self.options()}", self._settings)


@contextmanager
def served(settings: Settings, facts: Facts) -> Iterator[Client]:
    """The server that is asked for, and a client of it that it lets in.

    Raises:
        UsageError: for what can't be planted in somebody else's server.
        UnavailableError: where the server doesn't start, doesn't answer, or refuses this client.
    """
    from latlab.messaging.products.broker_processes import started

    if settings.faults or settings.broker_delay_ns or settings.stalls:
        raise UsageError(
            f"{facts.name} has no planted stalls, faults and delays",
            remedy=f"{_in_python(facts)} can --stall {facts.broker}",
        )
    with ExitStack() as rest:
        address, server = rest.enter_context(started(facts, settings))
        assert address is not None
        _greet(settings, facts, address)
        yield Client(settings, facts, address, server)


def _greet(settings: Settings, facts: Facts, address: tuple[str, int]) -> None:
    """Ask the server once whether it lets us in.

    Raises:
        UnavailableError: with what it has against us.
    """
    where = f"{facts.broker} at {address[0]}:{address[1]}"
    host, port = address[0].strip("[]"), address[1]
    try:
        said = _GREETINGS[facts.library or ""]((host, port), settings)
    except OSError as error:
        remedy = f"start {facts.broker} there, or say --server auto"
        raise UnavailableError(f"{where}: {error.strerror or error}", remedy=remedy) from None
    if said is not None:
        asked = [f"--{name}" for name in facts.access] + (
            ["--driver db"] if facts.library == "hiredis" else []
        )
        raise UnavailableError(f"{where} {said}", remedy=f"see {', '.join(asked)}")

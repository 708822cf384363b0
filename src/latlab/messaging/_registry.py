"""Every transport that there is here: ours, the products', and the plug-ins'."""

from __future__ import annotations

import importlib.util

from latlab.errors import MissingExtraError, UnavailableError, UsageError
from latlab.messaging.products.table import PRODUCTS, server_program
from latlab.messaging.running.ways.clients import CLIENTS, library, require_library
from latlab.messaging.running.ways.links import ALIASES, BOTH, NATIVE
from latlab.messaging.running.ways.plugin import facts_of_plugin, is_plugin
from latlab.model.messaging.results import Facts
from latlab.words import nearest

_ZEROMQ = {
    f"zeromq-{how}": Facts(
        f"zeromq-{how}", f"ZeroMQ PUSH/PULL over {how}", True, True, 1 << 30,
        "application, after zmq_msg_recv", "native", ("broker", "direct"), BOTH, package="pyzmq",
        extra="brokers",
    )
    for how in ("inproc", "ipc", "tcp")
}  # fmt: skip


GROUP = "latlab.transports"


def python_transports() -> dict[str, tuple[str, Facts]]:
    """The class ("module:Class") and the facts of every transport of the Python loop, plug-ins included.

    Raises:
        UsageError: for a plug-in that can't be imported or has no facts.
    """
    from importlib.metadata import entry_points

    found = dict(PRODUCTS)
    for point in entry_points(group=GROUP):
        try:
            facts = point.load().facts
        except Exception as error:  # noqa: BLE001 (whatever a plug-in raises at import is one line)
            raise UsageError(
                f"the transport plug-in '{point.name}' ({point.value}) can't be loaded: {error}",
                remedy="fix or uninstall it",
            ) from None
        found[facts.name] = (point.value, facts)
    return found


def every_transport() -> dict[str, Facts]:
    """All known transports by name, installed or not."""
    return {
        **NATIVE,
        **_ZEROMQ,
        **CLIENTS,
        **{name: facts for name, (_, facts) in python_transports().items()},
    }


def resolve(name: str) -> tuple[Facts, str | None]:
    """A transport's facts, and the class behind it where the Python loop serves it.

    Raises:
        UsageError: for a name that nobody knows, or a "module:Class" that is none.
    """
    if is_plugin(name):
        return facts_of_plugin(name), None
    if ":" in name:  # a plug-in that isn't installed
        import importlib

        module, _, attribute = name.partition(":")
        try:
            facts = getattr(importlib.import_module(module), attribute).facts
        except (ImportError, AttributeError) as error:
            raise UsageError(f"{name} is not a transport: {error}", remedy="write module:Class") from None
        if not isinstance(facts, Facts):
            raise UsageError(
                f"{name} is not a transport: its facts are of type {type(facts).__name__}",
                remedy="make them a latlab.messaging.Facts",
            )
        return facts, name
    facts = facts_of(name)
    served = python_transports().get(facts.name)
    return facts, None if served is None else served[0]


def facts_of(name: str) -> Facts:
    """A transport's facts.

    Raises:
        UsageError: for a name that nobody knows.
    """
    known = every_transport()
    found = known.get(ALIASES.get(name, name))
    if found is None:
        remedy = f"{nearest(name, known)} 'latlab messaging transports' lists them".lstrip()
        raise UsageError(f"unknown transport '{name}'", remedy=remedy)
    return found


def missing(facts: Facts) -> str | None:
    """What a transport needs that isn't here, as the command or option that brings it; None where it is."""
    if facts.loop == "native" and facts.name.startswith("zeromq"):
        from latlab.messaging.running.ways.zeromq import library as libzmq

        return None if libzmq() is not None else "pip install 'latlab[brokers]'"
    if facts.library is not None and library(facts.library) is None:
        return f"apt install lib{facts.library}-dev"
    if facts.package is not None and not _importable(facts.package):
        return f"pip install {facts.package if facts.extra is None else repr(f'latlab[{facts.extra}]')}"
    if facts.program is not None and server_program(facts.program) is None:
        return f"apt install {facts.debian}"
    if facts.loop == "python" and facts.broker is not None and facts.program is None:
        return "--server HOST:PORT of yours"
    return None


def require(facts: Facts, server: str = "auto") -> None:
    """Raise the one helpful line for a transport that can't run here, or not with that `server`.

    Raises:
        MissingExtraError: without its Python package.
        UnavailableError: without its C library or its server.
    """
    require_library(facts)
    if facts.package is not None and missing(facts) is not None and not _importable(facts.package):
        if facts.extra is None:
            raise UnavailableError(
                f"{facts.package} is not installed", remedy=f"run: pip install {facts.package}"
            )
        raise MissingExtraError(facts.package, facts.extra)
    if server == "auto" and facts.program is not None and server_program(facts.program) is None:
        remedy = f"run: apt install {facts.debian}, or give --server HOST:PORT"
        raise UnavailableError(f"{facts.program} is not installed", remedy=remedy)


_MODULES = {
    "pyzmq": "zmq", "nats-py": "nats", "paho-mqtt": "paho.mqtt", "eclipse-zenoh": "zenoh",
    "aio-pika": "aio_pika", "confluent-kafka": "confluent_kafka",
}  # fmt: skip


def _importable(package: str) -> bool:
    try:
        return importlib.util.find_spec(_MODULES.get(package, package)) is not None
    except ModuleNotFoundError:
        return False

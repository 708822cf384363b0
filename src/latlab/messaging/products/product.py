"""What the transports of the Python loop share: facts, names, access to a server, untyped modules."""

from __future__ import annotations

import importlib
import itertools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from latlab.messaging.running.transport import TransportClosed
from latlab.model.messaging.driver import DriverOption, checked_driver
from latlab.model.messaging.results import Facts, Settings

if TYPE_CHECKING:
    import ssl

_SERIAL = itertools.count()
DIRECT = ("broker", "direct")
LOOK_S = 0.05  # between two looks of a sender whether its receiver is there, where no error says so


def describe(name: str, title: str, at: str, **rest: Any) -> Facts:
    """Facts of a product: lossless, ordered, of the extra `brokers`, and with a broker of which program and
    Debian's package are called alike, unless said otherwise.
    """
    defaults: dict[str, Any] = {"lossless": True, "ordered": True, "max_bytes": 16 << 20, "extra": "brokers"}
    if "broker" in rest:
        defaults |= {"program": rest["broker"], "debian": rest["broker"]}
    return Facts(name, title, received_at=at, **{**defaults, **rest})


def module(name: str) -> Any:
    """A product's module, untyped: its stubs depend on its version and on whether it is installed."""
    return importlib.import_module(name)


def unique_name() -> str:
    """A name that no other run uses."""
    return f"latlab-{os.getpid()}-{next(_SERIAL)}"


def yes_or_no(name: str, about: str, default: str = "no") -> DriverOption:
    """An option of a client that is on or off."""
    return DriverOption(name, about, default, ("no", "yes"))


def at_server(
    facts: Facts, settings: Settings, server: tuple[str, int] | None, **more: Any
) -> dict[str, Any]:
    """Where both ends find a server, as whom, and with which options of the client."""
    assert server is not None
    return {
        "host": server[0],
        "port": server[1],
        "user": settings.user,
        "password": settings.password,
        "token": settings.token,
        "vhost": settings.vhost,
        "tls": settings.tls,
        "ca": settings.tls_ca,
        "cert": settings.tls_cert,
        "key": settings.tls_key,
        "unverified": settings.tls_unverified,
        "driver": checked_driver(facts.name, facts.driver, settings.driver),
        **more,
    }


def tls_context(where: dict[str, Any]) -> ssl.SSLContext | None:
    """What an encrypted connection asks of the server; None where the connection is not to be encrypted."""
    if not where["tls"]:
        return None
    import ssl

    try:
        context = ssl.create_default_context(cafile=where["ca"])
        if where["cert"] is not None:
            context.load_cert_chain(where["cert"], where["key"])
    except (OSError, ssl.SSLError) as error:
        raise TransportClosed(f"the certificates can't be read: {error.strerror or error}") from None
    if where["unverified"]:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def require_encryption(where: dict[str, Any]) -> None:
    """Refuse a NATS server that asks for no encryption: its client would send all of it in the clear.

    Raises:
        TransportClosed: it asks for none, or does not answer.
    """
    import json
    import socket

    try:
        with socket.create_connection((where["host"], where["port"]), timeout=5) as line:
            verb, _, told = line.makefile("rb").readline(1 << 16).partition(b" ")
    except OSError as error:
        raise TransportClosed(str(error)) from None
    try:
        asks = verb == b"INFO" and bool(json.loads(told).get("tls_required"))
    except (ValueError, AttributeError):
        asks = False
    if not asks:
        raise TransportClosed("the server does not encrypt, and --tls was asked for")


def amqp_refusal(error: Exception, where: dict[str, Any]) -> str:
    """Why a server did not let us in; its own words are in layers of others."""
    text = str(error) or repr(error)
    if "ACCESS_REFUSED" in text:
        return "the server does not take this user and password (ACCESS_REFUSED)"
    # The client waits for OpenOk to a vhost alone, and keeps the reason of a close for itself.
    if "NOT_ALLOWED" in text or "Connection.OpenOk" in text:
        return f"the server has no vhost {where['vhost'] or '/'} for this user"
    return text


def group_of(where: dict[str, Any]) -> str | None:
    """The name of a receiver's group, where there are several receivers."""
    return f"group-{where['group']}" if "group" in where else None


class Confirming:
    """A sender whose server confirms messages: the loop sets `confirmed`, which takes a message's index."""

    confirmed: Callable[[int], None] = staticmethod(lambda _index: None)
    confirms = 0  # so far, where they come in order

    def confirm_next(self) -> None:
        """The oldest message that waits is confirmed."""
        self.confirmed(self.confirms)
        self.confirms += 1

"""What a transport is to the Python loop: four calls, and the facts about it.

A plug-in is a class that has them, registered under the entry point group ``latlab.transports``; the loops,
the
stamps, the counting and the analysis are latlab's. `latlab messaging conform NAME` tells whether it behaves.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from latlab.model.messaging.results import Facts, Settings

__all__ = ["Transport", "TransportClosed"]


class TransportClosed(Exception):
    """The peer or the server has gone; nothing more will arrive or can be sent."""


@runtime_checkable
class Transport(Protocol):
    """One end of a connection. Each end lives in a process of its own.

    A class attribute ``facts`` says what it promises. ``prepare`` runs once, in the controlling process, and
    returns whatever both ends need to find one another (addresses, names), as JSON. A ``clean_up`` class
    method, where there is one, is given that again when the run is over, however it ended. Of several
    receivers each is told its ``group``, the number of ``groups`` and its number as ``member`` there.

    A sender whose server confirms messages has a method ``confirmed``, which the loop replaces: the end calls
    it with each message's index, counted from 0 in the order of its own sending. Where it hears of them only
    when it is called, ``listen(seconds)`` gives it the time.
    """

    facts: Facts

    @classmethod
    def prepare(cls, settings: Settings, server: tuple[str, int] | None) -> dict[str, Any]:
        """Choose addresses; `server` is where the product's server listens, if it has one."""
        ...

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """Connect as "sender" or "receiver"; a receiver is ready for messages when this returns."""
        ...

    def send(self, message: memoryview) -> None:
        """Hand over one message; it is copied or gone when this returns. TransportClosed when that's over."""
        ...

    def receive(self, timeout_s: float) -> bytes | memoryview | None:
        """The next message, or None after the timeout. TransportClosed when there won't be one."""
        ...

    def close(self) -> None:
        """Push out what was sent, and disconnect."""
        ...

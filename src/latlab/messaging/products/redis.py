"""Redis by its own client: lists, publish and subscribe, streams."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar

from latlab.messaging.products.product import describe, module, unique_name
from latlab.messaging.running.transport import TransportClosed
from latlab.model.messaging.results import Facts, Settings


class _Redis:
    facts: ClassVar[Facts]

    @classmethod
    def prepare(cls, settings: Settings, server: tuple[str, int] | None) -> dict[str, Any]:
        """A key of our own on the server."""
        assert server is not None
        return {"host": server[0], "port": server[1], "key": unique_name()}

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """Open the client's connection."""
        redis = module("redis")
        self._errors = (redis.ConnectionError, redis.ResponseError)
        self._client = redis.Redis(where["host"], where["port"], socket_timeout=30)
        self._key = where["key"]
        self._role = role
        self._call(self._client.ping)

    def _call(self, function: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except self._errors as error:
            raise TransportClosed(str(error)) from None

    def close(self) -> None:
        """Remove the key, and disconnect."""
        if self._role == "receiver":
            with contextlib.suppress(*self._errors):
                self._client.delete(self._key)
        self._client.close()


class RedisList(_Redis):
    """RPUSH and BLPOP."""

    facts: ClassVar = describe("redis-list", "Redis list (RPUSH, BLPOP)", "application, after BLPOP",
                             package="redis", broker="redis-server", program="redis-server",
                             debian="redis-server", topologies=("broker",))  # fmt: skip

    def send(self, message: memoryview) -> None:
        """RPUSH, and wait for its answer."""
        self._call(self._client.rpush, self._key, bytes(message))

    def receive(self, timeout_s: float) -> bytes | None:
        """BLPOP."""
        found = self._call(self._client.blpop, [self._key], timeout=timeout_s)
        return None if found is None else bytes(found[1])


class RedisPubsub(_Redis):
    """PUBLISH and SUBSCRIBE."""

    facts: ClassVar = describe("redis-pubsub", "Redis PUBLISH/SUBSCRIBE", "application, after get_message",
                             package="redis", broker="redis-server", program="redis-server",
                             debian="redis-server", topologies=("broker",), lossless=False)  # fmt: skip

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """Subscribe before anything is published."""
        super().connect(role, where)
        if role == "receiver":
            self._subscription = self._client.pubsub(ignore_subscribe_messages=False)
            self._call(self._subscription.subscribe, self._key)
            while self._call(self._subscription.get_message, timeout=1.0) is None:
                pass

    def send(self, message: memoryview) -> None:
        """PUBLISH, and wait for its answer."""
        self._call(self._client.publish, self._key, bytes(message))

    def receive(self, timeout_s: float) -> bytes | None:
        """The next published message."""
        found = self._call(self._subscription.get_message, timeout=timeout_s)
        return bytes(found["data"]) if found is not None and found["type"] == "message" else None


class RedisStream(_Redis):
    """XADD and XREAD."""

    facts: ClassVar = describe("redis-stream", "Redis stream (XADD, XREAD)", "application, after XREAD",
                             package="redis", broker="redis-server", program="redis-server",
                             debian="redis-server", topologies=("broker",))  # fmt: skip

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """Read from the stream's beginning."""
        super().connect(role, where)
        self._last: Any = "0-0"
        self._waiting: list[bytes] = []

    def send(self, message: memoryview) -> None:
        """XADD, and wait for its answer."""
        self._call(self._client.xadd, self._key, {b"m": bytes(message)})

    def receive(self, timeout_s: float) -> bytes | None:
        """The next entry; entries that came together are handed out one by one."""
        if not self._waiting:
            block = max(1, int(timeout_s * 1000))
            found = self._call(self._client.xread, {self._key: self._last}, count=100, block=block)
            for _key, entries in found.items() if isinstance(found, dict) else found or []:
                for entry in entries[0] if entries and isinstance(entries[0], list) else entries:
                    self._last = entry[0]
                    self._waiting.append(bytes(entry[1][b"m"]))
            self._waiting.reverse()
        return self._waiting.pop() if self._waiting else None

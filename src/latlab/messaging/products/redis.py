"""Redis by its own client: lists, publish and subscribe, streams."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from typing import Any, ClassVar

from latlab.messaging.products.product import (
    Confirming,
    at_server,
    describe,
    group_of,
    module,
    unique_name,
    yes_or_no,
)
from latlab.messaging.running.transport import TransportClosed
from latlab.model.messaging.driver import DriverOption
from latlab.model.messaging.results import Facts, Settings

_COMMON = (
    DriverOption("pipeline", "commands that are sent before the first one's answer has come", "1", least=1),
    DriverOption("db", "number of the database", "0"),
)
_FACTS: dict[str, Any] = {
    "package": "redis", "broker": "redis-server", "program": "redis-server", "debian": "redis-server",
    "topologies": ("broker", "pingpong"), "access": ("user", "password", "tls"),
}  # fmt: skip


class _Redis(Confirming):
    facts: ClassVar[Facts]

    @classmethod
    def prepare(cls, settings: Settings, server: tuple[str, int] | None) -> dict[str, Any]:
        """A key of our own on the server; `key` is that of the certificate."""
        return at_server(cls.facts, settings, server, name=unique_name())

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """Open the client's connection."""
        redis = module("redis")
        self._errors = (redis.RedisError, OSError)
        self._refusals = (redis.AuthenticationError,)
        self._known = where["password"] is not None
        more: dict[str, Any] = {}
        if where["tls"]:
            more = {
                "ssl": True,
                "ssl_ca_certs": where["ca"],
                "ssl_certfile": where["cert"],
                "ssl_keyfile": where["key"] or where["cert"],
                "ssl_cert_reqs": "none" if where["unverified"] else "required",
                "ssl_check_hostname": not where["unverified"],
            }
        self._client = redis.Redis(
            where["host"],
            where["port"],
            db=int(where["driver"]["db"]),
            username=where["user"],
            password=where["password"],
            socket_timeout=30,
            **more,
        )
        self._key = where["name"]
        self._role = role
        self._call(self._client.ping)
        self._pipeline = int(where["driver"]["pipeline"])
        self._waiting_for = 0
        self.listen = self._listen if self._pipeline > 1 else None
        if role == "sender":
            self._connection = self._call(self._client.connection_pool.get_connection)

    def _call(self, function: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except self._refusals as error:
            # The server's words are of a command that the user never gave.
            wants = "does not take this user and password" if self._known else "wants a password"
            raise TransportClosed(f"the server {wants} ({str(error).partition(',')[0]})") from None
        except self._errors as error:
            raise TransportClosed(str(error)) from None

    def _command(self, *words: Any) -> None:
        """Send a command, and wait for answers until fewer than the pipeline's are outstanding."""
        self._call(self._connection.send_command, *words)
        self._waiting_for += 1
        while self._waiting_for >= self._pipeline or (
            self._waiting_for and self._call(self._connection.can_read, 0)
        ):
            self._answer()

    def _answer(self) -> None:
        self._call(self._connection.read_response)
        self._waiting_for -= 1
        self.confirm_next()

    def _listen(self, seconds: float) -> None:
        """Read answers that come in this time."""
        end = time.perf_counter() + seconds
        while self._waiting_for and self._call(
            self._connection.can_read, max(0.0, end - time.perf_counter())
        ):
            self._answer()
        if (left := end - time.perf_counter()) > 0:
            time.sleep(left)

    def close(self) -> None:
        """Wait for the answers, remove the key, and disconnect."""
        if self._role == "sender":
            while self._waiting_for:
                self._answer()
            self._connection.disconnect()
        else:
            with contextlib.suppress(*self._errors):
                self._client.delete(self._key)
        self._client.close()


class RedisList(_Redis):
    """RPUSH and BLPOP."""

    facts: ClassVar = describe("redis-list", "Redis list by its Python client (RPUSH, BLPOP)",
                               "application, after BLPOP",
                               driver=_COMMON, many="one", **_FACTS)  # fmt: skip

    def send(self, message: memoryview) -> None:
        """RPUSH."""
        self._command("RPUSH", self._key, bytes(message))

    def receive(self, timeout_s: float) -> bytes | None:
        """BLPOP."""
        found = self._call(self._client.blpop, [self._key], timeout=timeout_s)
        return None if found is None else bytes(found[1])


class RedisPubsub(_Redis):
    """PUBLISH and SUBSCRIBE."""

    facts: ClassVar = describe("redis-pubsub", "Redis PUBLISH/SUBSCRIBE by its Python client",
                               "application, after get_message",
                               driver=_COMMON, many="all", lossless=False, **_FACTS)  # fmt: skip

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """Subscribe before anything is published."""
        super().connect(role, where)
        if role == "receiver":
            self._subscription = self._client.pubsub(ignore_subscribe_messages=False)
            self._call(self._subscription.subscribe, self._key)
            while self._call(self._subscription.get_message, timeout=1.0) is None:
                pass

    def send(self, message: memoryview) -> None:
        """PUBLISH."""
        self._command("PUBLISH", self._key, bytes(message))

    def receive(self, timeout_s: float) -> bytes | None:
        """The next published message."""
        found = self._call(self._subscription.get_message, timeout=timeout_s)
        return bytes(found["data"]) if found is not None and found["type"] == "message" else None


class RedisStream(_Redis):
    """XADD and XREAD, or XREADGROUP."""

    facts: ClassVar = describe(
        "redis-stream",
        "Redis stream by its Python client (XADD, XREAD)",
        "application, after XREAD",
        many="any",
        driver=(
            *_COMMON,
            DriverOption("prefetch", "entries that one read may bring", "100", least=1),
            DriverOption("maxlen", "entries that the stream keeps, about; 0: all", "0"),
            yes_or_no("ack", "read as a consumer group, and acknowledge each entry (XREADGROUP, XACK)"),
        ),
        **_FACTS,
    )

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """Read from the stream's beginning."""
        super().connect(role, where)
        driver = where["driver"]
        self._last: Any = "0-0"
        self._waiting: deque[tuple[Any, bytes]] = deque()
        self._prefetch, self._keep = int(driver["prefetch"]), int(driver["maxlen"])
        self._ack = driver["ack"] == "yes"
        self._group = group_of(where) or ("group" if self._ack else None)
        self._member = f"member-{where.get('member', 0)}"
        if role == "receiver" and self._group is not None:
            try:
                self._client.xgroup_create(self._key, self._group, id="0", mkstream=True)
            except self._errors as error:
                if not str(error).startswith("BUSYGROUP"):  # another member was first
                    raise TransportClosed(str(error)) from None

    def send(self, message: memoryview) -> None:
        """XADD."""
        limit = ("MAXLEN", "~", self._keep) if self._keep else ()
        self._command("XADD", self._key, *limit, "*", b"m", bytes(message))

    def receive(self, timeout_s: float) -> bytes | None:
        """The next entry; entries that came together are handed out one by one."""
        if not self._waiting:
            block = max(1, int(timeout_s * 1000))
            if self._group is None:
                found = self._call(
                    self._client.xread, {self._key: self._last}, count=self._prefetch, block=block
                )
            else:
                found = self._call(
                    self._client.xreadgroup, self._group, self._member, {self._key: ">"},
                    count=self._prefetch, block=block, noack=not self._ack,
                )  # fmt: skip
            for _key, entries in found.items() if isinstance(found, dict) else found or []:
                for entry in entries[0] if entries and isinstance(entries[0], list) else entries:
                    self._last = entry[0]
                    self._waiting.append((entry[0], bytes(entry[1][b"m"])))
        if not self._waiting:
            return None
        number, message = self._waiting.popleft()
        if self._ack:
            self._call(self._client.xack, self._key, self._group, number)
        return message

"""Products with a server of their own, by their clients: NATS, RabbitMQ, MQTT."""

from __future__ import annotations

import contextlib
import queue
import time
from typing import Any, ClassVar

from latlab.messaging.products.product import describe, module, unique_name
from latlab.messaging.running.transport import TransportClosed
from latlab.model.messaging.results import Settings


class _Asynchronous:
    """A client that lives in an event loop, driven one call at a time."""

    def __init__(self) -> None:
        import asyncio

        self._asyncio = asyncio
        self._loop = asyncio.new_event_loop()

    def _do(self, coroutine: Any) -> Any:
        return self._loop.run_until_complete(coroutine)

    def _next(self, inbox: Any, timeout_s: float) -> Any:
        async def wait() -> Any:
            try:
                return inbox.get_nowait()
            except self._asyncio.QueueEmpty:
                pass
            try:
                return await self._asyncio.wait_for(inbox.get(), timeout_s)
            except TimeoutError:
                return None

        return self._do(wait())


class Nats(_Asynchronous):
    """NATS core."""

    facts: ClassVar = describe("nats", "NATS core", "application, after the subscription's queue",
                             package="nats-py", broker="nats-server", program="nats-server",
                             debian="nats-server", topologies=("broker",), lossless=False,
                             max_bytes=1 << 20)  # fmt: skip

    @classmethod
    def prepare(cls, settings: Settings, server: tuple[str, int] | None) -> dict[str, Any]:
        """A subject of our own."""
        assert server is not None
        return {"server": f"nats://{server[0]}:{server[1]}", "subject": unique_name()}

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """Subscribe, and wait until the server knows of it."""
        nats = module("nats")
        self._subject = where["subject"]
        self._client: Any = self._do(nats.connect(where["server"], allow_reconnect=False, connect_timeout=5))
        if role == "receiver":
            self._inbox = self._asyncio.Queue()

            async def take(message: Any) -> None:
                self._inbox.put_nowait(message.data)

            self._do(
                self._client.subscribe(self._subject, cb=take, pending_msgs_limit=-1, pending_bytes_limit=-1)
            )
            self._do(self._client.flush())

    def send(self, message: memoryview) -> None:
        """Publish, and let the client's own task write it."""

        async def publish() -> None:
            await self._client.publish(self._subject, bytes(message))
            for _ in range(3):
                await self._asyncio.sleep(0)

        if not self._client.is_connected:
            raise TransportClosed("the server closed the connection")
        self._do(publish())

    def receive(self, timeout_s: float) -> bytes | None:
        """The next message."""
        found = self._next(self._inbox, timeout_s)
        if found is None and not self._client.is_connected:
            raise TransportClosed("the server closed the connection")
        return found if found is None else bytes(found)

    def close(self) -> None:
        """Flush and leave."""
        with contextlib.suppress(Exception):
            self._do(self._client.close())


class RabbitMq(_Asynchronous):
    """AMQP 0-9-1 through the default exchange, no confirms."""

    facts: ClassVar = describe("rabbitmq", "RabbitMQ (AMQP, a queue of its own)",
                             "application, after the consumer's queue",
                             package="aio-pika", broker="rabbitmq-server", program="rabbitmq-server",
                             debian="rabbitmq-server", topologies=("broker",))  # fmt: skip

    @classmethod
    def prepare(cls, settings: Settings, server: tuple[str, int] | None) -> dict[str, Any]:
        """A queue of our own."""
        assert server is not None
        return {"server": f"amqp://guest:guest@{server[0]}:{server[1]}/", "queue": unique_name()}

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """Declare the queue on both sides; the receiver consumes without acknowledgements."""
        self._pika, self._name = module("aio_pika"), where["queue"]
        self._inbox: Any = self._asyncio.Queue()

        async def take(message: Any) -> None:
            self._inbox.put_nowait(message.body)

        async def opened() -> None:
            self._connection: Any = await self._pika.connect(where["server"])
            self._channel = await self._connection.channel(publisher_confirms=False)
            found = await self._channel.declare_queue(self._name, auto_delete=False)
            if role == "receiver":
                await found.consume(take, no_ack=True)

        self._do(opened())

    def send(self, message: memoryview) -> None:
        """Publish."""
        if self._connection.is_closed:
            raise TransportClosed("the server closed the connection")
        body = self._pika.Message(bytes(message))
        self._do(self._channel.default_exchange.publish(body, routing_key=self._name))

    def receive(self, timeout_s: float) -> bytes | None:
        """The next message."""
        found = self._next(self._inbox, timeout_s)
        if found is None and self._connection.is_closed:
            raise TransportClosed("the server closed the connection")
        return found if found is None else bytes(found)

    def close(self) -> None:
        """Leave."""
        with contextlib.suppress(Exception):
            self._do(self._connection.close())


class Mqtt:
    """MQTT at QoS 0."""

    facts: ClassVar = describe(
        "mqtt",
        "MQTT QoS 0 (mosquitto)",
        "application, after the client thread's queue",
        package="paho-mqtt",
        broker="mosquitto",
        program="mosquitto",
        debian="mosquitto",
        topologies=("broker",),
        lossless=False,
    )

    @classmethod
    def prepare(cls, settings: Settings, server: tuple[str, int] | None) -> dict[str, Any]:
        """A topic of our own."""
        assert server is not None
        return {"host": server[0], "port": server[1], "topic": unique_name()}

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """Connect, and subscribe before anything is published."""
        import threading

        client, version = module("paho.mqtt.client"), module("paho.mqtt.enums").CallbackAPIVersion
        self._topic = where["topic"]
        self._inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        ready, self._gone = threading.Event(), threading.Event()
        self._client = client.Client(version.VERSION2)
        self._client.on_message = lambda _c, _u, message: self._inbox.put(bytes(message.payload))
        self._client.on_subscribe = lambda *_: ready.set()
        self._client.on_disconnect = lambda *_: self._gone.set()

        def connected(*_: Any) -> None:
            if role == "receiver":
                self._client.subscribe(self._topic)
            else:
                ready.set()

        self._client.on_connect = connected
        self._client.connect(where["host"], where["port"])
        self._client.loop_start()
        if not ready.wait(10):
            raise TransportClosed("the server did not answer")

    def send(self, message: memoryview) -> None:
        """Publish; the client writes at once where the socket takes it."""
        if self._gone.is_set():
            raise TransportClosed("the server closed the connection")
        self._client.publish(self._topic, bytes(message))

    def receive(self, timeout_s: float) -> bytes | None:
        """The next message."""
        try:
            return self._inbox.get(timeout=timeout_s)
        except queue.Empty:
            if self._gone.is_set():
                raise TransportClosed("the server closed the connection") from None
            return None

    def close(self) -> None:
        """Leave once everything is written."""
        end = time.monotonic() + 2
        while self._client.want_write() and time.monotonic() < end:
            time.sleep(0.005)
        self._client.disconnect()
        self._client.loop_stop()

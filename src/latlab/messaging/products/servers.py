"""Products with a server of their own, by their clients: NATS, RabbitMQ, MQTT."""

from __future__ import annotations

import contextlib
import queue
import time
from typing import Any, ClassVar

from latlab.messaging.products.product import (
    Confirming,
    amqp_refusal,
    at_server,
    describe,
    group_of,
    module,
    require_encryption,
    tls_context,
    unique_name,
    yes_or_no,
)
from latlab.messaging.running.transport import TransportClosed
from latlab.model.messaging.driver import DriverOption
from latlab.model.messaging.results import Settings


class _Asynchronous:
    """A client that lives in an event loop, driven one call at a time."""

    def __init__(self) -> None:
        import asyncio

        self._asyncio = asyncio
        self._loop = asyncio.new_event_loop()

    def _do(self, coroutine: Any) -> Any:
        return self._loop.run_until_complete(coroutine)

    def _end(self) -> None:
        """Close the loop, with what still waits in it."""
        waiting = self._asyncio.all_tasks(self._loop)
        for task in waiting:
            task.cancel()
        if waiting:
            self._do(self._asyncio.wait(waiting, timeout=5))
        self._loop.close()

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
                             package="nats-py", broker="nats-server", topologies=("broker", "pingpong"),
                             lossless=False, max_bytes=1 << 20, many="any",
                             access=("user", "password", "token", "tls"))  # fmt: skip

    @classmethod
    def prepare(cls, settings: Settings, server: tuple[str, int] | None) -> dict[str, Any]:
        """A subject of our own."""
        return at_server(cls.facts, settings, server, subject=unique_name())

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """Subscribe, and wait until the server knows of it."""
        nats = module("nats")
        self._subject = where["subject"]
        if where["tls"]:
            require_encryption(where)
        try:
            # Whose password is wrong is asked for it again and again, unless the first error ends it.
            self._client: Any = self._do(
                nats.connect(
                    f"nats://{where['host']}:{where['port']}",
                    allow_reconnect=False,
                    connect_timeout=5,
                    max_reconnect_attempts=1,
                    user=where["user"],
                    password=where["password"],
                    token=where["token"],
                    tls=tls_context(where),
                )
            )
        except (nats.errors.Error, OSError) as error:
            raise TransportClosed(str(error).removeprefix("nats: ").strip("'") or repr(error)) from None
        if role == "receiver":
            self._inbox = self._asyncio.Queue()

            async def take(message: Any) -> None:
                self._inbox.put_nowait(message.data)

            self._do(
                self._client.subscribe(
                    self._subject,
                    queue=group_of(where) or "",
                    cb=take,
                    pending_msgs_limit=-1,
                    pending_bytes_limit=-1,
                )
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
        self._end()


class RabbitMq(_Asynchronous, Confirming):
    """AMQP 0-9-1: the default exchange and a queue, or an exchange that feeds a queue for each group."""

    facts: ClassVar = describe(
        "rabbitmq",
        "RabbitMQ (AMQP, a queue of its own)",
        "application, after the consumer's queue",
        package="aio-pika",
        broker="rabbitmq-server",
        topologies=("broker", "pingpong"),
        many="any",
        access=("user", "password", "vhost", "tls"),
        driver=(
            yes_or_no("confirms", "publisher confirms"),
            DriverOption("pipeline", "messages that may wait for their confirmation", "1", least=1),
            yes_or_no("durable", "a queue that outlives a restart of the server"),
            yes_or_no("persistent", "messages that do (delivery mode 2)"),
            DriverOption("queue-type", "kind of queue", "classic", ("classic", "quorum")),
            yes_or_no("ack", "acknowledge each message"),
            DriverOption("prefetch", "messages without an acknowledgement, at most; 0: any number", "0"),
        ),
    )

    @classmethod
    def prepare(cls, settings: Settings, server: tuple[str, int] | None) -> dict[str, Any]:
        """A queue of our own."""
        return at_server(cls.facts, settings, server, queue=unique_name())

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """Declare the queue on both sides; the receiver consumes."""
        self._pika, self._name, self._role = module("aio_pika"), where["queue"], role
        self._inbox: Any = self._asyncio.Queue()
        self._outstanding: set[Any] = set()
        self._sent, driver = 0, where["driver"]
        self._confirmed, self._pipeline = driver["confirms"] == "yes", int(driver["pipeline"])
        self._ack = driver["ack"] == "yes"
        self._mode = self._pika.DeliveryMode(2 if driver["persistent"] == "yes" else 1)
        self.listen = self._listen if self._confirmed and self._pipeline > 1 else None
        self._do(self._open(where))

    async def _open(self, where: dict[str, Any]) -> None:
        driver, context, groups = where["driver"], tls_context(where), where.get("groups", 1)
        try:
            self._connection: Any = await self._pika.connect(
                host=where["host"],
                port=where["port"],
                login=where["user"] or "guest",
                password=where["password"] or "guest",
                virtualhost=where["vhost"] or "/",
                ssl=context is not None,
                ssl_context=context,
            )
        except (self._pika.exceptions.AMQPError, OSError) as error:
            raise TransportClosed(amqp_refusal(error, where)) from None
        self._channel = await self._connection.channel(publisher_confirms=self._confirmed)
        if int(driver["prefetch"]):
            await self._channel.set_qos(prefetch_count=int(driver["prefetch"]))
        self._exchange, durable = self._channel.default_exchange, driver["durable"] == "yes"
        durable = durable or driver["queue-type"] == "quorum"  # quorum queues are always durable
        if groups > 1:
            self._exchange = await self._channel.declare_exchange(
                self._name, self._pika.ExchangeType.FANOUT, auto_delete=True, durable=False
            )
        if groups > 1 and self._role == "sender":
            return
        group = f".{where['group']}" if groups > 1 else ""
        self._queue = await self._channel.declare_queue(
            self._name + group,
            durable=durable,
            # Of a run that was killed, the server forgets the queue by itself.
            arguments={"x-queue-type": driver["queue-type"], "x-expires": 600_000},
        )
        if groups > 1:
            await self._queue.bind(self._exchange)
        if self._role == "receiver":
            await self._queue.consume(self._inbox.put, no_ack=not self._ack)

    def send(self, message: memoryview) -> None:
        """Publish; with confirms, until fewer than the pipeline's are outstanding."""
        if self._connection.is_closed:
            raise TransportClosed("the server closed the connection")
        body = self._pika.Message(bytes(message), delivery_mode=self._mode)
        publish = self._exchange.publish(body, routing_key=self._name)
        if not self._confirmed:
            self._do(publish)
            return
        self._do(self._publish(publish, self._sent))
        self._sent += 1

    async def _publish(self, publish: Any, index: int) -> None:
        task = self._asyncio.ensure_future(publish)
        self._outstanding.add(task)

        def ended(task: Any) -> None:
            self._outstanding.discard(task)
            if not task.cancelled() and task.exception() is None:
                self.confirmed(index)

        task.add_done_callback(ended)
        for _ in range(3):  # until the client has written it
            await self._asyncio.sleep(0)
        await self._fewer_than(self._pipeline)

    async def _fewer_than(self, most: int) -> None:
        while len(self._outstanding) >= most:
            done, _ = await self._asyncio.wait(
                self._outstanding, return_when=self._asyncio.FIRST_COMPLETED, timeout=30
            )
            if not done:
                raise TransportClosed("the server confirms nothing")
            for task in done:
                if (error := task.exception()) is not None:
                    raise TransportClosed(f"the server did not take a message: {error}")

    def _listen(self, seconds: float) -> None:
        """Let confirmations come in for this time."""
        self._do(self._asyncio.sleep(seconds))

    def receive(self, timeout_s: float) -> bytes | None:
        """The next message."""
        found = self._next(self._inbox, timeout_s)
        if found is None:
            if self._connection.is_closed:
                raise TransportClosed("the server closed the connection")
            return None
        if self._ack:
            self._do(found.ack())
        return bytes(found.body)

    def close(self) -> None:
        """Wait for confirmations, remove what outlives a connection, and leave."""
        with contextlib.suppress(Exception):
            if self._role == "sender":
                self._do(self._fewer_than(1))
            else:
                self._do(self._queue.delete(if_unused=False, if_empty=False))
            self._do(self._connection.close())
        self._end()


class Mqtt(Confirming):
    """MQTT 3.1.1 or 5."""

    facts: ClassVar = describe(
        "mqtt",
        "MQTT (mosquitto)",
        "application, after the client thread's queue",
        package="paho-mqtt",
        broker="mosquitto",
        topologies=("broker", "pingpong"),
        lossless=False,
        many="any",
        access=("user", "password", "tls"),
        driver=(
            DriverOption("qos", "0: at most once, 1: at least once, 2: exactly once", "0", ("0", "1", "2")),
            DriverOption("protocol", "version", "3.1.1", ("3.1.1", "5")),
            DriverOption("inflight", "messages of QoS 1 and 2 on their way at once", "20", least=1),
            DriverOption("keepalive", "seconds", "60", least=1),
            yes_or_no("clean-session", "the server forgets the client when it leaves", "yes"),
            yes_or_no("retain", "the server keeps the last message"),
        ),
    )

    @classmethod
    def prepare(cls, settings: Settings, server: tuple[str, int] | None) -> dict[str, Any]:
        """A topic of our own."""
        return at_server(cls.facts, settings, server, topic=unique_name())

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """Connect, and subscribe before anything is published."""
        import threading

        client, version = module("paho.mqtt.client"), module("paho.mqtt.enums").CallbackAPIVersion
        driver, self._topic, self._role = where["driver"], where["topic"], role
        self._qos, self._retain = int(driver["qos"]), driver["retain"] == "yes"
        self._sent = self._acknowledged = 0
        self._inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        ready, self._gone, why = threading.Event(), threading.Event(), ["the server did not answer"]
        five, clean = driver["protocol"] == "5", driver["clean-session"] == "yes"
        more = {"protocol": client.MQTTv5 if five else client.MQTTv311}
        if not five:
            more["clean_session"] = clean
        self._client = client.Client(
            version.VERSION2, client_id=f"{unique_name()}-{role}-{where.get('member', 0)}", **more
        )
        if where["user"] is not None:
            self._client.username_pw_set(where["user"], where["password"])
        context = tls_context(where)
        if context is not None:
            self._client.tls_set_context(context)
            self._client.tls_insecure_set(where["unverified"])
        self._client.max_inflight_messages_set(int(driver["inflight"]))
        self._client.on_message = lambda _c, _u, message: self._inbox.put(bytes(message.payload))
        self._client.on_subscribe = lambda *_: ready.set()
        self._client.on_disconnect = lambda *_: self._gone.set()
        if self._qos and role == "sender":
            self._client.on_publish = self._published
        group = group_of(where)
        shared = group is not None and where["groups"] < where["receivers"]
        topic = f"$share/{group}/{self._topic}" if shared else self._topic

        def connected(_client: Any, _data: Any, _flags: Any, reason: Any, *_: Any) -> None:
            if reason.is_failure:
                why[0] = f"the server refused the connection: {reason}"
                self._gone.set()
                ready.set()
            elif role == "receiver":
                self._client.subscribe(topic, qos=self._qos)
            else:
                ready.set()

        self._client.on_connect = connected
        start = {"clean_start": clean} if five else {}
        try:
            self._client.connect(where["host"], where["port"], keepalive=int(driver["keepalive"]), **start)
        except OSError as error:
            raise TransportClosed(str(error)) from None
        self._client.loop_start()
        if not ready.wait(10) or self._gone.is_set():
            raise TransportClosed(why[0])

    def _published(self, _client: Any, _data: Any, number: int, *_: Any) -> None:
        """The client numbers its messages from 1, and from 1 again after 65,535."""
        self.confirmed(self._sent - (self._sent - (number - 1)) % 65_535)
        self._acknowledged += 1

    def send(self, message: memoryview) -> None:
        """Publish; the client writes at once where the socket takes it."""
        if self._gone.is_set():
            raise TransportClosed("the server closed the connection")
        self._client.publish(self._topic, bytes(message), qos=self._qos, retain=self._retain)
        self._sent += 1

    def receive(self, timeout_s: float) -> bytes | None:
        """The next message."""
        try:
            return self._inbox.get(timeout=timeout_s)
        except queue.Empty:
            if self._gone.is_set():
                raise TransportClosed("the server closed the connection") from None
            return None

    def close(self) -> None:
        """Leave once everything is written and, where the server says so, taken; nothing is retained."""
        end = time.monotonic() + 2
        while time.monotonic() < end and (self._client.want_write() or self._unconfirmed()):
            time.sleep(0.005)
        if self._retain and self._role == "receiver" and not self._gone.is_set():
            self._client.publish(self._topic, b"", retain=True).wait_for_publish(1)
        self._client.disconnect()
        self._client.loop_stop()

    def _unconfirmed(self) -> bool:
        waits = self._qos > 0 and self._role == "sender" and not self._gone.is_set()
        return waits and self._acknowledged < self._sent

"""Transports by the Python loop: products by their own clients, and multiprocessing.Queue."""

from __future__ import annotations

import base64
import contextlib
import importlib
import itertools
import os
import pickle
import queue
import shutil
import time
from pathlib import Path
from typing import Any, ClassVar

from latlab.messaging._processes import free_port
from latlab.messaging._transport import TransportClosed
from latlab.model.messaging import Facts, Settings

_SERIAL = itertools.count()
_DIRECT = ("broker", "direct")


def _facts(name: str, title: str, at: str, **rest: Any) -> Facts:
    defaults: dict[str, Any] = {"lossless": True, "ordered": True, "max_bytes": 16 << 20, "extra": "brokers"}
    return Facts(name, title, received_at=at, **{**defaults, **rest})


def _module(name: str) -> Any:
    """A product's module, untyped: its stubs depend on its version and on whether it is installed."""
    return importlib.import_module(name)


def _name() -> str:
    return f"latlab-{os.getpid()}-{next(_SERIAL)}"


class ProcessQueue:
    """multiprocessing.Queue, whose writer has a thread of its own."""

    facts: ClassVar = _facts(
        "mp-queue", "multiprocessing.Queue", "application, after Queue.get", extra=None, topologies=_DIRECT
    )

    @classmethod
    def prepare(cls, settings: Settings, server: tuple[str, int] | None) -> dict[str, Any]:
        """Make the queue, and pickle it as multiprocessing does for a process that it spawns."""
        import multiprocessing
        from multiprocessing import reduction

        made = multiprocessing.get_context("spawn").Queue(0 if settings.buffer_bytes is None else 1)
        _KEPT.append(made)  # its semaphores go when it does

        class Spawning:
            DupFd = _module("multiprocessing.popen_spawn_posix")._DupFd
            fds: ClassVar[list[int]] = []

            def duplicate_for_child(self, fd: int) -> int:
                self.fds.append(fd)
                return fd

        context = _module("multiprocessing.context")
        spawning = Spawning()
        spawning.fds.clear()
        context.set_spawning_popen(spawning)
        try:
            packed = reduction.ForkingPickler.dumps(made)
        finally:
            context.set_spawning_popen(None)
        return {"queue": base64.b64encode(packed).decode(), "fds": list(spawning.fds)}

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """Unpack the queue."""
        self._role = role
        self._queue = pickle.loads(base64.b64decode(where["queue"]))

    def send(self, message: memoryview) -> None:
        """Hand a copy to the queue's thread."""
        self._queue.put(bytes(message))

    def receive(self, timeout_s: float) -> bytes | None:
        """The next message."""
        try:
            return bytes(self._queue.get(timeout=timeout_s))
        except queue.Empty:
            return None

    def close(self) -> None:
        """Wait until the thread has written everything."""
        self._queue.close()
        if self._role == "sender":
            self._queue.join_thread()


_KEPT: list[Any] = []


class Nng:
    """nng PUSH/PULL over abstract sockets."""

    facts: ClassVar = _facts("nng", "nng PUSH/PULL over abstract sockets", "application, after recv",
                             package="pynng", topologies=_DIRECT, max_bytes=1 << 20)  # fmt: skip

    @classmethod
    def prepare(cls, settings: Settings, server: tuple[str, int] | None) -> dict[str, Any]:
        """An address that no file stands for."""
        return {"address": f"abstract://{_name()}"}

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """The receiver listens, the sender dials."""
        pynng = self._nng = _module("pynng")
        if role == "receiver":
            self._socket = pynng.Pull0(listen=where["address"], recv_timeout=50)
        else:
            self._socket = pynng.Push0(send_timeout=10_000)
            self._socket.dial(where["address"], block=True)

    def send(self, message: memoryview) -> None:
        """Send a copy."""
        try:
            self._socket.send(bytes(message))
        except self._nng.NNGException as error:
            raise TransportClosed(str(error)) from None

    def receive(self, timeout_s: float) -> bytes | None:
        """The next message."""
        try:
            return bytes(self._socket.recv())
        except self._nng.Timeout:
            return None

    def close(self) -> None:
        """Leave libnng's thread the time to send what it holds."""
        time.sleep(0.1)
        self._socket.close()


class _Redis:
    facts: ClassVar[Facts]

    @classmethod
    def prepare(cls, settings: Settings, server: tuple[str, int] | None) -> dict[str, Any]:
        """A key of our own on the server."""
        assert server is not None
        return {"host": server[0], "port": server[1], "key": _name()}

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """Open the client's connection."""
        redis = _module("redis")
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

    facts: ClassVar = _facts("redis-list", "Redis list (RPUSH, BLPOP)", "application, after BLPOP",
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

    facts: ClassVar = _facts("redis-pubsub", "Redis PUBLISH/SUBSCRIBE", "application, after get_message",
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

    facts: ClassVar = _facts("redis-stream", "Redis stream (XADD, XREAD)", "application, after XREAD",
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

    facts: ClassVar = _facts("nats", "NATS core", "application, after the subscription's queue",
                             package="nats-py", broker="nats-server", program="nats-server",
                             debian="nats-server", topologies=("broker",), lossless=False,
                             max_bytes=1 << 20)  # fmt: skip

    @classmethod
    def prepare(cls, settings: Settings, server: tuple[str, int] | None) -> dict[str, Any]:
        """A subject of our own."""
        assert server is not None
        return {"server": f"nats://{server[0]}:{server[1]}", "subject": _name()}

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """Subscribe, and wait until the server knows of it."""
        nats = _module("nats")
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

    facts: ClassVar = _facts("rabbitmq", "RabbitMQ (AMQP, a queue of its own)",
                             "application, after the consumer's queue",
                             package="aio-pika", broker="rabbitmq-server", program="rabbitmq-server",
                             debian="rabbitmq-server", topologies=("broker",))  # fmt: skip

    @classmethod
    def prepare(cls, settings: Settings, server: tuple[str, int] | None) -> dict[str, Any]:
        """A queue of our own."""
        assert server is not None
        return {"server": f"amqp://guest:guest@{server[0]}:{server[1]}/", "queue": _name()}

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """Declare the queue on both sides; the receiver consumes without acknowledgements."""
        self._pika, self._name = _module("aio_pika"), where["queue"]
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

    facts: ClassVar = _facts("mqtt", "MQTT QoS 0 (mosquitto)", "application, after the client thread's queue",
                             package="paho-mqtt", broker="mosquitto", program="mosquitto",
                             debian="mosquitto", topologies=("broker",), lossless=False)  # fmt: skip

    @classmethod
    def prepare(cls, settings: Settings, server: tuple[str, int] | None) -> dict[str, Any]:
        """A topic of our own."""
        assert server is not None
        return {"host": server[0], "port": server[1], "topic": _name()}

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """Connect, and subscribe before anything is published."""
        import threading

        client, version = _module("paho.mqtt.client"), _module("paho.mqtt.enums").CallbackAPIVersion
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


class Zenoh:
    """Zenoh, peer to peer over loopback TCP."""

    facts: ClassVar = _facts("zenoh", "Zenoh peers over TCP", "application, after the subscriber's thread",
                             package="eclipse-zenoh", topologies=_DIRECT)  # fmt: skip

    @classmethod
    def prepare(cls, settings: Settings, server: tuple[str, int] | None) -> dict[str, Any]:
        """A port and a key."""
        return {"endpoint": f"tcp/127.0.0.1:{free_port()}", "key": _name()}

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """The receiver listens, the sender connects; nobody scouts the network."""
        import json

        zenoh = _module("zenoh")
        config = zenoh.Config()
        config.insert_json5("scouting/multicast/enabled", "false")
        config.insert_json5("scouting/gossip/enabled", "false")
        config.insert_json5("transport/shared_memory/enabled", "false")  # it would leave files behind
        place = "listen" if role == "receiver" else "connect"
        if role == "sender":
            config.insert_json5("listen/endpoints", "[]")
        config.insert_json5(f"{place}/endpoints", json.dumps([where["endpoint"]]))
        self._session = zenoh.open(config)
        self._inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        if role == "receiver":
            self._subscriber = self._session.declare_subscriber(
                where["key"], lambda sample: self._inbox.put(sample.payload.to_bytes())
            )
        else:
            self._publisher: Any = self._session.declare_publisher(
                where["key"],
                congestion_control=zenoh.CongestionControl.BLOCK,
                express=True,
                reliability=zenoh.Reliability.RELIABLE,
            )
            end = time.monotonic() + 5
            while not self._publisher.matching_status.matching and time.monotonic() < end:
                time.sleep(0.01)

    def send(self, message: memoryview) -> None:
        """Put."""
        self._publisher.put(bytes(message))

    def receive(self, timeout_s: float) -> bytes | None:
        """The next sample."""
        try:
            return self._inbox.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def close(self) -> None:
        """Leave."""
        self._session.close()


class CycloneDds:
    """Cyclone DDS, reliable, keep all."""

    facts: ClassVar = _facts("cyclonedds", "Cyclone DDS, reliable", "application, after take",
                             package="cyclonedds", topologies=_DIRECT, max_bytes=1 << 20)  # fmt: skip

    @classmethod
    def prepare(cls, settings: Settings, server: tuple[str, int] | None) -> dict[str, Any]:
        """A topic of our own, in a domain that other runs hardly use."""
        return {"topic": _name().replace("-", "_"), "domain": 100 + os.getpid() % 100}

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """Join on loopback, and wait for the other side."""
        os.environ.setdefault(
            "CYCLONEDDS_URI",
            "<General><Interfaces><NetworkInterface address='127.0.0.1'/></Interfaces>"
            "<AllowMulticast>false</AllowMulticast></General>"
            "<Discovery><ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>30</MaxAutoParticipantIndex>"
            "<Peers><Peer address='127.0.0.1'/></Peers></Discovery>",
        )
        core, types = _module("cyclonedds.core"), _module("cyclonedds.idl.types")
        policy = core.Policy
        body = {"body": types.sequence[types.uint8]}
        self._message = _module("cyclonedds.idl").make_idl_struct("Message", "latlab.Message", body)
        self._duration = _module("cyclonedds.util").duration
        qos = core.Qos(policy.Reliability.Reliable(self._duration(seconds=10)), policy.History.KeepAll)
        self._participant = _module("cyclonedds.domain").DomainParticipant(where["domain"])
        topic = _module("cyclonedds.topic").Topic(self._participant, where["topic"], self._message)
        self._role = role
        if role == "receiver":
            self._end = _module("cyclonedds.sub").DataReader(self._participant, topic, qos=qos)
            states = core.SampleState.Any | core.ViewState.Any | core.InstanceState.Alive
            self._waitset = core.WaitSet(self._participant)
            self._waitset.attach(core.ReadCondition(self._end, states))
            self._waiting: list[bytes] = []
            return
        self._end = _module("cyclonedds.pub").DataWriter(self._participant, topic, qos=qos)
        end = time.monotonic() + 15
        while not self._end.get_matched_subscriptions():
            if time.monotonic() > end:
                raise TransportClosed("no reader was discovered on loopback")
            time.sleep(0.01)

    def send(self, message: memoryview) -> None:
        """Write."""
        self._end.write(self._message(message.tolist()))

    def receive(self, timeout_s: float) -> bytes | None:
        """The next sample."""
        if not self._waiting:
            found = self._end.take(N=64)
            if not found and self._waitset.wait(self._duration(milliseconds=int(timeout_s * 1000) or 1)):
                found = self._end.take(N=64)
            self._waiting = [bytes(sample.body) for sample in reversed(found) if hasattr(sample, "body")]
        return self._waiting.pop() if self._waiting else None

    def close(self) -> None:
        """Wait until the reader has everything, and leave."""
        if self._role == "sender":
            self._end.wait_for_acks(self._duration(seconds=2))


class Iceoryx2:
    """iceoryx2 publish/subscribe in shared memory, polled."""

    facts: ClassVar = _facts("iceoryx2", "iceoryx2 publish/subscribe, polled", "application, after receive",
                             package="iceoryx2", topologies=_DIRECT, waits=("poll",),
                             max_bytes=1 << 20)  # fmt: skip

    @classmethod
    def prepare(cls, settings: Settings, server: tuple[str, int] | None) -> dict[str, Any]:
        """A service of our own, whose files have a name of our own."""
        name = _name()
        return {"service": name, "size": settings.size, "prefix": f"{name}_"}

    @classmethod
    def clean_up(cls, where: dict[str, Any]) -> None:
        """Remove the files that processes which were killed couldn't."""
        for folder in ("/dev/shm", f"/tmp/{where['prefix']}d"):
            for path in Path(folder).glob(f"{where['prefix']}*"):
                with contextlib.suppress(OSError):
                    path.unlink()
        shutil.rmtree(f"/tmp/{where['prefix']}d", ignore_errors=True)

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """Open the service; a publisher waits for its subscriber."""
        import ctypes

        iceoryx2 = _module("iceoryx2")
        self._types = ctypes
        config = _module("iceoryx2.config").default()
        config.global_cfg.prefix = iceoryx2.FileName.new(where["prefix"])
        config.global_cfg.root_path = iceoryx2.Path.new(f"/tmp/{where['prefix']}d")
        iceoryx2.set_log_level(iceoryx2.LogLevel.Error)
        self._node = iceoryx2.NodeBuilder.new().config(config).create(iceoryx2.ServiceType.Ipc)
        name = iceoryx2.ServiceName.new(where["service"])
        service = (
            self._node.service_builder(name)
            .publish_subscribe(iceoryx2.Slice[ctypes.c_uint8])
            .subscriber_max_buffer_size(1024)
            .enable_safe_overflow(False)
            .open_or_create()
        )
        self._service = service
        self._size = where["size"]
        self._port: Any
        if role == "receiver":
            self._port = service.subscriber_builder().buffer_size(1024).create()
        else:
            self._port = (
                service.publisher_builder()
                .initial_max_slice_len(self._size)
                .backpressure_strategy(iceoryx2.BackpressureStrategy.RetryUntilDelivered)
                .create()
            )

    def send(self, message: memoryview) -> None:
        """Loan, copy, send."""
        sample = self._port.loan_slice_uninit(self._size)
        self._types.memmove(sample.payload_ptr, bytes(message), self._size)
        sample.assume_init().send()

    def receive(self, timeout_s: float) -> bytes | None:
        """Poll until the timeout."""
        end = time.perf_counter() + timeout_s
        while True:
            sample = self._port.receive()
            if sample is not None:
                payload = self._types.string_at(sample.payload_ptr, self._size)
                sample.delete()
                return bytes(payload)
            if time.perf_counter() > end:
                return None

    def close(self) -> None:
        """Give the service up; its files go with its last user."""
        if hasattr(self, "_port"):
            time.sleep(0.05)
            self._port.delete()


PRODUCTS: dict[str, tuple[str, Facts]] = {
    kind.facts.name: (f"{__name__}:{kind.__name__}", kind.facts)
    for kind in (
        ProcessQueue, Nng, RedisList, RedisPubsub, RedisStream, Nats, Mqtt, RabbitMq, Zenoh, CycloneDds,
        Iceoryx2,
    )
}  # fmt: skip

"""Products without a server, by their own clients: Zenoh, Cyclone DDS, iceoryx2."""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar

from latlab.formats.documents import dumps
from latlab.messaging.products.product import DIRECT, LOOK_S, describe, module, unique_name
from latlab.messaging.running.processes import free_port
from latlab.messaging.running.transport import TransportClosed
from latlab.model.messaging.results import Settings
from latlab.system.scratch import remove_what_is_dead, scratch_name


class Zenoh:
    """Zenoh, peer to peer over loopback TCP."""

    facts: ClassVar = describe("zenoh", "Zenoh peers over TCP", "application, after the subscriber's thread",
                             package="eclipse-zenoh", topologies=DIRECT)  # fmt: skip

    @classmethod
    def prepare(cls, settings: Settings, server: tuple[str, int] | None) -> dict[str, Any]:
        """A port and a key."""
        return {"endpoint": f"tcp/127.0.0.1:{free_port()}", "key": unique_name()}

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """The receiver listens, the sender connects; nobody scouts the network."""

        zenoh = module("zenoh")
        config = zenoh.Config()
        config.insert_json5("scouting/multicast/enabled", "false")
        config.insert_json5("scouting/gossip/enabled", "false")
        config.insert_json5("transport/shared_memory/enabled", "false")  # it would leave files behind
        place = "listen" if role == "receiver" else "connect"
        if role == "sender":
            config.insert_json5("listen/endpoints", "[]")
        config.insert_json5(f"{place}/endpoints", dumps([where["endpoint"]]))
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
            while not self._publisher.matching_status.matching:
                if time.monotonic() > end:
                    raise TransportClosed("no subscriber was found on loopback")
                time.sleep(0.01)
            self._next_look = time.monotonic() + LOOK_S

    def send(self, message: memoryview) -> None:
        """Put; what is put for nobody is dropped without an error, so the subscriber is looked for, too."""
        if time.monotonic() >= self._next_look:
            if not self._publisher.matching_status.matching:
                raise TransportClosed("the subscriber has gone")
            self._next_look = time.monotonic() + LOOK_S
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

    facts: ClassVar = describe("cyclonedds", "Cyclone DDS, reliable", "application, after take",
                             package="cyclonedds", topologies=DIRECT, max_bytes=1 << 20)  # fmt: skip

    @classmethod
    def prepare(cls, settings: Settings, server: tuple[str, int] | None) -> dict[str, Any]:
        """A topic of our own, in a domain that other runs hardly use."""
        return {"topic": unique_name().replace("-", "_"), "domain": 100 + os.getpid() % 100}

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """Join on loopback, and wait for the other side."""
        os.environ.setdefault(
            "CYCLONEDDS_URI",
            "<General><Interfaces><NetworkInterface address='127.0.0.1'/></Interfaces>"
            "<AllowMulticast>false</AllowMulticast></General>"
            "<Discovery><ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>30</MaxAutoParticipantIndex>"
            "<Peers><Peer address='127.0.0.1'/></Peers></Discovery>",
        )
        core, types = module("cyclonedds.core"), module("cyclonedds.idl.types")
        policy = core.Policy
        body = {"body": types.sequence[types.uint8]}
        self._message = module("cyclonedds.idl").make_idl_struct("Message", "latlab.Message", body)
        self._duration = module("cyclonedds.util").duration
        qos = core.Qos(policy.Reliability.Reliable(self._duration(seconds=10)), policy.History.KeepAll)
        self._participant = module("cyclonedds.domain").DomainParticipant(where["domain"])
        topic = module("cyclonedds.topic").Topic(self._participant, where["topic"], self._message)
        self._role = role
        if role == "receiver":
            self._end = module("cyclonedds.sub").DataReader(self._participant, topic, qos=qos)
            states = core.SampleState.Any | core.ViewState.Any | core.InstanceState.Alive
            self._waitset = core.WaitSet(self._participant)
            self._waitset.attach(core.ReadCondition(self._end, states))
            self._waiting: list[bytes] = []
            return
        self._end = module("cyclonedds.pub").DataWriter(self._participant, topic, qos=qos)
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

    facts: ClassVar = describe("iceoryx2", "iceoryx2 publish/subscribe, polled", "application, after receive",
                             package="iceoryx2", topologies=DIRECT, waits=("poll",),
                             max_bytes=1 << 20)  # fmt: skip

    @classmethod
    def prepare(cls, settings: Settings, server: tuple[str, int] | None) -> dict[str, Any]:
        """A service of our own, whose files say who made them, so that they can be told from those in use."""
        remove_what_is_dead()
        name = unique_name()
        prefix = scratch_name("iceoryx") + name.rpartition("-")[2] + "_"
        root = str(Path(tempfile.gettempdir()) / f"{prefix}d")
        return {"service": name, "size": settings.size, "prefix": prefix, "root": root}

    @classmethod
    def clean_up(cls, where: dict[str, Any]) -> None:
        """Remove the files that processes which were killed couldn't."""
        for path in Path("/dev/shm").glob(f"{where['prefix']}*"):
            with contextlib.suppress(OSError):
                path.unlink()
        shutil.rmtree(where["root"], ignore_errors=True)

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """Open the service; a publisher waits for its subscriber."""
        import ctypes

        iceoryx2 = module("iceoryx2")
        self._types = ctypes
        # Two that spin on one core would give it to each other every 3 ms only.
        self._crowded = (os.cpu_count() or 1) < 3
        config = module("iceoryx2.config").default()
        config.global_cfg.prefix = iceoryx2.FileName.new(where["prefix"])
        config.global_cfg.root_path = iceoryx2.Path.new(where["root"])
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
            if self._crowded:
                os.sched_yield()

    def close(self) -> None:
        """Give the service up; its files go with its last user."""
        if hasattr(self, "_port"):
            time.sleep(0.05)
            self._port.delete()

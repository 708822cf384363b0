"""Kafka, by librdkafka: a topic of the run's own, whose first partition carries the messages."""

from __future__ import annotations

import contextlib
import time
from typing import Any, ClassVar

from latlab.messaging.products.product import Confirming, at_server, describe, module, unique_name
from latlab.messaging.running.transport import TransportClosed
from latlab.model.messaging.driver import DriverOption
from latlab.model.messaging.results import Settings

_TOPIC_S, _REMOVED_S, _FLUSH_S = 10.0, 2.0, 5.0
# The client reports a broken connection and connects again by itself: that ends no run.
_ENDS = ("_ALL_BROKERS_DOWN", "_AUTHENTICATION", "_SSL", "_FATAL", "SASL_AUTHENTICATION_FAILED")


class Kafka(Confirming):
    """A producer and consumers that each read the whole partition."""

    facts: ClassVar = describe(
        "kafka",
        "Kafka (librdkafka, one partition)",
        "application, after poll",
        package="confluent-kafka",
        broker="kafka",
        program=None,
        debian=None,
        topologies=("broker", "pingpong"),
        max_bytes=900_000,
        many="all",
        access=("user", "password", "tls"),
        driver=(
            DriverOption("acks", "acknowledgements that are awaited: none, the leader's, all replicas'",
                         "all", ("0", "1", "all")),
            DriverOption("pipeline", "messages that may wait for their acknowledgement; 0: any number", "0"),
            DriverOption("linger", "milliseconds that a batch waits for more messages", "0"),
            DriverOption("batch", "bytes of a batch", "1000000", least=1),
            DriverOption("compression", "of batches", "none", ("none", "gzip", "snappy", "lz4", "zstd")),
            DriverOption("fetch-wait", "milliseconds that the server waits for messages to a fetch", "500"),
            DriverOption("fetch-min", "bytes that it waits for", "1", least=1),
        ),
    )  # fmt: skip

    @classmethod
    def prepare(cls, settings: Settings, server: tuple[str, int] | None) -> dict[str, Any]:
        """A topic of our own."""
        return at_server(cls.facts, settings, server, topic=unique_name())

    @classmethod
    def clean_up(cls, where: dict[str, Any]) -> None:
        """Remove the topic, where the server lets us."""
        kafka, admin = module("confluent_kafka"), module("confluent_kafka.admin")
        asked = admin.AdminClient(_common(where)).delete_topics(
            [where["topic"]], request_timeout=_REMOVED_S, operation_timeout=_REMOVED_S
        )
        for future in asked.values():
            with contextlib.suppress(kafka.KafkaException, TimeoutError):
                future.result(_REMOVED_S + 1)

    def connect(self, role: str, where: dict[str, Any]) -> None:
        """Have the topic made, make the client, and reach the partition's leader."""
        self._kafka, self._topic, self._role = module("confluent_kafka"), where["topic"], role
        self._over: str | None = None
        self._sent = self._outstanding = 0
        _ensure(where)
        driver = where["driver"]
        self._pipeline, self._waits = int(driver["pipeline"]), driver["acks"] != "0"
        common = {**_common(where), "error_cb": self._wrong}
        place = self._kafka.TopicPartition(self._topic, 0, self._kafka.OFFSET_BEGINNING)
        try:
            if role == "receiver":
                self._end = self._kafka.Consumer({
                    **common, "group.id": unique_name(), "enable.auto.commit": False,
                    "fetch.wait.max.ms": int(driver["fetch-wait"]),
                    "fetch.min.bytes": int(driver["fetch-min"]),
                })  # fmt: skip
                self._end.get_watermark_offsets(place, timeout=_TOPIC_S)
                self._end.assign([place])
                return
            self._end = self._kafka.Producer({
                **common, "acks": driver["acks"], "linger.ms": int(driver["linger"]),
                "batch.size": int(driver["batch"]), "compression.type": driver["compression"],
                # A message that is sent once more must not come behind the next one, or twice.
                **({"enable.idempotence": True} if driver["acks"] == "all"
                   else {"max.in.flight.requests.per.connection": 1}),
            })  # fmt: skip
            self._end.list_topics(self._topic, timeout=_TOPIC_S)
        except self._kafka.KafkaException as error:
            raise TransportClosed(self._over or _words(error)) from None
        self.listen = self._listen

    def _wrong(self, error: Any) -> None:
        if error.fatal() or error.name() in _ENDS:
            self._over = str(error.str())

    def _delivered(self, index: int, error: Any) -> None:
        self._outstanding -= 1
        if error is not None:
            self._over = str(error.str())
        elif self._waits:
            self.confirmed(index)

    def send(self, message: memoryview) -> None:
        """Produce; wait while the client's own queue is full, or the pipeline."""
        index = self._sent
        while True:
            if self._over is not None:
                raise TransportClosed(self._over)
            try:
                self._end.produce(
                    self._topic,
                    bytes(message),
                    partition=0,
                    on_delivery=lambda error, _: self._delivered(index, error),
                )
                break
            except BufferError:
                self._end.poll(0.1)
        self._sent += 1
        self._outstanding += 1
        self._end.poll(0)
        while self._pipeline and self._outstanding >= self._pipeline and self._over is None:
            self._end.poll(0.1)

    def _listen(self, seconds: float) -> None:
        """Let acknowledgements come in for this time."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            self._end.poll(left)

    def receive(self, timeout_s: float) -> bytes | None:
        """The next message."""
        found = self._end.poll(timeout_s)
        if found is None:
            if self._over is not None:
                raise TransportClosed(self._over)
            return None
        if (error := found.error()) is not None:
            raise TransportClosed(str(error.str()))
        return bytes(found.value())

    def close(self) -> None:
        """Wait for the acknowledgements, and leave."""
        if self._role == "sender":
            self._end.flush(_FLUSH_S)
        else:
            self._end.close()


def _common(where: dict[str, Any]) -> dict[str, Any]:
    """What every client is told of the server."""
    found: dict[str, Any] = {
        "bootstrap.servers": f"[{where['host']}]:{where['port']}" if ":" in where["host"].strip("[]")
        else f"{where['host']}:{where['port']}",
        "socket.nagle.disable": True,
        "log_level": 0,  # what is wrong is told by `error_cb`
    }  # fmt: skip
    if where["user"] is not None:
        found |= {"sasl.mechanism": "PLAIN", "sasl.username": where["user"]}
        found["sasl.password"] = where["password"] or ""
    found["security.protocol"] = ("sasl_" if where["user"] is not None else "") + (
        "ssl" if where["tls"] else "plaintext"
    )
    for name, key in (("ca", "ssl.ca.location"), ("cert", "ssl.certificate.location"),
                      ("key", "ssl.key.location")):  # fmt: skip
        if where["tls"] and where[name] is not None:
            found[key] = str(where[name])
    if where["tls"] and where["cert"] is not None and where["key"] is None:
        found["ssl.key.location"] = str(where["cert"])
    if where["tls"] and where["unverified"]:
        found["enable.ssl.certificate.verification"] = False
    return found


def _ensure(where: dict[str, Any]) -> None:
    """Have the topic: a server that makes topics by itself does so when it is asked for one."""
    kafka, admin = module("confluent_kafka"), module("confluent_kafka.admin")
    try:
        client = admin.AdminClient(_common(where))
    except kafka.KafkaException as error:
        raise TransportClosed(_words(error)) from None
    end = time.monotonic() + _TOPIC_S
    while not _there(client, where["topic"]):
        if time.monotonic() > end:
            _made(admin, client, where["topic"])
            return


def _there(client: Any, topic: str) -> bool:
    """Whether the topic has a leader; a server that makes topics by itself does so when it is asked."""
    kafka = module("confluent_kafka")
    try:
        found = client.list_topics(topic, timeout=_TOPIC_S).topics[topic]
    except kafka.KafkaException as error:
        raise TransportClosed(_words(error)) from None
    if found.error is None and 0 in found.partitions and found.partitions[0].leader >= 0:
        return True
    time.sleep(0.05)
    return False


def _made(admin: Any, client: Any, topic: str) -> None:
    kafka = module("confluent_kafka")
    asked = client.create_topics([admin.NewTopic(topic, 1)], request_timeout=_TOPIC_S)
    try:
        asked[topic].result(_TOPIC_S + 1)
    except (kafka.KafkaException, TimeoutError) as error:
        if error.args and getattr(error.args[0], "name", str)() == "TOPIC_ALREADY_EXISTS":
            return  # the other end had it made
        raise TransportClosed(f"the server makes no topic: {_words(error)}") from None


def _words(error: Exception) -> str:
    told: Any = error.args[0] if error.args else None
    return str(told.str()) if hasattr(told, "str") else str(error) or type(error).__name__

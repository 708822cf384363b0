"""The transports by the Python loop: products by their own clients, and multiprocessing.Queue."""

from __future__ import annotations

from latlab.messaging.products.buses import CycloneDds, Iceoryx2, Zenoh
from latlab.messaging.products.kafka import Kafka
from latlab.messaging.products.queues import Nng, ProcessQueue
from latlab.messaging.products.redis import RedisList, RedisPubsub, RedisStream
from latlab.messaging.products.servers import Mqtt, Nats, RabbitMq
from latlab.model.messaging.results import Facts

PRODUCTS: dict[str, tuple[str, Facts]] = {
    kind.facts.name: (f"{kind.__module__}:{kind.__name__}", kind.facts)
    for kind in (
        ProcessQueue, Nng, RedisList, RedisPubsub, RedisStream, Nats, Mqtt, RabbitMq, Kafka, Zenoh,
        CycloneDds, Iceoryx2,
    )
}  # fmt: skip

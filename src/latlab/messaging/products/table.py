"""The transports by the Python loop: products by their own clients, and multiprocessing.Queue."""

from __future__ import annotations

import shutil

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


def server_program(name: str) -> str | None:
    """The path of a product's server; Debian keeps some where only root's PATH looks."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin")

"""The producer that moves what is due of a partition of a delay topic, and what the one before it has committed."""

from collections.abc import Awaitable, Callable
from typing import Final

from ottla.client.consuming.group_offsets import CommittedOffset, committed_offsets
from ottla.client.io.cluster import Cluster
from ottla.client.io.retry import Deadline
from ottla.client.options import ClientOptions
from ottla.client.producing.producer import Producer
from ottla.client.producing.producer_options import ProducerOptions
from ottla.model.delivery_group import delivery_group
from ottla.model.topic_partition import TopicPartition
from ottla.server.own_client_io import OwnClientIo

ANSWER_MS: Final = 30_000

BecomeProducer = Callable[[TopicPartition], Awaitable[tuple[Producer, CommittedOffset | None]]]
"""Fences the producer before, whose open transaction is aborted; then reads what is committed. Raises ClientError."""


async def become_producer(place: TopicPartition, io: OwnClientIo) -> tuple[Producer, CommittedOffset | None]:
    """Become the producer of a partition's transactional id; `io` connects this broker to its own cluster."""
    group = delivery_group(place.topic)
    options = ClientOptions.of(io.bootstrap, client_id="ottla-deliver", api_timeout_ms=ANSWER_MS, retry_backoff_ms=5)
    producing = ProducerOptions(
        transactional_id=f"{group}-{place.partition}",
        request_bytes_max=1 << 30,
        linger_ms=0,
        max_block_ms=ANSWER_MS,
        delivery_timeout_ms=ANSWER_MS,
    )
    producer = Producer(options, producing, io=io)
    try:
        await producer.start()
        await producer.init_transactions()
        cluster = Cluster(options, io)
        try:
            await cluster.connect()
            found = await committed_offsets(cluster, group, [place], Deadline(io.clock, ANSWER_MS))
        finally:
            cluster.close()
    except BaseException:
        await producer.close(deliver=False)
        raise
    return producer, found.get(place)

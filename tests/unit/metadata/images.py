"""Images to decide upon."""

from collections.abc import Iterable
from uuid import UUID

from ottla.metadata.controller.replica_assignment import new_partition
from ottla.metadata.image.delta import apply_records
from ottla.metadata.image.image import MetadataImage
from ottla.metadata.records import BrokerRegisteredRecord, MetadataRecord, TopicRecord


def topic_record(name: str, number: int, partition_count: int = 1, replicas: tuple[int, ...] = (1,)) -> TopicRecord:
    return TopicRecord(name, UUID(int=number), (new_partition(replicas),) * partition_count)


def image_of(
    *records: MetadataRecord, brokers: Iterable[int] = (1,), racks: dict[int, str] | None = None
) -> MetadataImage:
    racks = racks or {}
    registered = [BrokerRegisteredRecord(broker, broker, None, 9092, racks.get(broker)) for broker in brokers]
    image, _ = apply_records(MetadataImage("cluster"), [*registered, *records])
    return image

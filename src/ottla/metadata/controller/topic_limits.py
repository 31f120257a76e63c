"""What a request about topics may ask for, and what it gets when it does not say."""

from typing import Self

from msgspec import Struct

from ottla.metadata.image.image import MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.settings.broker_settings import BrokerSettings


class TopicLimits(Struct, frozen=True):
    """Defaults and bounds for topics; the fields are the broker settings of the same name."""

    num_partitions: int = 1
    default_replication_factor: int = 1
    delete_topic_enable: bool = True
    partitions_per_request_max: int = 10_000
    """Bounds how long one change of the metadata takes."""
    partitions_per_broker_max: int = 50_000
    """Bounds memory and open files."""

    @classmethod
    def from_settings(cls, settings: BrokerSettings) -> Self:
        """The limits a broker was started with."""
        return cls(
            num_partitions=settings.integer("num.partitions"),
            default_replication_factor=settings.integer("default.replication.factor"),
            delete_topic_enable=settings.boolean("delete.topic.enable"),
            partitions_per_request_max=settings.integer("partitions.per.request.max"),
            partitions_per_broker_max=settings.integer("partitions.per.broker.max"),
        )

    def require_request_size(self, partition_count: int) -> None:
        """Refuse a request that makes too many partitions. Raises ApiError POLICY_VIOLATION."""
        if partition_count > self.partitions_per_request_max:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"one request may create {self.partitions_per_request_max} partitions "
                f"(partitions.per.request.max), this one asks for {partition_count}",
            )

    def require_capacity(self, image: MetadataImage, replicas: list[tuple[int, ...]], planned: dict[int, int]) -> None:
        """Refuse partitions that some broker could not hold, and count them in `planned` otherwise.

        `planned` holds how many replicas the request has already put on each broker. Raises ApiError POLICY_VIOLATION.
        """
        after = dict(planned)
        for brokers in replicas:
            for broker_id in brokers:
                after[broker_id] = after.get(broker_id, 0) + 1
        for broker_id, count in after.items():
            if image.replica_counts.get(broker_id, 0) + count > self.partitions_per_broker_max:
                raise ApiError(
                    ErrorCode.POLICY_VIOLATION,
                    f"broker {broker_id} may hold {self.partitions_per_broker_max} partitions "
                    f"(partitions.per.broker.max) and has {image.replica_counts.get(broker_id, 0)}",
                )
        planned.update(after)

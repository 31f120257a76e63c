"""A broker that coordinates no transactions."""

from collections.abc import Callable, Mapping, Sequence

from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition


class NoCoordinator:
    """Stands for the coordinator of a broker that coordinates no transactions."""

    def add_or_verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
        waiter: Callable[[Mapping[TopicPartition, ErrorCode]], None],
    ) -> None:
        """Say that there is none."""
        del transactional_id, producer_id, producer_epoch, verify_only
        waiter(dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE))

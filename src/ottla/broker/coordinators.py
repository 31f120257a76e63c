"""Which broker coordinates what."""

from collections.abc import Callable

from ottla.broker.access import Authorizer, Operation, ResourceType, require, require_broker
from ottla.broker.topics import TopicService
from ottla.metadata.image.image import TopicImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.model.topic_name import CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC


class CoordinatorLookup:
    """Finds coordinators by the partitions they keep their state in. Belongs to the event loop."""

    __slots__ = (
        "_authorizer",
        "_partition_of_group",
        "_partition_of_share_key",
        "_partition_of_transactional_id",
        "_topics",
    )

    def __init__(
        self,
        topics: TopicService,
        partition_of_group: Callable[[str], int],
        partition_of_transactional_id: Callable[[str], int],
        partition_of_share_key: Callable[[str], int],
        authorizer: Authorizer,
    ) -> None:
        """The functions say which partition of their topic the state of a group, an id, or a share partition is in."""
        self._partition_of_share_key = partition_of_share_key
        self._topics = topics
        self._partition_of_group = partition_of_group
        self._partition_of_transactional_id = partition_of_transactional_id
        self._authorizer = authorizer

    async def groups_topic(self) -> TopicImage:
        """The topic that the coordinators of groups keep their state in, made when it is first asked for.

        Raises ApiError COORDINATOR_NOT_AVAILABLE.
        """
        return await self._ensure(CONSUMER_OFFSETS_TOPIC)

    async def transactions_topic(self) -> TopicImage:
        """The same of transactions."""
        return await self._ensure(TRANSACTION_STATE_TOPIC)

    async def share_states_topic(self) -> TopicImage:
        """The same of share partitions."""
        return await self._ensure(SHARE_GROUP_STATE_TOPIC)

    def of_share_partition(self, principal: Principal, topic: TopicImage, key: str) -> int:
        """The broker that coordinates a share partition, by its partition of `share_states_topic`.

        Raises ApiError CLUSTER_AUTHORIZATION_FAILED: only brokers ask. INVALID_REQUEST for a key of another form.
        """
        if key.count(":") < 2:
            message = "the key of the coordinator of a share partition is GROUP:TOPIC_ID:PARTITION"
            raise ApiError(ErrorCode.INVALID_REQUEST, message)
        require_broker(principal)
        return topic.partitions[self._partition_of_share_key(key)].leader

    async def _ensure(self, name: str) -> TopicImage:
        try:
            return await self._topics.ensure_internal(name)
        except ApiError as error:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{name} is not there yet: {error}") from error

    def of_group(self, principal: Principal, topic: TopicImage, group_id: str) -> int:
        """The broker that coordinates a group: the one that leads its partition of `groups_topic`.

        Raises ApiError GROUP_AUTHORIZATION_FAILED.
        """
        require(self._authorizer, principal, Operation.DESCRIBE, ResourceType.GROUP, group_id)
        return topic.partitions[self._partition_of_group(group_id)].leader

    def of_transactional_id(self, principal: Principal, topic: TopicImage, transactional_id: str) -> int:
        """The broker that coordinates a transactional id, by its partition of `transactions_topic`.

        Raises ApiError TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
        """
        require(self._authorizer, principal, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        return topic.partitions[self._partition_of_transactional_id(transactional_id)].leader

"""The idempotent producers that a partition remembers, for those who look for one that hangs (KIP-664)."""

from collections.abc import Iterable

from ottla.broker.access import Authorizer, Operation, ResourceType, require
from ottla.model.principal import Principal
from ottla.model.topic_name import validate_topic_name
from ottla.replication.replica_manager import ReplicaManager
from ottla.storage.producer_state import ProducerState


class ActiveProducers:
    """Belongs to the event loop."""

    __slots__ = ("_authorizer", "_replicas")

    def __init__(self, replicas: ReplicaManager, authorizer: Authorizer) -> None:
        self._replicas = replicas
        self._authorizer = authorizer

    def describe(self, principal: Principal, topic: str, index: int) -> Iterable[ProducerState]:
        """What this replica, the leader or a follower, remembers last of each producer: who asks chose the broker.

        Raises ApiError TOPIC_AUTHORIZATION_FAILED, INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION,
        NOT_LEADER_OR_FOLLOWER or KAFKA_STORAGE_ERROR.
        """
        require(self._authorizer, principal, Operation.READ, ResourceType.TOPIC, topic)
        validate_topic_name(topic)
        return self._replicas.get(topic, index).log.producers

"""Ending transactions in the partitions that this broker leads, for their coordinator.

    marker --> control batch in each partition --> committed everywhere --> the coordinator hears of it, once

In the topic of committed offsets the coordinator of the group writes the marker: with it, the offsets that were
committed in the transaction hold or are void.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final, TypeAlias

from ottla.broker.access import ALLOW_ALL, CLUSTER_NAME, Authorizer, Operation, ResourceType, require, require_broker
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import BROKER, Principal
from ottla.model.topic_partition import TopicPartition
from ottla.model.transaction_marker import TransactionMarker
from ottla.replication.acknowledgement import AppendAck
from ottla.replication.replica_manager import ReplicaManager
from ottla.runtime.deadlines import Deadlines

MARKER_MS_MAX: Final = 30_000
"""How long a marker may take to be committed (`request.timeout.ms` of Kafka's brokers); it may be committed later."""

OnWritten: TypeAlias = Callable[[dict[TopicPartition, ErrorCode]], None]
Completer: TypeAlias = Callable[[int, TransactionMarker, Callable[[ErrorCode], None]], None]
"""Ends a transaction in one partition of a coordinator's topic, by its index, and tells once what became of it."""


class _MarkerWrite:
    """One marker on its way to several partitions."""

    __slots__ = ("_errors", "_on_written", "_undecided", "is_over")

    def __init__(self, partitions: Iterable[TopicPartition], on_written: OnWritten) -> None:
        self._undecided = set(partitions)
        self._errors: dict[TopicPartition, ErrorCode] = {}
        self._on_written = on_written
        self.is_over = False

    def decide(self, name: TopicPartition, error: ErrorCode) -> None:
        """One partition is decided; the last one ends it."""
        if self.is_over or name not in self._undecided:
            return
        self._undecided.discard(name)
        self._errors[name] = error
        if not self._undecided:
            self._end()

    def expire(self) -> None:
        """The time is up."""
        if not self.is_over:
            self._errors.update(dict.fromkeys(self._undecided, ErrorCode.REQUEST_TIMED_OUT))
            self._end()

    def _end(self) -> None:
        self.is_over = True
        self._on_written(self._errors)


class TransactionMarkers:
    """Belongs to the event loop; its methods never block."""

    def __init__(
        self,
        replicas: ReplicaManager,
        deadlines: Deadlines,
        authorizer: Authorizer = ALLOW_ALL,
        completers: Mapping[str, Completer] = MappingProxyType({}),
    ) -> None:
        """`completers` end transactions in the topics of coordinators, by the topic."""
        self._replicas = replicas
        self._deadlines = deadlines
        self._authorizer = authorizer
        self._completers = completers

    def authorize(self, principal: Principal, *, commits: bool) -> None:
        """Check that somebody may end transactions of others. Raises ApiError CLUSTER_AUTHORIZATION_FAILED.

        A broker of the cluster may; whoever administers it may abort (KIP-664). Nobody else is believed that a
        transaction was committed: only its coordinator knows.
        """
        if principal.type == BROKER:
            return
        if commits:
            require_broker(principal)
        if not self._authorizer.allows(principal, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
            require(self._authorizer, principal, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)

    def write(self, marker: TransactionMarker, partitions: Iterable[TopicPartition], on_written: OnWritten) -> None:
        """Write a marker to each partition; `on_written` is called once, when all of them are decided.

        NONE says that it is committed. Otherwise UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER,
        TRANSACTION_COORDINATOR_FENCED, INVALID_PRODUCER_EPOCH, NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR, or
        REQUEST_TIMED_OUT, after which it may still be committed.
        """
        names = dict.fromkeys(partitions)
        if not names:
            on_written({})
            return
        write = _MarkerWrite(names, on_written)
        for name in names:
            self._write_one(marker, name, partial(write.decide, name))
        if not write.is_over:
            self._deadlines.add(write, MARKER_MS_MAX)

    def _write_one(
        self, marker: TransactionMarker, name: TopicPartition, on_decided: Callable[[ErrorCode], None]
    ) -> None:
        completer = self._completers.get(name.topic)
        if completer is not None:
            completer(name.partition, marker, on_decided)
            return

        def on_ack(ack: AppendAck) -> None:
            on_decided(ack.error)

        try:
            partition = self._replicas.get(*name)
        except ApiError as error:
            on_decided(error.code)
            return
        partition.append_marker(marker, on_ack)

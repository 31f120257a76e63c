"""Streams groups, for whoever may have to do with them: heartbeats, descriptions, and the topics the groups need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ottla.broker.access import Authorizer, Operation, ResourceType
from ottla.coordination.outcome import Waiter
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_name import is_internal_topic, validate_topic_name

if TYPE_CHECKING:
    from collections.abc import Collection

    from ottla.broker.internal_topic_creation import InternalTopicCreation
    from ottla.groups.coordinator import GroupCoordinator
    from ottla.groups.streams.exchange import StreamsDescribeAnswer, StreamsHeartbeat, StreamsHeartbeatAnswer
    from ottla.model.principal import Principal
    from ottla.protocol.messages.streams_group_describe import DescribedGroup
    from ottla.protocol.messages.streams_group_describe import Topology as DescribedTopology
    from ottla.protocol.messages.streams_group_heartbeat import Topology

MISSING_INTERNAL_TOPICS: Final = 3
"""The status that names the topics which are asked for (`ottla.groups.streams.configured_topology.Status`)."""


class StreamsGroupService:
    """Asks whether the principal may, then the coordinator. Belongs to the event loop.

    Each `waiter` is called exactly once. What belongs to the protocol of streams groups is read when the first of them
    comes: most brokers have none.
    """

    __slots__ = ("_authorizer", "_coordinator", "_topic_creation")

    def __init__(
        self, coordinator: GroupCoordinator, topic_creation: InternalTopicCreation, authorizer: Authorizer
    ) -> None:
        self._coordinator = coordinator
        self._topic_creation = topic_creation
        self._authorizer = authorizer

    def heartbeat(self, principal: Principal, said: StreamsHeartbeat, waiter: Waiter) -> None:
        """A member joins, is there, or leaves; answers with a StreamsHeartbeatAnswer.

        Topics that the group needs are asked of the controller, once the records that say so are committed.
        """
        from ottla.groups.streams.exchange import StreamsHeartbeatAnswer

        group_id, topology = said.request.group_id, said.request.topology
        try:
            if not self._may(principal, Operation.READ, ResourceType.GROUP, group_id):
                raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            if topology is not None:
                self._require_topics(principal, topology)
        except ApiError as error:
            waiter(StreamsHeartbeatAnswer(error.code, message=error.message or None))
            return

        def answered(answer: StreamsHeartbeatAnswer) -> None:
            waiter(self._ask_for_topics(principal, answer) if answer.topics_to_create else answer)

        self._coordinator.streams_heartbeat(said, answered, StreamsHeartbeatAnswer)

    def describe(self, principal: Principal, group_id: str, waiter: Waiter) -> None:
        """A group, its topology and its members; answers with a StreamsDescribeAnswer."""
        from ottla.groups.streams.exchange import StreamsDescribeAnswer

        if not self._may(principal, Operation.DESCRIBE, ResourceType.GROUP, group_id):
            waiter(StreamsDescribeAnswer(ErrorCode.GROUP_AUTHORIZATION_FAILED))
            return

        def answered(answer: StreamsDescribeAnswer) -> None:
            if answer.group is not None and not self._may_see_topics(principal, answer.group):
                message = "The described group uses topics that the client is not authorized to describe."
                answer = StreamsDescribeAnswer(ErrorCode.TOPIC_AUTHORIZATION_FAILED, message=message)
            waiter(answer)

        self._coordinator.streams_describe(group_id, answered, StreamsDescribeAnswer)

    def _require_topics(self, principal: Principal, topology: Topology) -> None:
        """Raises ApiError for topics that no application may use, or not this one."""
        names = _topics_of(topology)
        internal = sorted(filter(is_internal_topic, names))
        if internal:
            raise _invalid(
                f"Use of Kafka internal topics {', '.join(internal)} in a Kafka Streams topology is prohibited."
            )
        for name in names:
            try:
                validate_topic_name(name)
            except ApiError as error:
                raise _invalid(error.message) from error
        if self._refused(principal, Operation.DESCRIBE, names):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def _ask_for_topics(self, principal: Principal, answer: StreamsHeartbeatAnswer) -> StreamsHeartbeatAnswer:
        """Have missing topics made, and tell the member what became of it so far."""
        names = [topic.name for topic in answer.topics_to_create]
        refused = self._topic_creation.refused(principal, names)
        if refused:
            note = f"Unauthorized to CREATE on topics {', '.join(refused)}."
        else:
            self._topic_creation.ask(principal, answer.topics_to_create)
            failures = self._topic_creation.failures(names)
            if not failures:
                return answer
            note = f"Creation failed: {', '.join(f'{name} ({why})' for name, why in failures.items())}."
        response = answer.response
        assert response is not None, "an answer that asks for topics tells the member why"
        statuses = tuple(
            replace(each, status_detail=f"{each.status_detail}; {note}")
            if each.status_code == MISSING_INTERNAL_TOPICS
            else each
            for each in response.status or ()
        )
        return replace(answer, response=replace(response, status=statuses))

    def _may_see_topics(self, principal: Principal, group: DescribedGroup) -> bool:
        topology = group.topology
        names = set() if topology is None else _topics_of(topology)
        return not self._refused(principal, Operation.DESCRIBE, names)

    def _refused(self, principal: Principal, operation: Operation, names: Collection[str]) -> list[str]:
        return [each for each in sorted(names) if not self._may(principal, operation, ResourceType.TOPIC, each)]

    def _may(self, principal: Principal, operation: Operation, kind: ResourceType, name: str) -> bool:
        return self._authorizer.allows(principal, operation, kind, name)


def _topics_of(topology: Topology | DescribedTopology) -> set[str]:
    """Every topic that a topology reads or writes, as far as it names them."""
    names: set[str] = set()
    for subtopology in topology.subtopologies or ():
        names.update(subtopology.source_topics)
        names.update(subtopology.repartition_sink_topics)
        names.update(topic.name for topic in subtopology.repartition_source_topics)
        names.update(topic.name for topic in subtopology.state_changelog_topics)
    return names


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)

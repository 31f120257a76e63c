"""ConsumerGroupDescribe (key 69), versions 0 and 1 (KIP-848).

1 which protocol each member speaks (KIP-1099).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.authorized_operations import NOT_ASKED, operation_bits
from ottla.gateways.kafka.context import RequestContext
from ottla.groups.answers import ConsumerDescribeAnswer, ConsumerMemberDescription
from ottla.model.error_code import ErrorCode
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from ottla.runtime.gather import Gather

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1

TopicName = Callable[[UUID], str | None]


def handle(ctx: RequestContext, request: ConsumerGroupDescribeRequest) -> None:
    """Show consumer groups and their members; one that is asked for twice is shown once."""
    group_ids = tuple(dict.fromkeys(request.group_ids))
    gather: Gather[DescribedGroup] = Gather(
        len(group_ids), lambda groups: ctx.respond(ConsumerGroupDescribeResponse(groups=tuple(groups)))
    )
    groups, topic_name = ctx.broker.groups, ctx.broker.cluster.topic_name
    for index, group_id in enumerate(group_ids):
        operations = NOT_ASKED
        if request.include_authorized_operations:
            operations = operation_bits(groups.allowed_operations(ctx.principal, group_id))
        put = gather.place(index)
        groups.consumer_describe(ctx.principal, group_id, topic_name, _on_answer(group_id, operations, topic_name, put))


def _on_answer(
    group_id: str, operations: int, topic_name: TopicName, put: Callable[[DescribedGroup], None]
) -> Callable[[ConsumerDescribeAnswer], None]:
    return lambda answer: put(
        DescribedGroup(
            error_code=answer.error,
            error_message=answer.message,
            group_id=group_id,
            group_state=answer.state if answer.error is ErrorCode.NONE else "",
            group_epoch=answer.group_epoch,
            assignment_epoch=answer.assignment_epoch,
            assignor_name=answer.assignor_name,
            members=tuple(_member(member, topic_name) for member in answer.members),
            authorized_operations=operations if answer.error is ErrorCode.NONE else NOT_ASKED,
        )
    )


def _member(member: ConsumerMemberDescription, topic_name: TopicName) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topic_names,
        subscribed_topic_regex=member.topic_regex or "",
        assignment=_assignment(member.assignment, topic_name),
        target_assignment=_assignment(member.target, topic_name),
        member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )


def _assignment(partitions: Mapping[UUID, Sequence[int]], topic_name: TopicName) -> Assignment:
    """Topics that are gone since are left out: they have no name."""
    return Assignment(
        tuple(
            TopicPartitions(topic_id, name, tuple(indexes))
            for topic_id, indexes in partitions.items()
            if (name := topic_name(topic_id)) is not None
        )
    )


API = Api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, handle)

"""AlterShareGroupOffsets (key 91), version 0 (KIP-932)."""

from typing import Final

from ottla.broker.access import Operation, ResourceType
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
from ottla.model.principal import BROKER
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from ottla.queues.share_state import UNKNOWN_OFFSET, ShareKey

NOT_HOSTED: Final = "This server does not host this topic-partition."


async def handle(ctx: RequestContext, request: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse:
    """Have an empty group begin elsewhere, each partition by itself; at -1 by its `share.auto.offset.reset`."""
    image, authorizer = ctx.broker.image, ctx.broker.authorizer
    starts: dict[ShareKey, int] = {}
    errors: dict[tuple[str, int], ErrorCode] = {}
    for asked in request.topics:
        topic = image.topic(asked.topic_name)
        may = authorizer.allows(ctx.principal, Operation.READ, ResourceType.TOPIC, asked.topic_name)
        for each in asked.partitions:
            place = asked.topic_name, each.partition_index
            if not may:
                errors[place] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif topic is None or not 0 <= each.partition_index < len(topic.partitions):
                errors[place] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif each.start_offset < UNKNOWN_OFFSET:
                errors[place] = ErrorCode.INVALID_REQUEST
            else:
                starts[ShareKey(request.group_id, topic.topic_id, each.partition_index)] = each.start_offset
    # Brokers ask for their NSQ clients, who may empty a channel that they read.
    answer, altered = await ctx.broker.share_groups.alter_offsets(
        ctx.principal, request.group_id, starts, is_read=ctx.principal.type == BROKER
    )
    if answer.error is not ErrorCode.NONE:
        return AlterShareGroupOffsetsResponse(error_code=answer.error, error_message=answer.message)
    responses = []
    for asked in request.topics:
        topic = image.topic(asked.topic_name)
        topic_id = ZERO_UUID if topic is None else topic.topic_id
        rows = []
        for each in asked.partitions:
            error = errors.get((asked.topic_name, each.partition_index), ErrorCode.NONE)
            state = altered.get(ShareKey(request.group_id, topic_id, each.partition_index))
            message = NOT_HOSTED if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else None
            if error is ErrorCode.NONE and state is not None:
                error, message = state.error, state.message
            rows.append(AlterShareGroupOffsetsResponsePartition(each.partition_index, error, message))
        responses.append(AlterShareGroupOffsetsResponseTopic(asked.topic_name, topic_id, tuple(rows)))
    return AlterShareGroupOffsetsResponse(responses=tuple(responses))


API = Api(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, 0, handle, is_async=True)

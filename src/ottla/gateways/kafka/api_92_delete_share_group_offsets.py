"""DeleteShareGroupOffsets (key 92), version 0 (KIP-932)."""

from typing import Final
from uuid import UUID

from ottla.broker.access import Operation, ResourceType
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
from ottla.model.principal import BROKER
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)

NOT_HOSTED: Final = "This server does not host this topic-partition."
NO_STATE: Final = "There is no offset information to delete."


async def handle(ctx: RequestContext, request: DeleteShareGroupOffsetsRequest) -> DeleteShareGroupOffsetsResponse:
    """Delete what an empty group knows of topics."""
    image, authorizer = ctx.broker.image, ctx.broker.authorizer
    errors: dict[str, ErrorCode] = {}
    messages: dict[str, str] = {}
    ids: dict[str, UUID] = {}
    for asked in request.topics:
        name = asked.topic_name
        topic = image.topic(name)
        if not authorizer.allows(ctx.principal, Operation.READ, ResourceType.TOPIC, name):
            errors[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif topic is None:
            errors[name], messages[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_HOSTED
        else:
            ids[name] = topic.topic_id
    # Brokers ask for their NSQ clients, who may delete a channel that they read.
    answer, deleted = await ctx.broker.share_groups.delete_offsets(
        ctx.principal, request.group_id, dict.fromkeys(ids.values(), ()), is_read=ctx.principal.type == BROKER
    )
    if answer.error is not ErrorCode.NONE:
        return DeleteShareGroupOffsetsResponse(error_code=answer.error, error_message=answer.message)
    with_state = {key.topic_id for key in deleted}
    for name in [name for name, topic_id in ids.items() if topic_id not in with_state]:
        errors[name], messages[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NO_STATE
        del ids[name]
    for key, state in deleted.items():
        if state.error is not ErrorCode.NONE:
            errors.update({name: state.error for name, topic_id in ids.items() if topic_id == key.topic_id})
    return DeleteShareGroupOffsetsResponse(
        responses=tuple(
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=asked.topic_name,
                topic_id=ids.get(asked.topic_name, ZERO_UUID),
                error_code=errors.get(asked.topic_name, ErrorCode.NONE),
                error_message=messages.get(asked.topic_name),
            )
            for asked in request.topics
        )
    )


API = Api(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, 0, handle, is_async=True)

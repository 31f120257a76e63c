"""OffsetDelete (key 47), version 0 (KIP-496)."""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.groups.answers import DeleteOffsetsAnswer
from ottla.groups.requests import DeleteOffsets
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(ctx: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse | None:
    """Remove offsets of topics that the group does not read."""
    if not request.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    image = ctx.broker.image
    partitions = tuple(
        TopicPartition(topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
        if image.partition(topic.name, partition.partition_index) is not None
    )

    def on_answer(answer: DeleteOffsetsAnswer) -> None:
        if answer.error is not ErrorCode.NONE:
            ctx.respond(OffsetDeleteResponse(error_code=answer.error))
            return
        ctx.respond(
            OffsetDeleteResponse(
                topics=tuple(
                    OffsetDeleteResponseTopic(
                        name=topic.name,
                        partitions=tuple(
                            OffsetDeleteResponsePartition(
                                partition_index=partition.partition_index,
                                error_code=answer.partitions.get(
                                    TopicPartition(topic.name, partition.partition_index),
                                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                                ),
                            )
                            for partition in topic.partitions
                        ),
                    )
                    for topic in request.topics
                )
            )
        )

    ctx.groups.delete_offsets(DeleteOffsets(request.group_id, partitions), on_answer)
    return None


API = Api(ApiKey.OFFSET_DELETE, 0, 0, handle)

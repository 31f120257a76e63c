"""OffsetDelete (key 47), version 0 (KIP-496)."""

from ottla.broker.committed_offsets import ErrorsByTopic
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(ctx: RequestContext, request: OffsetDeleteRequest) -> None:
    """Remove offsets of topics that the group does not read."""
    topics = [(topic.name, [each.partition_index for each in topic.partitions]) for topic in request.topics]

    def on_outcome(error: ErrorCode, errors: ErrorsByTopic) -> None:
        if error is not ErrorCode.NONE:
            ctx.respond(OffsetDeleteResponse(error_code=error))
            return
        ctx.respond(
            OffsetDeleteResponse(
                topics=tuple(
                    OffsetDeleteResponseTopic(
                        name=name,
                        partitions=tuple(
                            OffsetDeleteResponsePartition(partition_index=index, error_code=code)
                            for index, code in zip(indexes, of_topic, strict=True)
                        ),
                    )
                    for (name, indexes), of_topic in zip(topics, errors, strict=True)
                )
            )
        )

    ctx.broker.committed_offsets.delete(ctx.principal, request.group_id, topics, on_outcome)


API = Api(ApiKey.OFFSET_DELETE, 0, 0, handle)

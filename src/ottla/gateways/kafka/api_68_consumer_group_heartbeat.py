"""ConsumerGroupHeartbeat (key 68), versions 0 and 1 (KIP-848).

1 subscriptions by regular expression; the client makes its member id itself (KIP-1082).
"""

from typing import Final

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.groups.answers import ConsumerHeartbeatAnswer
from ottla.groups.requests import ConsumerHeartbeat
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

CLIENT_MADE_ID_VERSION: Final = 1


def handle(ctx: RequestContext, request: ConsumerGroupHeartbeatRequest) -> None:
    """Join a consumer group, stay in it, or leave it."""
    names = request.subscribed_topic_names
    owned = request.topic_partitions
    heartbeat = ConsumerHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        new_member_id="" if request.member_id else ctx.broker.groups.new_consumer_member_id(),
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        client_id=ctx.client_id or "",
        client_host=f"/{ctx.connection.peer.host}",
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topic_names=None if names is None else tuple(sorted(set(names))),
        topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=None if owned is None else tuple((each.topic_id, each.partitions) for each in owned),
        must_bring_id=ctx.api_version >= CLIENT_MADE_ID_VERSION,
    )

    def on_answer(answer: ConsumerHeartbeatAnswer) -> None:
        assignment = None
        if answer.assignment is not None:
            assignment = Assignment(
                tuple(TopicPartitions(topic_id, tuple(indexes)) for topic_id, indexes in answer.assignment.items())
            )
        ctx.respond(
            ConsumerGroupHeartbeatResponse(
                error_code=answer.error,
                error_message=answer.message,
                member_id=answer.member_id,
                member_epoch=answer.member_epoch,
                heartbeat_interval_ms=answer.heartbeat_interval_ms,
                assignment=assignment,
            )
        )

    ctx.broker.groups.consumer_heartbeat(ctx.principal, heartbeat, on_answer)


API = Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, handle)

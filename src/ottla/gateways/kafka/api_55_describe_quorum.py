"""DescribeQuorum (key 55), versions 0 to 2 (KIP-595).

1 times of the replicas (KIP-836); 2 error messages, directory ids and the nodes (KIP-853).

The quorum of Ottla is its metadata store: the controller leads it, and is its one voter. Other brokers are
observers; the one that is asked tells of itself.

The broker that is asked asks the store, and says when it was last caught up with it. When the store does not answer,
the error message of version 2, with no error code, says why: clients of Kafka read on.
"""

from typing import Final

from ottla.broker.cluster import Quorum
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.topic_name import CLUSTER_METADATA_TOPIC
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)

METADATA_PARTITION: Final = 0
FIRST_VERSION_WITH_NODES: Final = 2


async def handle(ctx: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Tell who leads the metadata, and how far its log goes."""
    cluster = ctx.broker.cluster
    try:
        quorum = cluster.quorum(ctx.principal)
    except ApiError as error:
        return DescribeQuorumResponse(error_code=error.code, error_message=error.message)
    trouble = await cluster.store_trouble()
    nodes = cluster.nodes(ctx.connection) if ctx.api_version >= FIRST_VERSION_WITH_NODES else ()
    return DescribeQuorumResponse(
        error_message=None,
        topics=tuple(
            ResponseTopicData(
                topic_name=topic.topic_name,
                partitions=tuple(
                    _partition(ctx, quorum, trouble, topic.topic_name, each.partition_index)
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        ),
        nodes=tuple(
            Node(
                node_id=each.node_id,
                listeners=(Listener(name=ctx.connection.listener_name, host=each.host, port=each.port),),
            )
            for each in nodes
            if each.node_id == quorum.leader_id
        ),
    )


def _partition(
    ctx: RequestContext, quorum: Quorum, trouble: str | None, topic: str, index: int
) -> ResponsePartitionData:
    if (topic, index) != (CLUSTER_METADATA_TOPIC, METADATA_PARTITION):
        return ResponsePartitionData(
            partition_index=index,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=f"the quorum is that of {CLUSTER_METADATA_TOPIC}-{METADATA_PARTITION} alone",
        )
    cluster = ctx.broker.cluster
    now_ms = ctx.broker.clock.now_ms()
    is_leader = cluster.node_id == quorum.leader_id
    current_ms = cluster.current_ms if cluster.current_ms >= 0 or trouble is not None else now_ms
    observer = ReplicaState(
        replica_id=cluster.node_id,
        log_end_offset=quorum.end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=current_ms,
    )
    return ResponsePartitionData(
        partition_index=index,
        error_message=trouble,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.leader_epoch,
        high_watermark=quorum.end_offset,
        current_voters=(
            ReplicaState(
                replica_id=quorum.leader_id,
                log_end_offset=quorum.end_offset,
                last_fetch_timestamp=now_ms,
                last_caught_up_timestamp=current_ms if is_leader else now_ms if trouble is None else -1,
            ),
        ),
        observers=() if is_leader else (observer,),
    )


API = Api(ApiKey.DESCRIBE_QUORUM, 0, 2, handle, is_async=True)

"""DescribeCluster (key 60), versions 0 to 2 (KIP-700).

1 brokers or controllers can be asked for (KIP-919); 2 fenced brokers (KIP-1073): those that are registered and do not
serve.
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.authorized_operations import NOT_ASKED, operation_bits
from ottla.gateways.kafka.context import RequestContext
from ottla.model.error_code import ErrorCode
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS, CONTROLLERS = 1, 2
FIRST_VERSION_WITH_FENCED = 2


def handle(ctx: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Tell who is in the cluster. Controllers have no address of their own here: each broker may be one."""
    cluster = ctx.broker.cluster
    if request.endpoint_type != BROKERS:
        is_known = request.endpoint_type == CONTROLLERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if is_known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"this is a broker's address, endpoint type 1, not type {request.endpoint_type}",
        )
    return DescribeClusterResponse(
        error_message=None,
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        brokers=tuple(
            DescribeClusterBroker(
                broker_id=node.node_id,
                host=node.host,
                port=node.port,
                rack=node.rack,
                is_fenced=node.is_fenced and ctx.api_version >= FIRST_VERSION_WITH_FENCED,
            )
            for node in cluster.nodes(ctx.connection, with_fenced=request.include_fenced_brokers)
        ),
        cluster_authorized_operations=(
            operation_bits(cluster.operations(ctx.principal))
            if request.include_cluster_authorized_operations
            else NOT_ASKED
        ),
    )


API = Api(ApiKey.DESCRIBE_CLUSTER, 0, 2, handle)

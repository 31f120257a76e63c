"""The brokers of a cluster with those that are not there now, who decides, and taking one out for good."""

from typing import Final

from msgspec import Struct

from ottla.client.address import Address
from ottla.client.errors import broker_error
from ottla.client.io.cluster import Cluster
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RequestPartitionData,
    RequestTopicData,
)
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

_METADATA_TOPIC: Final = "__cluster_metadata"
"""By this name the log of the metadata is asked for (KIP-595)."""


class RegisteredBroker(Struct, frozen=True):
    """A broker the cluster knows; one that is fenced is not there, or not yet, and leads nothing."""

    broker_id: int
    address: Address
    rack: str | None
    is_fenced: bool


class ClusterDescription(Struct, frozen=True):
    """A cluster; a controller of -1 means that nobody decides at the moment."""

    cluster_id: str
    controller_id: int
    brokers: tuple[RegisteredBroker, ...]


class MetadataState(Struct, frozen=True):
    """How far the metadata is: the epoch of who decides, and the offset of what was decided last."""

    epoch: int
    offset: int
    store_trouble: str | None = None
    """Why the broker cannot ask the metadata store; None when that answers."""
    age_ms: int | None = None
    """For how long the broker may not have heard of what was decided; None when it does not know."""


async def describe_cluster(cluster: Cluster) -> ClusterDescription:
    """Every broker by its number, asked for now. Raises BrokerError and UnsupportedApiError."""
    request = DescribeClusterRequest(include_fenced_brokers=True)
    response = await cluster.ask_any(request, DescribeClusterResponse)
    if response.error_code:
        raise broker_error(response.error_code, "the cluster was not described", response.error_message)
    brokers = [
        RegisteredBroker(each.broker_id, Address(each.host, each.port), each.rack, each.is_fenced)
        for each in response.brokers
    ]
    return ClusterDescription(
        response.cluster_id, response.controller_id, tuple(sorted(brokers, key=lambda each: each.broker_id))
    )


async def metadata_state(cluster: Cluster, broker_id: int, *, timeout_ms: int) -> MetadataState:
    """How far the metadata is, as this broker knows. Raises ClientError when it does not answer in time."""
    request = DescribeQuorumRequest((RequestTopicData(_METADATA_TOPIC, (RequestPartitionData(0),)),))
    response = await cluster.ask_node(broker_id, request, DescribeQuorumResponse, timeout_ms=timeout_ms)
    if response.error_code:
        raise broker_error(response.error_code, "the metadata was not described", response.error_message)
    [topic] = response.topics
    [partition] = topic.partitions
    if partition.error_code:
        raise broker_error(partition.error_code, "the metadata was not described", partition.error_message)
    own = next(
        (each for each in (*partition.observers, *partition.current_voters) if each.replica_id == broker_id), None
    )
    age_ms = None
    if own is not None and own.last_caught_up_timestamp >= 0:
        age_ms = max(0, own.last_fetch_timestamp - own.last_caught_up_timestamp)
    return MetadataState(partition.leader_epoch, partition.high_watermark, partition.error_message or None, age_ms)


async def unregister_broker(cluster: Cluster, broker_id: int) -> None:
    """Have the cluster forget a broker that does not come back (KIP-631).

    Raises BrokerError, such as BROKER_ID_NOT_REGISTERED, or INVALID_REQUEST while the broker runs.
    """
    request = UnregisterBrokerRequest(broker_id)
    response = await cluster.ask_any(request, UnregisterBrokerResponse)
    if response.error_code:
        raise broker_error(response.error_code, f"broker {broker_id} was not unregistered", response.error_message)

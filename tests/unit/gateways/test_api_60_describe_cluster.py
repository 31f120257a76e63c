import pytest

from ottla.gateways.kafka.api_60_describe_cluster import API
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest


@pytest.mark.parametrize("version", range(API.min_version, API.max_version + 1))
async def test_every_version_tells_who_is_there(open_gateway, version):
    gateway = await open_gateway({"broker.rack": "r1"})
    answer = await gateway.ask(API, DescribeClusterRequest(include_cluster_authorized_operations=True), version)
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, gateway.image.cluster_id, 1)
    (broker,) = answer.brokers
    assert (broker.broker_id, broker.host, broker.port, broker.rack) == (1, "broker.example", 19092, "r1")
    assert answer.cluster_authorized_operations > 0


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
async def test_endpoints_of_another_type_are_not_here(gateway, endpoint_type, code):
    answer = await gateway.ask(API, DescribeClusterRequest(endpoint_type=endpoint_type))
    assert (answer.error_code, answer.brokers) == (code, ())
    assert answer.error_message

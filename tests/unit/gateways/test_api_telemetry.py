"""GetTelemetrySubscriptions and PushTelemetry in their wire form (KIP-714)."""

import asyncio
from typing import Any
from uuid import UUID

from ottla.broker.client_metrics import ClientAttributes, Push
from ottla.gateways.kafka import (
    api_18_api_versions,
    api_71_get_telemetry_subscriptions,
    api_72_push_telemetry,
)
from ottla.gateways.kafka.api import Api
from ottla.metadata.controller.config_alteration import Alteration, AlterOperation, ResourceAlteration
from ottla.metadata.image.image import ConfigResource, ConfigResourceType
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest
from tests.unit.gateways.admin_gateway import AdminGateway
from tests.unit.gateways.answered import CLIENT_ID, AnsweredContext, Peer, gateway_of

GET, PUSH = api_71_get_telemetry_subscriptions.API, api_72_push_telemetry.API


async def subscribe(gateway: AdminGateway, **settings: str) -> None:
    resource = ConfigResource(ConfigResourceType.CLIENT_METRICS, "s")
    changes = [Alteration(name.replace("_", "."), AlterOperation.SET, value) for name, value in settings.items()]
    [outcome] = (await gateway.controller.alter_configs([ResourceAlteration(resource, changes)])).values()
    assert outcome is None


class Client:
    """One connection that says what it is first."""

    def __init__(self, gateway: AdminGateway) -> None:
        self.gateway = gateway_of(gateway)
        self.connection = self.gateway.connect(Peer(host="10.1.2.3"))  # type: ignore[arg-type]

    def ask(self, api: Api, request: Any) -> Any:
        version = api.max_version
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        ctx = AnsweredContext(self.gateway, version, answered.set_result, Peer(host="10.1.2.3"))
        ctx.kafka_connection = self.connection
        response = api.handle(ctx, type(request).decode(version, request.encode(version)))
        return type(response).decode(version, response.encode(version))


async def test_a_client_asks_and_pushes_and_what_it_is_comes_with_it(gateway: AdminGateway) -> None:
    await subscribe(gateway, metrics="org.a", interval_ms="1000", match="client_software_name=librdkafka")
    client = Client(gateway)
    client.ask(api_18_api_versions.API, ApiVersionsRequest("librdkafka", "2.16.1"))
    asked = client.ask(GET, GetTelemetrySubscriptionsRequest())
    assert (asked.error_code, asked.requested_metrics, asked.push_interval_ms) == (0, ("org.a",), 1_000)
    assert (asked.accepted_compression_types, asked.telemetry_max_bytes) == ((4, 3, 1, 2), 1_000)
    assert asked.delta_temporality
    assert asked.client_instance_id != UUID(int=0)
    again = client.ask(GET, GetTelemetrySubscriptionsRequest(client_instance_id=asked.client_instance_id))
    assert again.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    push = PushTelemetryRequest(
        client_instance_id=asked.client_instance_id,
        subscription_id=asked.subscription_id,
        compression_type=4,
        metrics=b"metrics",
        terminating=True,
    )
    assert client.ask(PUSH, push).error_code == ErrorCode.NONE
    attributes = ClientAttributes(CLIENT_ID, "librdkafka", "2.16.1", "10.1.2.3", 50_000)
    assert gateway.pushes == [Push(asked.client_instance_id, attributes, 4, b"metrics", True)]
    assert client.ask(PUSH, push).error_code == ErrorCode.INVALID_REQUEST
    client.connection.on_close()
    assert len(gateway.telemetry) == 0


async def test_a_client_that_has_not_said_what_it_is_is_unknown(gateway: AdminGateway) -> None:
    await subscribe(gateway, metrics="*", match="client_software_name=unknown,client_software_version=unknown")
    assert Client(gateway).ask(GET, GetTelemetrySubscriptionsRequest()).requested_metrics == ("*",)


async def test_what_a_client_calls_itself_is_kept_in_part(gateway: AdminGateway) -> None:
    client = Client(gateway)
    client.ask(api_18_api_versions.API, ApiVersionsRequest("a" * 10_000, "1" * 10_000))
    assert client.connection.software == ("a" * 255, "1" * 255)

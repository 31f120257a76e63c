"""GetTelemetrySubscriptions (key 71), version 0 (KIP-714)."""

from ottla.broker.client_metrics import COMPRESSION_TYPES
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.client_attributes import attributes_of
from ottla.gateways.kafka.context import RequestContext
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)


def handle(ctx: RequestContext, request: GetTelemetrySubscriptionsRequest) -> GetTelemetrySubscriptionsResponse:
    """Tell a client which of its metrics to push, how often, and under which ids."""
    service = ctx.broker.client_metrics()
    try:
        client_instance_id, asked_for = service.ask(request.client_instance_id, attributes_of(ctx))
    except ApiError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error.code)
    ctx.kafka_connection.client_instance_id = client_instance_id
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=client_instance_id,
        subscription_id=asked_for.subscription_id,
        accepted_compression_types=COMPRESSION_TYPES,
        push_interval_ms=asked_for.interval_ms,
        telemetry_max_bytes=service.push_bytes_max,
        delta_temporality=True,
        requested_metrics=asked_for.metrics,
    )


API = Api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, handle)

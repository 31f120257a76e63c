"""PushTelemetry (key 72), version 0 (KIP-714)."""

from ottla.broker.client_metrics import Push
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.client_attributes import attributes_of
from ottla.gateways.kafka.context import RequestContext
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


def handle(ctx: RequestContext, request: PushTelemetryRequest) -> PushTelemetryResponse:
    """Take the metrics of a client, unread."""
    push = Push(
        client_instance_id=request.client_instance_id,
        client=attributes_of(ctx),
        compression_type=request.compression_type,
        metrics=request.metrics,
        is_last=request.terminating,
    )
    try:
        ctx.broker.client_metrics().push(push, request.subscription_id)
    except ApiError as error:
        return PushTelemetryResponse(error_code=error.code)
    ctx.kafka_connection.client_instance_id = request.client_instance_id
    return PushTelemetryResponse()


API = Api(ApiKey.PUSH_TELEMETRY, 0, 0, handle)

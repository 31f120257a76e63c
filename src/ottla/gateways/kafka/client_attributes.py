"""What the broker knows of the client that sends a request."""

from ottla.broker.client_metrics import ClientAttributes
from ottla.gateways.kafka.context import RequestContext


def attributes_of(ctx: RequestContext) -> ClientAttributes:
    """As telemetry tells clients apart (KIP-714); what a client has not said is `unknown`."""
    software, peer = ctx.kafka_connection.software, ctx.connection.peer
    name, version = software if software is not None else ("unknown", "unknown")
    return ClientAttributes(ctx.client_id or "", name, version, peer.host, peer.port)

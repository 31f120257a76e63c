"""RedisCommands (key 31001), version 0, from brokers: what one asks another for its Redis clients.

Kafka has no such API. Requests of one connection are served side by side.
"""

from ottla.broker.access import require_broker
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.redis_commands import RedisCommandsRequest, RedisCommandsResponse


def handle(ctx: RequestContext, request: RedisCommandsRequest) -> RedisCommandsResponse | None:
    """Have the gateway answer."""
    try:
        broker_id = require_broker(ctx.principal)
    except ApiError as error:
        return RedisCommandsResponse(error_code=error.code, error_message=error.message)
    ctx.go_on(_answer(ctx, broker_id, bytes(request.data)))
    return None


async def _answer(ctx: RequestContext, broker_id: int, data: bytes) -> None:
    try:
        response = RedisCommandsResponse(data=await ctx.broker.redis_exchange.answered(broker_id, data))
    except ApiError as error:
        response = RedisCommandsResponse(error_code=error.code, error_message=error.message)
    ctx.respond(response)


API = Api(ApiKey.REDIS_COMMANDS, 0, 0, handle, is_between_brokers=True)

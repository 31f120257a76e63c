"""ListTransactions (key 66), versions 0 to 2 (KIP-664).

1 a filter by duration (KIP-994); 2 a filter by an expression that the whole transactional id matches (KIP-1152).
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.gateways.kafka.re2_syntax import kernel_pattern
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import TopicPattern
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from ottla.runtime.turns import in_turns
from ottla.transactions.requests import TransactionFilter
from ottla.transactions.transaction_state import TransactionState as State

_STATES = frozenset(state.label for state in State)


async def handle(ctx: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """List the transactional ids that this broker coordinates."""
    unknown = tuple(dict.fromkeys(state for state in request.state_filters if state not in _STATES))
    wanted = TransactionFilter(
        frozenset(request.state_filters), frozenset(request.producer_id_filters), request.duration_filter
    )
    try:
        asked = request.transactional_id_pattern
        pattern = TopicPattern(kernel_pattern(asked)) if asked else None
    except ValueError:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    try:
        listed = await ctx.broker.transactions.list_transactions(ctx.principal, wanted)
    except ApiError as error:
        return ListTransactionsResponse(error_code=error.code, unknown_state_filters=unknown)
    states: list[TransactionState] = []
    async for some in in_turns(listed):
        shown = some
        if pattern is not None:
            matching = set(pattern.matching([each.transactional_id for each in some]))
            shown = [each for each in some if each.transactional_id in matching]
        states += (
            TransactionState(
                transactional_id=each.transactional_id, producer_id=each.producer_id, transaction_state=each.state
            )
            for each in shown
        )
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=tuple(states))


API = Api(ApiKey.LIST_TRANSACTIONS, 0, 2, handle, is_async=True)

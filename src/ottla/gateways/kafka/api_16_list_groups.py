"""ListGroups (key 16), versions 0 to 5.

3 flexible; 4 states, to show and to filter by (KIP-518); 5 types, likewise (KIP-848).
"""

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.runtime.turns import in_turns


async def handle(ctx: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """List the groups that this broker coordinates."""
    try:
        groups = await ctx.broker.groups.list_groups(ctx.principal, request.states_filter, request.types_filter)
    except ApiError as error:
        return ListGroupsResponse(error_code=error.code)
    listed: list[ListedGroup] = []
    async for some in in_turns(groups):
        listed += (
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type,
            )
            for group in some
        )
    return ListGroupsResponse(groups=tuple(listed))


API = Api(ApiKey.LIST_GROUPS, 0, 5, handle, is_async=True)

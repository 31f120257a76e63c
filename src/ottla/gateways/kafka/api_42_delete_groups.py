"""DeleteGroups (key 42), versions 0 to 2.

2 flexible.
"""

from collections.abc import Callable

from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.groups.answers import DeleteGroupAnswer
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.runtime.gather import Gather


def handle(ctx: RequestContext, request: DeleteGroupsRequest) -> None:
    """Delete empty groups with their offsets, each for itself; one that is named twice is answered once."""
    group_ids = tuple(dict.fromkeys(request.groups_names))
    gather: Gather[DeletableGroupResult] = Gather(
        len(group_ids), lambda results: ctx.respond(DeleteGroupsResponse(results=tuple(results)))
    )
    for index, group_id in enumerate(group_ids):
        ctx.broker.groups.delete(ctx.principal, group_id, _on_answer(group_id, gather.place(index)))


def _on_answer(group_id: str, put: Callable[[DeletableGroupResult], None]) -> Callable[[DeleteGroupAnswer], None]:
    return lambda answer: put(DeletableGroupResult(group_id=group_id, error_code=answer.error))


API = Api(ApiKey.DELETE_GROUPS, 0, 2, handle)

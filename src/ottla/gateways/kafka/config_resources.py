"""Resources that have settings, for the APIs that describe and change them."""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from ottla.gateways.kafka.context import RequestContext
from ottla.metadata.controller.config_alteration import ResourceAlteration
from ottla.metadata.controller.decision import Outcome
from ottla.metadata.image.image import ConfigResourceType
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError

ResourceKey = tuple[int, str]
"""The type and the name of a resource, as the request has them."""


class _NamesResource(Protocol):
    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...


T = TypeVar("T", bound=_NamesResource)
A = TypeVar("A")


def config_resource_type(number: int) -> ConfigResourceType:
    """The type of a resource. Raises ApiError INVALID_REQUEST for a number that no release of Kafka knows yet."""
    try:
        return ConfigResourceType(number)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {number}") from None


async def change_settings(
    ctx: RequestContext,
    wanted: Iterable[T],
    alteration_of: Callable[[T], ResourceAlteration],
    response: Callable[..., A],
    *,
    validate_only: bool,
) -> tuple[A, ...]:
    """The answer for each resource, made by `response`; a resource that is named more than once is answered once."""
    outcomes: dict[ResourceKey, Outcome[None]] = {}
    alterations: list[ResourceAlteration] = []
    for each in wanted:
        try:
            alterations.append(alteration_of(each))
        except ApiError as error:
            outcomes[each.resource_type, each.resource_name] = error
    decided = await ctx.broker.configs.alter(ctx.principal, alterations, validate_only=validate_only)
    outcomes |= {(int(resource.type), resource.name): outcome for resource, outcome in decided.items()}
    for outcome in outcomes.values():
        if outcome is not None:
            ctx.note_refusal(outcome.code, outcome.message)
    return tuple(
        response(
            error_code=0 if error is None else error.code,
            error_message=None if error is None else error.message,
            resource_type=kind,
            resource_name=name,
        )
        for (kind, name), error in outcomes.items()
    )

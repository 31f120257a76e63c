"""DescribeConfigs (key 32), versions 1 to 4.

1 synonyms and sources (KIP-226); 3 types and documentation (KIP-569); 4 flexible.
"""

from ottla.broker.config_entry import ConfigEntry
from ottla.broker.configs import ConfigEntries
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.config_resources import config_resource_type
from ottla.gateways.kafka.context import RequestContext
from ottla.metadata.image.image import ConfigResource
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ottla.runtime.turns import in_turns

Made = dict[int, tuple[ConfigEntries, tuple[DescribeConfigsResourceResult, ...]]]
"""Entries with what is told of them, by their identity, which is theirs for as long as they are kept here."""


async def handle(ctx: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Tell the settings of topics and brokers, and where their values come from; what is asked twice is told once."""
    made: Made = {}
    results: dict[DescribeConfigsResource, DescribeConfigsResult] = {}
    async for some in in_turns(request.resources):
        for each in some:
            if each not in results:
                results[each] = _result(ctx, request, each, made)
    return DescribeConfigsResponse(results=tuple(results.values()))


def _result(
    ctx: RequestContext,
    request: DescribeConfigsRequest,
    wanted: DescribeConfigsResource,
    made: Made,
) -> DescribeConfigsResult:
    """What is told of a resource, made once for all that have the same entries: a thousand topics cost one."""
    try:
        resource = ConfigResource(config_resource_type(wanted.resource_type), wanted.resource_name)
        entries = ctx.broker.configs.describe(ctx.principal, resource, wanted.configuration_keys or None)
    except ApiError as error:
        return DescribeConfigsResult(
            error_code=error.code,
            error_message=error.message,
            resource_type=wanted.resource_type,
            resource_name=wanted.resource_name,
        )
    known = made.get(id(entries))
    if known is None:
        known = made[id(entries)] = entries, tuple(_config(entry, request) for entry in entries)
    return DescribeConfigsResult(
        resource_type=wanted.resource_type,
        resource_name=wanted.resource_name,
        configs=known[1],
    )


def _config(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=tuple(
            DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source) for each in synonyms
        ),
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )


API = Api(ApiKey.DESCRIBE_CONFIGS, 1, 4, handle, is_async=True)

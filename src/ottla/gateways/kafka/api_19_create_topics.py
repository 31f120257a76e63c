"""CreateTopics (key 19), versions 2 to 7.

4 the broker's defaults can be asked for (KIP-464); 5 flexible, the answer tells counts and settings (KIP-525); 6 may be
throttled (KIP-599); 7 topic ids (KIP-516).
"""

from typing import Final

from ottla.broker.config_entry import ConfigEntry
from ottla.gateways.kafka.api import Api
from ottla.gateways.kafka.context import RequestContext
from ottla.metadata.controller.decision import Outcome
from ottla.metadata.controller.topic_creation import CreatedTopic, NewTopic
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

FIRST_VERSION_WITH_REFUSALS: Final = 6
"""Before it who changes too much is done his will, and told to be quiet."""


async def handle(ctx: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Create topics; each is answered once it is durable and its partitions are there."""
    outcomes = await ctx.broker.topics.create(
        ctx.principal,
        [_new_topic(topic) for topic in request.topics],
        validate_only=request.validate_only,
        quota=ctx.mutation_quota(FIRST_VERSION_WITH_REFUSALS),
    )
    return CreateTopicsResponse(topics=tuple(_result(ctx, name, outcome) for name, outcome in outcomes.items()))


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [(each.partition_index, each.broker_ids) for each in topic.assignments],
        {config.name: config.value for config in topic.configs},
    )


def _result(ctx: RequestContext, name: str, outcome: Outcome[CreatedTopic]) -> CreatableTopicResult:
    if isinstance(outcome, ApiError):
        ctx.note_refusal(outcome.code, outcome.message)
        return CreatableTopicResult(
            name=name, error_code=outcome.code, error_message=outcome.message or None, configs=()
        )
    try:
        entries = ctx.broker.configs.created_topic_entries(ctx.principal, name, outcome.configs)
    except ApiError as error:  # it is there, but its numbers and settings are not for this client to see
        return CreatableTopicResult(
            name=name, topic_id=outcome.topic_id, error_message=None, topic_config_error_code=error.code, configs=None
        )
    return CreatableTopicResult(
        name=name,
        topic_id=outcome.topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=outcome.num_partitions,
        replication_factor=outcome.replication_factor,
        configs=tuple(map(_config, entries)),
    )


def _config(entry: ConfigEntry) -> CreatableTopicConfigs:
    return CreatableTopicConfigs(
        name=entry.name, value=entry.value, read_only=entry.is_read_only, config_source=entry.source
    )


API = Api(ApiKey.CREATE_TOPICS, 2, 7, handle, is_async=True, is_decided_by_controller=True)

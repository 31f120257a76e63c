"""Who may have a topic hold the entries of a key of Redis (`redis.key`).

What clients do to a key needs rights on the topic that holds it. So whoever gives a topic a key must be allowed to make
the topic of that key's name: otherwise a topic of one's own would take what others write to the key.
"""

from ottla.broker.access import CLUSTER_NAME, Authorizer, Operation, ResourceType, require
from ottla.metadata.controller.config_alteration import ResourceAlteration
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.metadata.image.image import ConfigResourceType, MetadataImage
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import Principal
from ottla.model.redis_key import changed_setting, key_of_setting, topic_of_key
from ottla.settings.topic_settings import REDIS_KEY
from ottla.settings.value import trimmed


def require_key_of_new(authorizer: Authorizer, principal: Principal, topic: NewTopic) -> None:
    """Of a topic that is to be made. Raises ApiError TOPIC_AUTHORIZATION_FAILED, INVALID_CONFIG."""
    if setting := trimmed(topic.configs.get(REDIS_KEY) or ""):
        if "/" in setting.partition(":")[0]:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"Invalid value for configuration {REDIS_KEY}: the stream begins with its topic; give only "
                "database, colon and key",
            )
        _require(authorizer, principal, topic.name, setting)


def require_key(
    authorizer: Authorizer, principal: Principal, request: ResourceAlteration, image: MetadataImage
) -> None:
    """Of a topic whose settings are to be changed; one that keeps its key asks for nothing.

    Raises ApiError TOPIC_AUTHORIZATION_FAILED.
    """
    if request.resource.type != ConfigResourceType.TOPIC:
        return
    current = image.config(request.resource).get(REDIS_KEY, "")
    for each in request.alterations:
        setting = trimmed(each.value or "")
        if each.name == REDIS_KEY and setting and changed_setting(current, setting) != current:
            _require(authorizer, principal, request.resource.name, setting)


def _require(authorizer: Authorizer, principal: Principal, topic: str, setting: str) -> None:
    place = key_of_setting(setting)
    named = topic if place is None else topic_of_key(*place)
    if named == topic or authorizer.allows(principal, Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME):
        return
    require(authorizer, principal, Operation.CREATE, ResourceType.TOPIC, named)

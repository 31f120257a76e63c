"""Who may name a topic that the broker itself writes to.

    ottla.deliver.to                       of a delay topic: where its records are delivered; those that cannot be
                                           come to dlq.TOPIC
    errors.deadletterqueue.topic.name      of a group: where its dead letters are

The broker asks nobody when it writes there. So who names the topic must be allowed to write to these, and who makes a
delay topic of one that is there must be allowed to read what it holds. Blanks around a name are none of it, as in its
setting.
"""

from typing import Final

from ottla.broker.access import Authorizer, Operation, ResourceType, require
from ottla.metadata.controller.config_alteration import ResourceAlteration
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.metadata.image.image import ConfigResourceType, MetadataImage
from ottla.model.principal import Principal
from ottla.queues.dead_letter import letters_topic_of
from ottla.settings.topic_settings import DELIVER_TO
from ottla.settings.value import trimmed

DEAD_LETTERS: Final = "errors.deadletterqueue.topic.name"
_NAMED_BY: Final = {ConfigResourceType.TOPIC: DELIVER_TO, ConfigResourceType.GROUP: DEAD_LETTERS}


def require_delivery_of_new(authorizer: Authorizer, principal: Principal, topic: NewTopic) -> None:
    """Of a topic that is to be made. Raises ApiError TOPIC_AUTHORIZATION_FAILED."""
    if target := trimmed(topic.configs.get(DELIVER_TO) or ""):
        _require_writing(authorizer, principal, target, letters_topic_of(topic.name))


def require_delivery(
    authorizer: Authorizer, principal: Principal, request: ResourceAlteration, image: MetadataImage
) -> None:
    """Of a topic or a group whose settings are to be changed; one that keeps what it names asks for nothing.

    Raises ApiError TOPIC_AUTHORIZATION_FAILED.
    """
    setting = _NAMED_BY.get(request.resource.type)
    if setting is None:
        return
    current = image.config(request.resource).get(setting)
    for each in request.alterations:
        target = trimmed(each.value or "")
        if each.name == setting and target and target != current:
            if request.resource.type != ConfigResourceType.TOPIC:
                _require_writing(authorizer, principal, target)
                continue
            topic = request.resource.name
            _require_writing(authorizer, principal, target, letters_topic_of(topic))
            require(authorizer, principal, Operation.READ, ResourceType.TOPIC, topic)


def _require_writing(authorizer: Authorizer, principal: Principal, *topics: str) -> None:
    for topic in topics:
        require(authorizer, principal, Operation.WRITE, ResourceType.TOPIC, topic)

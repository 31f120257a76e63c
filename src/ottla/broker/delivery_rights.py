"""Who may have a delay topic deliver to another topic (`ottla.deliver.to`).

The broker delivers for whoever writes to the delay topic and asks nobody then. So who names the target must be allowed
to write there, and who makes a delay topic of one that is there must be allowed to read what it holds.
"""

from ottla.broker.access import Authorizer, Operation, ResourceType, require
from ottla.metadata.controller.config_alteration import ResourceAlteration
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.metadata.image.image import ConfigResourceType, MetadataImage
from ottla.model.principal import Principal
from ottla.settings.topic_settings import DELIVER_TO


def require_delivery_of_new(authorizer: Authorizer, principal: Principal, topic: NewTopic) -> None:
    """Of a topic that is to be made. Raises ApiError TOPIC_AUTHORIZATION_FAILED."""
    if target := topic.configs.get(DELIVER_TO):
        require(authorizer, principal, Operation.WRITE, ResourceType.TOPIC, target)


def require_delivery(
    authorizer: Authorizer, principal: Principal, request: ResourceAlteration, image: MetadataImage
) -> None:
    """Of a topic whose settings are to be changed; one that keeps its target asks for nothing.

    Raises ApiError TOPIC_AUTHORIZATION_FAILED.
    """
    if request.resource.type != ConfigResourceType.TOPIC:
        return
    current = image.config(request.resource).get(DELIVER_TO)
    for each in request.alterations:
        if each.name == DELIVER_TO and each.value and each.value != current:
            require(authorizer, principal, Operation.WRITE, ResourceType.TOPIC, each.value)
            require(authorizer, principal, Operation.READ, ResourceType.TOPIC, request.resource.name)

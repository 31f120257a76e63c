"""Checks where a delay topic delivers to (`ottla.deliver.to`)."""

from collections.abc import Mapping
from typing import Final

from ottla.metadata.image.image import MetadataImage, topic_resource
from ottla.model.topic_name import TOPIC_NAME_LENGTH_MAX, is_internal_topic
from ottla.settings.definition import InvalidSettingError, shortened
from ottla.settings.topic_settings import DELIVER_TO

CHAIN_MAX: Final = 8
"""Delay topics that deliver to one another: a longer chain is refused."""

_OWN_LENGTH_MAX: Final = TOPIC_NAME_LENGTH_MAX - len("dlq.")
"""Records that cannot be delivered go to a topic `dlq.NAME`."""


def require_sound_target(image: MetadataImage, topic: str, own: Mapping[str, str]) -> None:
    """Refuse a target that does not exist, is internal, or leads back to the topic. Raises InvalidSettingError.

    A target that is deleted later is no error of the settings: what is due waits until it is there again.
    """
    target = own.get(DELIVER_TO)
    if not target:
        return
    what = f"Invalid value {shortened(target)} for configuration {DELIVER_TO}"
    if len(topic) > _OWN_LENGTH_MAX:
        raise InvalidSettingError(
            f"{what}: the name of a delay topic has at most {_OWN_LENGTH_MAX} characters, as dlq.NAME is the topic for "
            "what cannot be delivered"
        )
    if target == topic:
        raise InvalidSettingError(f"{what}: the topic cannot deliver to itself")
    if is_internal_topic(target):
        raise InvalidSettingError(f"{what}: it holds a coordinator's state, which only coordinators write")
    if image.topic(target) is None:
        raise InvalidSettingError(f"{what}: there is no such topic; create it first")
    chain = [topic, target]
    while following := image.config(topic_resource(chain[-1])).get(DELIVER_TO):
        if following == topic:
            raise InvalidSettingError(f"{what}: it leads back to the topic: {' -> '.join([*chain, topic])}")
        if len(chain) > CHAIN_MAX or following in chain:
            raise InvalidSettingError(f"{what}: more than {CHAIN_MAX} delay topics deliver to one another")
        chain.append(following)

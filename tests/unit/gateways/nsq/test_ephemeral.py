"""Which ephemeral channels go, as the broker that coordinates them finds out."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from ottla.gateways.nsq.ephemeral import EphemeralChannels
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError

TOPICS = {"t": UUID(int=1), "t#ephemeral": UUID(int=2)}


class Gateway:
    """Two topics, their channels, and who reads them."""

    def __init__(self) -> None:
        self.channels_of = {"t": ["c", "e#ephemeral"], "t#ephemeral": ["f#ephemeral"]}
        self.here: set[str] = set()
        self.elsewhere: set[str] = set()
        self.silent = False
        self.deleted: list[str] = []
        self.broker = SimpleNamespace(config=SimpleNamespace(node_id=1), remote_shares=self)
        self.administration: Any = self
        self.channels = self

    def topics(self, principal: object) -> list[tuple[str, Any]]:
        return [(name, self.topic(name)) for name in TOPICS]

    def topic(self, name: str) -> Any:
        return SimpleNamespace(topic_id=TOPICS[name], name=name)

    async def coordinated_here(self, topic: Any) -> list[str]:
        if topic.name not in self.channels_of:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "soon")
        return list(self.channels_of[topic.name])

    async def has_readers(self, channel: str, topic_id: UUID, *, if_unknown: bool) -> bool:
        return channel in self.elsewhere or (self.silent and if_unknown)

    def readers_here(self, channel: str, topic_id: UUID) -> int:
        return int(channel in self.here)

    async def delete_channel(self, name: str, topic: Any, channel: str) -> None:
        self.channels_of[name].remove(channel)
        self.deleted.append(channel)

    async def delete_topic(self, name: str, topic: Any) -> None:
        self.deleted.append(name)


@pytest.fixture
def gateway() -> Gateway:
    made = Gateway()

    async def channels(topic: Any) -> list[str]:
        return made.channels_of[topic.name]

    made.administration = SimpleNamespace(
        topics=made.topics,
        topic=made.topic,
        delete_channel=made.delete_channel,
        delete_topic=made.delete_topic,
        channels=channels,
    )
    return made


async def test_a_channel_that_nobody_read_twice_goes_and_an_ephemeral_topic_with_its_last(gateway: Gateway) -> None:
    channels = EphemeralChannels(cast("Any", gateway))
    await channels.look()
    assert gateway.deleted == [], "a client may be about to connect anew"
    gateway.elsewhere.add("e#ephemeral")
    await channels.look()
    assert gateway.deleted == ["f#ephemeral", "t#ephemeral"]
    gateway.elsewhere.clear()
    gateway.here.add("e#ephemeral")
    await channels.look()
    gateway.here.clear()
    await channels.look()
    assert len(gateway.deleted) == 2, "it was read in between"
    await channels.look()
    assert gateway.deleted[2:] == ["e#ephemeral"]
    assert gateway.channels_of["t"] == ["c"]


async def test_nothing_goes_while_a_broker_does_not_say_what_it_has_or_the_groups_are_loaded(gateway: Gateway) -> None:
    channels = EphemeralChannels(cast("Any", gateway))
    gateway.silent = True
    del gateway.channels_of["t"]
    for _ in range(3):
        await channels.look()
    assert gateway.deleted == []
    await channels.left("t#ephemeral", "f#ephemeral")
    assert gateway.deleted == ["f#ephemeral", "t#ephemeral"], "the last client of this broker went, as far as it knows"

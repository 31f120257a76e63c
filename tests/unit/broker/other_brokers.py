"""Other brokers as a part of this one sees them: requests that wait for the test to answer or to lose them."""

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from ottla.client.errors import ConnectionLostError
from ottla.metadata.image.image import MetadataImage, PartitionImage, TopicImage
from ottla.protocol.message import ApiMessage


class OtherBrokers:
    """In place of `BrokerChannels` of broker 1."""

    broker_id = 1

    def __init__(self) -> None:
        self.sent: list[tuple[int, Any]] = []
        self.lanes: list[str] = []
        self._answers: list[asyncio.Future[Any]] = []

    async def request(
        self, broker_id: int, message: ApiMessage, response: type[Any], *, timeout_ms: int, lane: str
    ) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.sent.append((broker_id, message))
        self.lanes.append(lane)
        self._answers.append(answer)
        return await answer

    async def answer(self, index: int, response: ApiMessage) -> None:
        """The answer to a request; returns when everybody has heard of it."""
        self._answers[index].set_result(response)
        await settle()

    async def lose(self, index: int) -> None:
        """The connection ends before the answer."""
        self._answers[index].set_exception(ConnectionLostError("lost"))
        await settle()


async def settle() -> None:
    """Let what can go on go on."""
    for _ in range(10):
        await asyncio.sleep(0)


def image_of(leaders: Mapping[str, tuple[int, ...]]) -> MetadataImage:
    """Topics by name, with the leader of each partition."""
    topics = {
        name: TopicImage(
            name,
            UUID(int=number + 1),
            tuple(PartitionImage(index, leader, 0, (1, 2, 3), (1, 2, 3), 0) for index, leader in enumerate(leads)),
        )
        for number, (name, leads) in enumerate(leaders.items())
    }
    return MetadataImage("c", topics_by_name=topics)

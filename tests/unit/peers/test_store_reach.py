"""Which answers of other brokers say that the store can be reached."""

from ottla.client.errors import RequestTimedOutError
from ottla.metadata.image.image import BrokerImage, MetadataImage
from ottla.peers.store_reach import StoreReach
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ResponsePartitionData,
    ResponseTopicData,
)


class Channels:
    """In place of `BrokerChannels`: what each broker says of the store; nothing for one that hangs."""

    broker_id = 1

    def __init__(self, said: dict[int, str | None]) -> None:
        self.said = said
        self.asked: list[int] = []

    async def request(self, broker_id: int, message: DescribeQuorumRequest, *_args, **_options) -> object:
        self.asked.append(broker_id)
        if broker_id not in self.said:
            raise RequestTimedOutError("it hangs")
        assert [(each.topic_name, len(each.partitions)) for each in message.topics] == [("__cluster_metadata", 1)]
        partition = ResponsePartitionData(error_message=self.said[broker_id])
        return DescribeQuorumResponse(topics=(ResponseTopicData(partitions=(partition,)),))


async def reach(said: dict[int, str | None], brokers: int = 3) -> tuple[bool, list[int]]:
    channels = Channels(said)
    image = MetadataImage("c", brokers={each: BrokerImage(each, 5, "h", 1, None) for each in range(1, brokers + 1)})
    reached = await StoreReach(channels, lambda: image).any()  # type: ignore[arg-type]
    return reached, sorted(channels.asked)


async def test_one_broker_that_reaches_the_store_is_enough() -> None:
    assert await reach({2: "it does not answer", 3: None}) == (True, [2, 3])


async def test_those_that_cannot_or_hang_do_not_reach_it() -> None:
    assert await reach({2: "it does not answer"}) == (False, [2, 3])


async def test_a_broker_without_others_asks_nobody() -> None:
    assert await reach({}, brokers=1) == (False, [])

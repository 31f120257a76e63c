"""What an administrator does with topics and channels: make, delete, empty, pause."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.broker.access import Operation, ResourceType, require
from ottla.broker.broker import Broker
from ottla.gateways.nsq.channels import NsqChannels
from ottla.gateways.nsq.names import nsq_topic_of, topic_of
from ottla.gateways.nsq.paused import PAUSED, TOPIC, paused_names
from ottla.gateways.nsq.topics import NsqTopics
from ottla.metadata.image.image import TopicImage, topic_resource
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import ANONYMOUS, Principal, broker_principal
from ottla.model.topic_name import is_internal_topic
from ottla.model.topic_partition import TopicPartition
from ottla.settings.topic_settings import DELIVER_TO

if TYPE_CHECKING:
    from ottla.gateways.nsq.connection import NsqConnection

DELETE_TIMEOUT_MS: Final = 10_000


class NsqAdministration:
    """Belongs to the event loop. Methods raise ApiError."""

    def __init__(
        self, broker: Broker, topics: NsqTopics, channels: NsqChannels, readers: Callable[[], list["NsqConnection"]]
    ) -> None:
        """`readers` are the connections of this broker that read a channel."""
        self._broker = broker
        self._topics = topics
        self._channels = channels
        self._readers = readers

    def topics(self, principal: Principal = ANONYMOUS) -> list[tuple[str, TopicImage]]:
        """The topics that NSQ clients can name, by their names, of which the principal may know."""
        named = ((nsq_topic_of(topic.name), topic) for topic in self._broker.topics.described(principal))
        return [(name, topic) for name, topic in named if name is not None and self._is_for_clients(topic.name)]

    def _is_for_clients(self, topic: str) -> bool:
        """Whether it is neither a coordinator's topic nor one in which the messages of DPUB wait."""
        return not is_internal_topic(topic) and not self._broker.image.config(topic_resource(topic)).get(DELIVER_TO)

    def topic(self, name: str) -> TopicImage | None:
        """A topic, if it is there and clients may know of it."""
        topic = self._broker.image.topic(topic_of(name))
        if topic is None or is_internal_topic(topic.name) or not self.may_describe(topic.name):
            return None
        return topic

    def may_describe(self, topic: str) -> bool:
        """Whether clients may know of a topic of the broker."""
        return self._broker.authorizer.allows(ANONYMOUS, Operation.DESCRIBE, ResourceType.TOPIC, topic)

    def require_cluster(self, operation: Operation) -> None:
        """Refuse what concerns the broker as a whole, unless clients may do it. Raises ApiError."""
        require(self._broker.authorizer, ANONYMOUS, operation, ResourceType.CLUSTER)

    async def channels(self, topic: TopicImage, principal: Principal = ANONYMOUS) -> list[str]:
        """The channels of a topic, of which the principal may know."""
        return await self._channels.of_topic(principal, topic)

    async def create_topic(self, name: str) -> None:
        """Make a topic; it may be there."""
        await self._topics.create(ANONYMOUS, name)

    async def delete_topic(self, name: str, topic: TopicImage) -> None:
        """Delete a topic with its channels; their clients are hung up on."""
        await self._broker.cluster_topics.delete(ANONYMOUS, topic.name)
        self._hang_up(name, None, "the topic was deleted")

    async def empty_topic(self, topic: TopicImage) -> None:
        """Delete the messages that no channel has, which there are while the topic has no channel."""
        require(self._broker.authorizer, ANONYMOUS, Operation.DELETE, ResourceType.TOPIC, topic.name)
        if not await self._channels.of_topic(broker_principal(self._broker.config.node_id), topic):
            for number in range(len(topic.partitions)):
                place = TopicPartition(topic.name, number)
                await self._broker.records.delete(ANONYMOUS, place, self._broker.record_deletion, DELETE_TIMEOUT_MS)

    async def create_channel(self, topic: TopicImage, channel: str) -> None:
        """Make a channel; it may be there."""
        await self._channels.ensure(ANONYMOUS, topic, channel)

    async def delete_channel(self, name: str, topic: TopicImage, channel: str) -> None:
        """Delete a channel; its clients are hung up on. NON_EMPTY_GROUP while its group has members, Kafka clients."""
        self._channels.require_deletable(ANONYMOUS, topic, channel)
        try:
            await self._channels.delete(ANONYMOUS, topic, channel)
        except ApiError as error:
            if error.code is not ErrorCode.NON_EMPTY_GROUP or self._channels.is_coordinated_here(channel):
                raise
            # Another broker does not tell whether it is read by members or by our clients.
            self._hang_up(name, channel, "the channel is to be deleted")
            await self._channels.delete_unread(ANONYMOUS, topic, channel)
        self._hang_up(name, channel, "the channel was deleted")
        if channel in paused_names(self._broker.image, topic.name):
            await self.pause(name, topic, channel, is_paused=False)

    async def empty_channel(self, name: str, topic: TopicImage, channel: str) -> None:
        """Drop all messages of a channel: those that wait, and those that clients have."""
        await self._channels.empty(ANONYMOUS, topic, channel)
        for connection in self._readers():
            if connection.subscription == (name, channel) and connection.reader is not None:
                connection.reader.forget_in_flight()

    async def pause(self, name: str, topic: TopicImage, channel: str | None, *, is_paused: bool) -> None:
        """Have a channel deliver nothing, or all of a topic, until it is taken back."""
        names = paused_names(self._broker.image, topic.name)
        subject = TOPIC if channel is None else channel
        names = names | {subject} if is_paused else names - {subject}
        await self._broker.cluster_topics.configure(ANONYMOUS, PAUSED, {topic.name: ",".join(sorted(names)) or None})
        for connection in self._readers():
            if connection.reader is not None:
                connection.reader.wake()

    def _hang_up(self, topic: str, channel: str | None, why: str) -> None:
        for connection in self._readers():
            if connection.subscription is not None:
                its_topic, its_channel = connection.subscription
                if its_topic == topic and channel in (None, its_channel):
                    connection.connection.close(why)

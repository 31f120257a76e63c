"""What is said between a streams group and those who ask.

The protocol of streams groups is Kafka's alone, so its own messages are used: a second set of the same structures would
say nothing more.
"""

from msgspec import Struct

from ottla.coordination.outcome import Answer
from ottla.groups.streams.configured_topology import InternalTopic
from ottla.protocol.messages.streams_group_describe import DescribedGroup
from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse


class StreamsHeartbeat(Struct, frozen=True):
    """A heartbeat, and whose client it came from."""

    request: StreamsGroupHeartbeatRequest
    client_id: str
    client_host: str


class StreamsHeartbeatAnswer(Answer, frozen=True):
    """What the member is told. `topics_to_create` are those the group needs and that are not there: whoever carries
    the answer is to ask for them, once the member's client is known to be allowed.
    """

    message: str | None = None
    response: StreamsGroupHeartbeatResponse | None = None
    topics_to_create: tuple[InternalTopic, ...] = ()


class StreamsDescribeAnswer(Answer, frozen=True):
    """A group as administrators see it; None with GROUP_ID_NOT_FOUND."""

    message: str | None = None
    group: DescribedGroup | None = None

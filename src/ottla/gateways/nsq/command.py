"""The commands of an NSQ client, as far as they have been read and may be obeyed (nsq.io, TCP protocol spec)."""

from msgspec import Struct


class Identify(Struct, frozen=True):
    """What the client says of itself, as JSON."""

    body: bytes


class Auth(Struct, frozen=True):
    """The secret by which the client may do what it asks for."""

    secret: bytes


class Subscribe(Struct, frozen=True):
    """The client reads a channel."""

    topic: str
    channel: str


class Publish(Struct, frozen=True):
    """Messages for a topic; all of them or none. `delay_ms` is above 0 for those of DPUB only.

    PUBs to one topic that arrive together are one; each is answered.
    """

    command: str
    topic: str
    bodies: list[bytes]
    delay_ms: int = 0

    @property
    def answer_count(self) -> int:
        """How many answers the client waits for."""
        return len(self.bodies) if self.command == "PUB" else 1


class Ready(Struct, frozen=True):
    """So many messages may be in flight to the client."""

    count: int


class Finish(Struct, frozen=True):
    """A message is done."""

    message_id: bytes


class FinishMany(Struct, frozen=True):
    """Messages are done; the ids are numbers here."""

    numbers: tuple[int, ...]


class Requeue(Struct, frozen=True):
    """A message is to be delivered again, after a time."""

    message_id: bytes
    delay_ms: int


class Touch(Struct, frozen=True):
    """The client needs more time for a message."""

    message_id: bytes


class StartClose(Struct, frozen=True):
    """The client wants no more messages."""


class Nop(Struct, frozen=True):
    """The client is there."""


Command = Identify | Auth | Subscribe | Publish | Ready | Finish | FinishMany | Requeue | Touch | StartClose | Nop

"""The store's contract in the simulated world: sessions, conditional election, an append fenced by epoch and offset.

The log holds images instead of records: the metadata after each append. A broker that follows it has one of them; the
store has the last.
"""

from msgspec import Struct

from ottla.metadata.image.image import BrokerImage
from ottla.metadata.records import PartitionState
from ottla.metadata.registration import BrokerRegistration


class Image(Struct, frozen=True, eq=False):
    """The metadata after an append."""

    controller: int
    brokers: dict[int, BrokerImage]
    partitions: tuple[PartitionState, ...]
    live: dict[int, int]
    """The broker epochs of those that are neither fenced nor shutting down."""


class BrokerSession(Struct, frozen=True):
    """A live session, with the registration of its broker."""

    broker_epoch: int
    said: BrokerRegistration


class MetadataLog:
    """The state of the store. Operations are atomic."""

    __slots__ = ("controller", "controller_epoch", "images", "next_broker_epoch", "sessions")

    def __init__(self, first: Image) -> None:
        self.images: list[Image] = [first]
        self.sessions: dict[int, BrokerSession] = {}
        self.controller = -1
        self.controller_epoch = 0
        self.next_broker_epoch = 1

    def register(self, broker_id: int, said: BrokerRegistration) -> int:
        """Begin a session, ending the one the broker's earlier process had; returns the broker epoch."""
        broker_epoch = self.next_broker_epoch
        self.next_broker_epoch = broker_epoch + 1
        self.sessions[broker_id] = BrokerSession(broker_epoch, said)
        return broker_epoch

    def holds(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether that session lives."""
        session = self.sessions.get(broker_id)
        return session is not None and session.broker_epoch == broker_epoch

    def elect(self, broker_id: int, broker_epoch: int, seen_epoch: int) -> int:
        """Make a broker the controller if nobody was elected since `seen_epoch`; returns its epoch, 0 for a refusal."""
        if seen_epoch != self.controller_epoch or not self.holds(broker_id, broker_epoch):
            return 0
        self.controller = broker_id
        self.controller_epoch += 1
        return self.controller_epoch

    def may_append(self, controller_epoch: int, expected_end: int) -> bool:
        """Whether an append of that controller, which knows the log up to `expected_end`, would be taken."""
        return controller_epoch == self.controller_epoch and expected_end == len(self.images)

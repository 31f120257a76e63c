"""Writes down what one member of a share group sees and is told, for a `ShareHistory`."""

from collections.abc import Callable

from ottla.client.consuming.share_options import AcknowledgeType
from ottla.client.consuming.share_record import ShareRecord
from ottla.client.errors import BrokerError, ClientError
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.simulation.history import Outcome
from ottla.simulation.share_history import Delivery, Place, Settlement, ShareHistory


class ShareWitness:
    """The records of one member. `now_s` is the clock that all members share."""

    def __init__(self, member: str, history: ShareHistory, now_s: Callable[[], float]) -> None:
        self.member = member
        self._history = history
        self._now_s = now_s
        self._said: dict[Place, tuple[bool, float]] = {}

    def came(self, record: ShareRecord, asked_s: float) -> None:
        """A record was delivered by a fetch that was sent after `asked_s`."""
        value = (record.value or b"").decode()
        self._history.deliveries.append(
            Delivery(self.member, _place(record), value, record.delivery_count, asked_s, self._now_s())
        )

    def says(self, record: ShareRecord, kind: AcknowledgeType) -> None:
        """The member is about to settle a record."""
        self._said[_place(record)] = kind is not AcknowledgeType.RELEASE, self._now_s()

    def answered(self, where: TopicPartition, offsets: list[int], error: ClientError | None) -> None:
        """The outcome of a settlement: for the consumer's `on_acknowledged`."""
        outcome = Outcome.OK
        if error is not None:
            is_refused = isinstance(error, BrokerError) and error.code == ErrorCode.INVALID_RECORD_STATE
            outcome = Outcome.FAIL if is_refused else Outcome.UNKNOWN
        for offset in offsets:
            self._settle(((where.topic, where.partition), offset), outcome)

    def goes(self) -> None:
        """The member has ended: the outcome of its open settlements is unknown."""
        for place in list(self._said):
            self._settle(place, Outcome.UNKNOWN)

    def _settle(self, place: Place, outcome: Outcome) -> None:
        is_done, sent_s = self._said.pop(place, (False, 0.0))
        if sent_s:
            self._history.settlements.append(Settlement(self.member, place, is_done, outcome, sent_s, self._now_s()))


def _place(record: ShareRecord) -> Place:
    return (record.topic, record.partition), record.offset

"""Records of one share consumer between their acquisition and their acknowledgement. No I/O here.

```
 add -> buffered -- give --> delivered -- acknowledge --> delivered, with a type -- take --> on the wire
                                 ^                                                              |
                                 +---- give_renewed -- renewed <-- confirm, of what is renewed --+
```

Every record belongs to the session in which it was acquired: only there can it be acknowledged.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from ottla.client.consuming.share_options import GAP, AcknowledgeType
from ottla.client.consuming.share_record import ShareRecord
from ottla.client.consuming.share_session import Place, ShareSession
from ottla.client.errors import InvalidOptionError
from ottla.model.topic_partition import TopicPartition

Acknowledgements = dict[Place, dict[int, int]]
"""For each partition the type of each acknowledged offset."""


@dataclass(slots=True)
class _Held:
    record: ShareRecord
    place: Place
    session: ShareSession
    acknowledged: AcknowledgeType | None = None


class ShareDeliveries:
    """What a share consumer holds, for one task at a time."""

    def __init__(self) -> None:
        self._buffered: deque[_Held] = deque()
        self._delivered: dict[tuple[TopicPartition, int], _Held] = {}
        self._own: dict[ShareSession, Acknowledgements] = {}
        """What the client itself acknowledges: gaps, and records that nobody is given."""
        self._renewing: dict[tuple[ShareSession, Place, int], _Held] = {}
        self._renewed: list[_Held] = []

    @property
    def unacknowledged(self) -> list[ShareRecord]:
        """Records that were returned and that nobody has acknowledged yet, in the order in which they were."""
        return [held.record for held in self._delivered.values() if held.acknowledged is None]

    @property
    def buffered(self) -> int:
        """Records that were acquired and not returned yet."""
        return len(self._buffered)

    @property
    def renews(self) -> bool:
        """Whether a renewal waits to be sent."""
        return any(held.acknowledged is AcknowledgeType.RENEW for held in self._delivered.values())

    def sessions(self) -> set[ShareSession]:
        """The sessions that something is to be acknowledged in."""
        found = {held.session for held in self._delivered.values() if held.acknowledged is not None}
        return found | self._own.keys()

    def add(self, session: ShareSession, place: Place, records: Iterable[ShareRecord]) -> None:
        """Records were acquired."""
        self._buffered.extend(_Held(record, place, session) for record in records)

    def settle(self, session: ShareSession, place: Place, offsets: Iterable[int], kind: int = GAP) -> None:
        """Acknowledge offsets that no `poll` returns."""
        types = dict.fromkeys(offsets, kind)
        if types:
            self._own.setdefault(session, {}).setdefault(place, {}).update(types)

    def give(self, count: int) -> list[ShareRecord]:
        """Up to `count` acquired records; they are delivered now."""
        found: list[ShareRecord] = []
        while self._buffered and len(found) < count:
            found.append(self._deliver(self._buffered.popleft()))
        return found

    def give_renewed(self) -> list[ShareRecord]:
        """Records whose renewal the broker has confirmed; they are delivered again."""
        renewed, self._renewed = self._renewed, []
        return [self._deliver(held) for held in renewed]

    def _deliver(self, held: _Held) -> ShareRecord:
        held.acknowledged = None
        self._delivered[held.record.topic_partition, held.record.offset] = held
        return held.record

    def acknowledge(self, topic_partition: TopicPartition, offset: int, kind: AcknowledgeType) -> None:
        """Acknowledge a delivered record; the last type before it is sent counts."""
        held = self._delivered.get((topic_partition, offset))
        if held is None:
            raise InvalidOptionError(
                f"record {offset} of {topic_partition} cannot be acknowledged: poll has not returned it, or its"
                " acknowledgement is already sent"
            )
        held.acknowledged = kind

    def accept_all(self) -> None:
        """Accept every delivered record that is not acknowledged."""
        for held in self._delivered.values():
            if held.acknowledged is None:
                held.acknowledged = AcknowledgeType.ACCEPT

    def take(self, session: ShareSession) -> Acknowledgements:
        """What is to be acknowledged in this session; it is on the wire now."""
        taken = self._own.pop(session, {})
        for key, held in list(self._delivered.items()):
            if held.session is session and held.acknowledged is not None:
                del self._delivered[key]
                taken.setdefault(held.place, {})[held.record.offset] = held.acknowledged
                if held.acknowledged is AcknowledgeType.RENEW:
                    self._renewing[session, held.place, held.record.offset] = held
        return taken

    def confirm(self, session: ShareSession, place: Place, offsets: Iterable[int], *, succeeded: bool) -> None:
        """The outcome of acknowledgements is known. What was renewed is held again; what was not is another's."""
        for offset in offsets:
            held = self._renewing.pop((session, place, offset), None)
            if held is not None and succeeded:
                self._renewed.append(held)

    def forget(self, session: ShareSession) -> None:
        """The session is over: the broker has released what was acquired in it and not acknowledged."""
        self._buffered = deque(held for held in self._buffered if held.session is not session)
        self._renewed = [held for held in self._renewed if held.session is not session]
        self._own.pop(session, None)

    def release_all_but(self, places: frozenset[Place]) -> None:
        """Release buffered records of partitions that this member does not have any more."""
        if not all(held.place in places for held in self._buffered):
            for held in self._buffered:
                if held.place not in places:
                    self.settle(held.session, held.place, [held.record.offset], AcknowledgeType.RELEASE)
            self._buffered = deque(held for held in self._buffered if held.place in places)

"""The session of a share consumer with one broker: which partitions it fetches there, and the epochs. No I/O here.

```
 request    ShareFetch  ShareFetch  ShareAcknowledge  ShareFetch ...  ShareAcknowledge
 epoch          0           1              2              3                 -1
            all partitions  changes                    changes          ends the session: the broker
                                                                        releases what is not acknowledged
```

A session belongs to one connection, and has one request in flight at a time.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar
from uuid import UUID

from ottla.client.consuming.share_options import AcknowledgeType, ShareConsumerOptions
from ottla.client.consuming.share_record import acknowledgement_runs
from ottla.client.errors import ClientError
from ottla.protocol.messages import share_acknowledge, share_fetch

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
_EPOCHS = 1 << 31

Place = tuple[UUID, int]
"""A partition by the id of its topic."""
Batch = TypeVar("Batch")


class ShareSession:
    """One session, from its first request to its end. Epochs go on with each answer."""

    def __init__(self, node_id: int, options: ShareConsumerOptions, member_id: str) -> None:
        self.node_id = node_id
        self.ended: ClientError | None = None
        """Why the session is over."""
        self._options = options
        self._member_id = member_id
        self._epoch = INITIAL_EPOCH
        self._partitions: frozenset[Place] = frozenset()
        self._wanted: frozenset[Place] = frozenset()

    @property
    def is_new(self) -> bool:
        """Whether the broker does not know of it yet."""
        return self._epoch == INITIAL_EPOCH

    @property
    def partitions(self) -> frozenset[Place]:
        """What the broker knows to be wanted."""
        return self._partitions

    def fetch(
        self, wanted: frozenset[Place], given: Mapping[Place, Mapping[int, int]]
    ) -> share_fetch.ShareFetchRequest:
        """Acknowledge, and fetch from these partitions."""
        options = self._options
        self._wanted = wanted
        topics: dict[UUID, list[share_fetch.FetchPartition]] = {}
        for topic_id, index in sorted((wanted - self._partitions) | given.keys()):
            batches = _runs(given.get((topic_id, index), {}), share_fetch.AcknowledgementBatch)
            topics.setdefault(topic_id, []).append(share_fetch.FetchPartition(index, batches))
        forgotten: dict[UUID, list[int]] = {}
        for topic_id, index in sorted(self._partitions - wanted):
            forgotten.setdefault(topic_id, []).append(index)
        return share_fetch.ShareFetchRequest(
            group_id=options.group_id,
            member_id=self._member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=options.fetch_max_wait_ms if wanted else 0,
            min_bytes=options.fetch_min_bytes,
            max_bytes=options.fetch_max_bytes,
            max_records=options.max_poll_records,
            batch_size=options.max_poll_records,
            share_acquire_mode=options.acquire_mode,
            topics=tuple(share_fetch.FetchTopic(topic_id, tuple(each)) for topic_id, each in topics.items()),
            forgotten_topics_data=tuple(
                share_fetch.ForgottenTopic(topic_id, tuple(each)) for topic_id, each in forgotten.items()
            ),
        )

    def acknowledge(
        self, given: Mapping[Place, Mapping[int, int]], *, ends: bool = False
    ) -> share_acknowledge.ShareAcknowledgeRequest:
        """Acknowledge only; with `ends` the session is over then."""
        self._wanted = self._partitions
        topics: dict[UUID, list[share_acknowledge.AcknowledgePartition]] = {}
        for topic_id, index in sorted(given):
            batches = _runs(given[topic_id, index], share_acknowledge.AcknowledgementBatch)
            topics.setdefault(topic_id, []).append(share_acknowledge.AcknowledgePartition(index, batches))
        return share_acknowledge.ShareAcknowledgeRequest(
            group_id=self._options.group_id,
            member_id=self._member_id,
            share_session_epoch=FINAL_EPOCH if ends else self._epoch,
            is_renew_ack=any(AcknowledgeType.RENEW in types.values() for types in given.values()),
            topics=tuple(
                share_acknowledge.AcknowledgeTopic(topic_id, tuple(each)) for topic_id, each in topics.items()
            ),
        )

    def answered(self) -> None:
        """The broker has taken the request."""
        self._epoch = 1 if self._epoch + 1 == _EPOCHS else self._epoch + 1
        self._partitions = self._wanted


def _runs(types: Mapping[int, int], kind: Callable[[int, int, tuple[int, ...]], Batch]) -> tuple[Batch, ...]:
    return tuple(kind(*run) for run in acknowledgement_runs(types.items()))

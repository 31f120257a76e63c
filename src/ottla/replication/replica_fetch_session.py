"""The follower's side of a fetch session (KIP-227): the leader remembers what is fetched, requests say what changed.

full request, epoch 0      -> the leader makes a session: its id comes with the answer
epoch 1, 2, ..             -> partitions that are new or have another offset, and those that are not fetched any more
an error of the session, or no answer                       -> the next request is a full one again
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Final
from uuid import UUID

from ottla.protocol.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
_EPOCH_MAX: Final = 2**31 - 1

PartitionId = tuple[UUID, int]
"""The topic's id and the index of a partition."""


class ReplicaFetchSession:
    """One session with one leader. A request is answered before the next one is made."""

    __slots__ = ("_changed", "_epoch", "_forgotten", "_session_id", "_wanted")

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._wanted: dict[PartitionId, FetchPartition] = {}
        self._changed: dict[PartitionId, None] = {}
        self._forgotten: dict[PartitionId, None] = {}

    def __len__(self) -> int:
        """How many partitions are fetched."""
        return len(self._wanted)

    def fetch(self, key: PartitionId, partition: FetchPartition) -> None:
        """Fetch a partition from now on, from where `partition` says."""
        self._wanted[key] = partition
        self._changed[key] = None
        self._forgotten.pop(key, None)

    def forget(self, key: PartitionId) -> None:
        """Fetch it no more; one that is not fetched is passed over."""
        if self._wanted.pop(key, None) is not None:
            self._changed.pop(key, None)
            self._forgotten[key] = None

    def is_asked(self, key: PartitionId) -> bool:
        """Whether the last request fetches a partition from where it is wanted; it may be wanted anew since."""
        return key in self._wanted and key not in self._changed

    def offset(self, key: PartitionId) -> int:
        """From where a partition is fetched; -1 when it is not."""
        partition = self._wanted.get(key)
        return -1 if partition is None else partition.fetch_offset

    def next_request(self) -> tuple[int, int, tuple[FetchTopic, ...], tuple[ForgottenTopic, ...]]:
        """Session id and epoch of the next request, its topics and those to be forgotten."""
        is_full = self._session_id == NO_SESSION
        named = self._wanted if is_full else self._changed
        topics = tuple(
            FetchTopic(topic_id=topic_id, partitions=tuple(self._wanted[key] for key in keys))
            for topic_id, keys in groupby(sorted(named), key=_topic_id)
        )
        forgotten = tuple(
            ForgottenTopic(topic_id=topic_id, partitions=tuple(index for _, index in keys))
            for topic_id, keys in groupby(sorted(() if is_full else self._forgotten), key=_topic_id)
        )
        self._changed.clear()
        self._forgotten.clear()
        return self._session_id, INITIAL_EPOCH if is_full else self._epoch, topics, forgotten

    def answered(self, session_id: int) -> None:
        """The leader has answered, with the session it keeps, 0 for none."""
        if session_id == NO_SESSION or session_id != self._session_id:
            self._session_id, self._epoch = session_id, INITIAL_EPOCH
        self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def lost(self) -> None:
        """Nobody knows what the leader remembers: tell it everything."""
        self._session_id, self._epoch = NO_SESSION, INITIAL_EPOCH

    def keys(self) -> Iterable[PartitionId]:
        """The partitions that are fetched."""
        return tuple(self._wanted)


def _topic_id(key: PartitionId) -> UUID:
    return key[0]

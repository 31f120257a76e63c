"""A replica of one partition on one simulated broker: what its page cache holds, what its disk holds, and its role.

synced           log end
  |                |
==+----------------+     a kill leaves all of it, a power cut what was synced and a part of the rest, or nothing
"""

from ottla.replication.in_sync_replicas import InSyncReplicas
from ottla.simulation.producer_batches import ProducerBatches
from ottla.storage.leader_epoch_cache import LeaderEpochCache

Entry = tuple[int, int]
"""A record: the leader epoch it was written in, and its value, which nobody else writes."""

Waiting = tuple[int, int, int, int]
"""A request that waits for the high watermark: the offset to reach, the client, the value, the record's offset."""


class Replica:
    """The log and the role. `leader_epoch` is -1 until this incarnation of the broker heard of the partition."""

    __slots__ = (
        "attempt",
        "broker_id",
        "checkpoint",
        "epochs",
        "high_watermark",
        "in_sync",
        "leader",
        "leader_epoch",
        "loaded_end",
        "needs_truncation",
        "partition",
        "partition_epoch",
        "producers",
        "proposal",
        "records",
        "request",
        "synced",
        "unanswered",
        "waiting",
    )

    def __init__(self, broker_id: int, partition: int) -> None:
        self.broker_id = broker_id
        self.partition = partition
        self.records: list[Entry] = []
        self.epochs = LeaderEpochCache()
        self.synced = 0
        self.checkpoint = 0
        """The high watermark as the disk has it."""
        self.high_watermark = 0
        self.leader = -1
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.in_sync: InSyncReplicas | None = None
        """What a leader knows of its followers; None on followers."""
        self.proposal: tuple[tuple[int, int], ...] = ()
        """The members of the proposed ISR with their broker epochs; every attempt at it says the same."""
        self.attempt = 0
        """The number of the last attempt at a proposal; only its answer is taken, and once."""
        self.unanswered = 0
        """Attempts at the present proposal before the last that got no answer that says what became of it."""
        self.producers = ProducerBatches()
        self.waiting: list[Waiting] = []
        self.request = 0
        """The number of the last fetch; only its answer is taken, and once."""
        self.loaded_end = 0
        """Of a coordinator's log: where it ended when this broker began to lead; what is below is its state once it is
        committed."""
        self.needs_truncation = False
        """For planted bugs: a follower of old protocols asks once in an epoch where to cut."""

    def append(self, entry: Entry) -> None:
        """Appends a record."""
        if entry[0] != self.epochs.latest_epoch:
            self.epochs.assign(entry[0], len(self.records))
        self.records.append(entry)

    def truncate(self, end_offset: int) -> None:
        """Truncates the log, on disk as well."""
        del self.records[end_offset:]
        self.epochs.truncate_from_end(end_offset)
        self.synced = min(self.synced, end_offset)
        self.checkpoint = min(self.checkpoint, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)

    def stop(self) -> None:
        """Ends the process: its memory is lost."""
        self.high_watermark = self.checkpoint
        self.leader = self.leader_epoch = self.partition_epoch = -1
        self.in_sync = None
        self.waiting = []

    def lose_power(self, survives: int) -> None:
        """Lose power: of records that are not synced, the first `survives` remain; a torn one is truncated at start."""
        end = self.synced + survives
        if end < len(self.records):
            self.truncate(end)

    def wipe(self) -> None:
        """Replaces the disk by an empty one."""
        self.records = []
        self.epochs = LeaderEpochCache()
        self.synced = self.checkpoint = self.high_watermark = 0

"""The committed records, and the rules for them after each step.

The first leader that advances its high watermark past an offset records it here. From then on every replica whose high
watermark passes that offset must have that record there. No replica may truncate it, and every member of the ISR in
the store must hold it.
"""

from typing import NoReturn

from ottla.simulation.replica import Entry, Replica


class Violation(Exception):  # noqa: N818 - what was found is no error of the simulator
    """A rule is broken. `rule` is its name, `detail` says where."""

    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule = rule
        self.detail = detail


def violated(rule: str, detail: str) -> NoReturn:
    """End the schedule: `rule` does not hold."""
    raise Violation(rule, detail)


class Ledger:
    """The committed records of one partition."""

    __slots__ = ("committed", "damaged", "floor_epoch", "lost", "partition", "writers")

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.committed: list[Entry] = []
        self.lost: set[int] = set()
        """Values that were committed and may be gone: more was broken at once than the cluster promises to bear."""
        self.floor_epoch = 0
        """Below it leaders may commit what nobody will ever see: a later one was elected uncleanly."""
        self.damaged: set[int] = set()
        """Brokers that were in ISR or ELR when they lost, or may have lost, what they had."""
        self.writers: dict[int, tuple[int, int]] = {}
        """Who leads in an epoch: a broker and its epoch."""

    def leads(self, replica: Replica, broker_epoch: int) -> None:
        """A broker begins to lead: nobody else, and no earlier process of it, may have led in that epoch."""
        writer = (replica.broker_id, broker_epoch)
        before = self.writers.setdefault(replica.leader_epoch, writer)
        if before != writer:
            violated("one leader an epoch", f"epoch {replica.leader_epoch} of {before} and {writer}")
        if self.floor_epoch and replica.leader_epoch >= self.floor_epoch:
            self.committed += replica.records[len(self.committed) : replica.high_watermark]

    def raise_to(self, replica: Replica, high_watermark: int) -> bool:
        """A high watermark moves to where it is or on; returns whether something was committed that was not before."""
        before, committed, records = replica.high_watermark, self.committed, replica.records
        if high_watermark < before:
            violated("the high watermark never falls", f"{before} to {high_watermark} on broker {replica.broker_id}")
        if high_watermark > len(records):
            violated("the high watermark is in the log", f"{high_watermark} on broker {replica.broker_id}")
        replica.high_watermark = high_watermark
        if replica.leader_epoch < self.floor_epoch:
            return False
        known = len(committed)
        if records[before : min(known, high_watermark)] != committed[before:high_watermark]:
            violated(
                "what is committed is the same everywhere", f"below {high_watermark} on broker {replica.broker_id}"
            )
        if high_watermark <= known:
            return False
        if replica.in_sync is None:
            violated("followers follow", f"broker {replica.broker_id} at {high_watermark}, committed is {known}")
        committed += records[known:high_watermark]
        return True

    def cut(self, replica: Replica, end_offset: int) -> None:
        """A replica truncates its log; committed records must not be truncated."""
        committed = self.committed
        if (
            end_offset < min(len(committed), len(replica.records))
            and replica.records[end_offset] == committed[end_offset]
        ):
            where = f"offset {end_offset} of {len(committed)} on broker {replica.broker_id}"
            violated("what is committed is never cut", where)

    def is_held_by(self, replica: Replica, end_offset: int) -> bool:
        """Whether a log, read up to `end_offset`, has all committed records.

        The last record is enough to look at: two logs with the same record at an offset have the same before it, or
        another rule is broken.
        """
        known = len(self.committed)
        return not known or (known <= end_offset and replica.records[known - 1] == self.committed[-1])

    def missing_on(self, replica: Replica) -> NoReturn:
        """Raises Violation: a member of ISR or ELR lacks a committed record."""
        violated(
            "members of ISR and ELR hold what is committed",
            f"{len(self.committed)} records, broker {replica.broker_id} has {len(replica.records)}",
        )

    def forgive(self, replica: Replica, end_offset: int, leader_epoch: int) -> None:
        """An unclean election that had to be: what the new leader has not below `end_offset` is lost, and may be."""
        kept = 0
        for ours, theirs in zip(self.committed, replica.records[:end_offset], strict=False):
            if ours != theirs:
                break
            kept += 1
        self.lost.update(value for _, value in self.committed[kept:])
        del self.committed[kept:]
        self.floor_epoch = leader_epoch

"""A delivery ledger as one would write it first: a dict entry for each record, and no thought for speed."""

from dataclasses import dataclass, field

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = 0, 1, 2, 4
GAP, ACCEPT, RELEASE, REJECT = range(4)

Run = tuple[int, int, int, int]


class RefusedError(Exception):
    """A record is not held by who settles it, or was never delivered."""


@dataclass
class Record:
    """One record: what may be done with it, how often it was delivered, and by which lease it is held or waits."""

    state: int = AVAILABLE
    count: int = 0
    lease: int | None = None
    change: int | None = None


@dataclass
class Lease:
    """One acquisition; owner 0 for records that wait."""

    owner: int
    deadline_ms: int
    has_ended: bool = False


@dataclass
class Change:
    """What becomes of records when it is written."""

    becomes: dict[int, Record]
    not_before_ms: int


@dataclass
class LedgerModel:
    """See the module. Leases and changes are numbered by the model itself."""

    start: int = 0
    records: dict[int, Record] = field(default_factory=dict)
    """Those from `start` to the end."""
    leases: dict[int, Lease] = field(default_factory=dict)
    changes: dict[int, Change] = field(default_factory=dict)
    numbers: int = 0

    @property
    def end(self) -> int:
        """The first offset that was never delivered."""
        return self.start + len(self.records)

    def number(self) -> int:
        """A number for a lease or a change."""
        self.numbers += 1
        return self.numbers

    def deliverable(self, offset: int) -> bool:
        """Whether a record can be acquired now."""
        record = self.records.get(offset)
        if record is None:
            return offset >= self.end
        return record.state == AVAILABLE and record.lease is None and record.change is None

    def next_deliverable(self, from_offset: int) -> int:
        """The first record that was given back, or the end."""
        return next((o for o in range(max(from_offset, self.start), self.end) if self.deliverable(o)), self.end)

    def acquire(self, owner: int, first: int, last: int, records_max: int, deadline_ms: int) -> tuple[int, list[Run]]:
        """Deliver."""
        if first > self.end:
            if not self.records:
                self.start = first
            for offset in range(self.end, first):
                self.records[offset] = Record(ARCHIVED)
            self.advance()
        lease, taken = self.number(), []
        for offset in range(max(first, self.start), last + 1):
            if len(taken) < records_max and self.deliverable(offset):
                record = self.records.setdefault(offset, Record())
                record.state, record.count, record.lease = ACQUIRED, record.count + 1, lease
                taken.append(offset)
        if not taken:
            return 0, []
        self.leases[lease] = Lease(owner, deadline_ms)
        return lease, self.runs_of(taken)

    def settle(
        self, owner: int, runs: list[tuple[int, int, int]], deliveries_max: int, not_before_ms: int
    ) -> tuple[int, list[Run]]:
        """Settle, pending."""
        becomes: dict[int, Record] = {}
        for first, last, kind in runs:
            for offset in self.held(owner, first, last):
                if offset in becomes:
                    raise RefusedError(offset)
                becomes[offset] = after(self.records[offset], kind, deliveries_max)
        if not becomes:
            return 0, []
        change = self.number()
        for offset in becomes:
            self.records[offset].change = change
        self.changes[change] = Change(becomes, not_before_ms)
        return change, [(o, o, record.state, record.count) for o, record in becomes.items()]

    def extend(self, owner: int, runs: list[tuple[int, int]], deadline_ms: int) -> int:
        """A new lease for held records."""
        offsets: list[int] = []
        for first, last in runs:
            for offset in self.held(owner, first, last):
                if offset in offsets:
                    raise RefusedError(offset)
                offsets.append(offset)
        lease = self.number()
        for offset in offsets:
            self.records[offset].lease = lease
        if not offsets:
            return 0
        self.leases[lease] = Lease(owner, deadline_ms)
        return lease

    def claim(self, owner: int, offsets: list[int], deadline_ms: int, deliveries: int) -> tuple[int, list[Run]]:
        """Take records over."""
        lease, taken = self.number(), []
        for offset in offsets:
            record = self.records.get(offset)
            if record is not None and record.state in (AVAILABLE, ACQUIRED) and record.change is None:
                record.state, record.count, record.lease = ACQUIRED, record.count + deliveries, lease
                taken.append(offset)
        if not taken:
            return 0, []
        self.leases[lease] = Lease(owner, deadline_ms)
        return lease, self.runs_of(taken)

    def commit(self, change: int) -> int:
        """Written."""
        done = self.changes.pop(change)
        wait = 0
        for offset, record in done.becomes.items():
            if offset < self.start:
                continue
            if done.not_before_ms and record.state == AVAILABLE:
                if not wait:
                    wait = self.number()
                    self.leases[wait] = Lease(0, done.not_before_ms)
                record.lease = wait
            self.records[offset] = record
        self.advance()
        return wait

    def roll_back(self, change: int, deliveries_max: int) -> list[Run]:
        """Not written."""
        released = []
        for offset in self.changes.pop(change).becomes:
            if offset < self.start:
                continue
            record = self.records[offset]
            record.change = None
            assert record.lease is not None
            if self.leases[record.lease].has_ended:
                self.records[offset] = after(record, RELEASE, deliveries_max)
                released.append(offset)
        runs = self.runs_of(released)
        self.advance()
        return runs

    def end_lease(self, lease: int, deliveries_max: int) -> list[Run]:
        """Its time is over."""
        self.leases[lease].has_ended = True
        released = []
        for offset, record in self.records.items():
            if record.lease == lease and record.change is None:
                if record.state == ACQUIRED:
                    self.records[offset] = after(record, RELEASE, deliveries_max)
                    released.append(offset)
                else:
                    record.lease = None
        runs = self.runs_of(released)
        self.advance()
        return runs

    def release_owner(self, owner: int, deliveries_max: int) -> list[Run]:
        """Its owner is gone."""
        runs = []
        for lease, found in list(self.leases.items()):
            if found.owner == owner:
                runs += self.end_lease(lease, deliveries_max)
        return sorted(runs)

    def move_start(self, offset: int) -> None:
        """The log begins there."""
        if offset > self.start:
            self.records = {o: record for o, record in self.records.items() if o >= offset}
            self.start = offset
            self.advance()

    def holder(self, offset: int) -> tuple[int, int] | None:
        """Who has a record."""
        record = self.records.get(offset)
        if record is None or record.lease is None:
            return None
        return self.leases[record.lease].owner, self.leases[record.lease].deadline_ms

    def held(self, owner: int, first: int, last: int) -> list[int]:
        """The records of a range, all of them held by this owner."""
        if last < first or last >= self.end:
            raise RefusedError(first)
        offsets = list(range(max(first, self.start), last + 1))
        for offset in offsets:
            record = self.records[offset]
            lease = self.leases.get(record.lease) if record.lease is not None else None
            is_held = record.state == ACQUIRED and record.change is None
            if not is_held or lease is None or lease.owner != owner or lease.has_ended:
                raise RefusedError(offset)
        return offsets

    def advance(self) -> None:
        """The start moves over what is done."""
        while (record := self.records.get(self.start)) is not None:
            if record.state not in (ACKNOWLEDGED, ARCHIVED) or record.change is not None:
                break
            del self.records[self.start]
            self.start += 1

    def runs_of(self, offsets: list[int]) -> list[Run]:
        """Runs of one record each."""
        return [(o, o, self.records[o].state, self.records[o].count) for o in offsets]

    def states(self) -> list[Run]:
        """All records between start and end."""
        return self.runs_of(sorted(self.records))


def after(record: Record, kind: int, deliveries_max: int) -> Record:
    """What a held record becomes."""
    if kind == ACCEPT:
        return Record(ACKNOWLEDGED, record.count)
    if kind == RELEASE and not (deliveries_max and record.count >= deliveries_max):
        return Record(AVAILABLE, record.count)
    return Record(ARCHIVED, record.count)


def apart(runs: list[Run]) -> list[Run]:
    """Runs as one for each record."""
    return [(offset, offset, state, count) for first, last, state, count in runs for offset in range(first, last + 1)]

"""Whatever workers and Redis clients do to the entries of a group, and whenever the leader dies: what is pending, who
has it and what may be given out is as in a naive model, one row for each entry.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.gateways.redis import stream_records as records
from ottla.gateways.redis.stream import NodeLimits, Stream
from ottla.gateways.redis.stream_id import id_bytes
from ottla.gateways.redis.stream_records import Assigned, Began, ConsumerDeleted, GroupSet, Released
from ottla.gateways.redis.worker_holds import Hold, Lease, WorkerHolds

GROUP = b"g"
WORKERS = st.sampled_from(["kafka", "nsq"])
CLIENTS = st.sampled_from([b"alice", b"bob"])
MASKS = st.integers(0, 255)
"""Which of the entries that are meant are: one bit for each."""
NOBODY = None


class Row:
    """One entry that is pending: who has it, how often it was given out, and a time."""

    def __init__(self, owner: str | None, count: int, until_ms: int) -> None:
        self.owner, self.count, self.until_ms = owner, count, until_ms
        self.is_worker = owner in ("kafka", "nsq")


class HoldsAgreeWithTheModel(RuleBasedStateMachine):
    """Each rule is done to both."""

    new_holds: Callable[..., WorkerHolds] = WorkerHolds

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000
        self.rows: dict[int, Row] = {}
        self.added = self.given = 0
        self.log: list[records.Record] = []
        self.stream = Stream(NodeLimits(bytes_max=4096, entries_max=3), lambda _: None)
        self.stream.mark(self.now_ms, Began(0, b"s"))
        self.stream.mark(self.now_ms, GroupSet(GROUP, id_bytes(0), 0))
        self.lost: list[tuple[str, int]] = []
        self.expected_lost: list[tuple[str, int]] = []
        self.open()

    def open(self) -> None:
        self.group = self.stream.groups[GROUP]
        self.ended: list[Lease] = []
        self.leases: list[Lease] = []
        self.holds = type(self).new_holds(
            self.stream, self.group, lambda: None, lambda *each: self.lost.append(each), self.ended.append
        )

    def mark(self, mark: records.Mark) -> None:
        self.stream.mark(self.now_ms, mark)

    # --- workers ------------------------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 4))
    def add(self, count: int) -> None:
        for _ in range(count):
            self.added += 1
            self.stream.append(self.added, [b"n", b"v"], self.now_ms)

    @rule(worker=WORKERS, count=st.integers(1, 4), lock_ms=st.integers(1, 300))
    def give_new(self, worker: str, count: int, lock_ms: int) -> None:
        ids = list(range(self.given + 1, min(self.given + count, self.added) + 1))
        if not ids:
            return
        self.given = ids[-1]
        self.mark(GroupSet(GROUP, id_bytes(self.given), self.given))
        self.lose([each for each in ids if each in self.rows])
        self.take(worker, ids, lock_ms)

    @rule(worker=WORKERS, count=st.integers(1, 4), lock_ms=st.integers(1, 300))
    def give_again(self, worker: str, count: int, lock_ms: int) -> None:
        free = sorted(
            entry_id for entry_id, row in self.rows.items() if row.owner is NOBODY and row.until_ms <= self.now_ms
        )
        assert self.holds.has_free(self.now_ms) == bool(free)
        ids = self.holds.pop_free(count, self.now_ms)
        assert ids == free[:count]
        if ids:
            self.take(worker, ids, lock_ms)

    def take(self, worker: str, ids: list[int], lock_ms: int) -> None:
        lease = Lease(worker, self.now_ms + lock_ms, 0)
        self.leases.append(lease)
        counts = self.holds.take(lease, [(100 + entry_id, entry_id) for entry_id in ids], self.now_ms)
        for entry_id, count in zip(ids, counts, strict=True):
            before = self.rows.get(entry_id)
            self.rows[entry_id] = Row(worker, 1 if before is None else before.count + 1, lease.until_ms)
            assert count == self.rows[entry_id].count

    def held(self, worker: str, mask: int) -> list[Hold]:
        """Some of what a worker has, as the offsets say that it knows."""
        wanted = sorted(each for each, row in self.rows.items() if row.owner == worker)
        holds = self.holds.held_by(worker)
        assert [hold.entry_id for hold in holds] == wanted
        return [hold for at, hold in enumerate(holds) if mask >> at & 1]

    @rule(worker=WORKERS, mask=MASKS)
    def finish(self, worker: str, mask: int) -> None:
        holds = self.held(worker, mask)
        self.holds.finish(holds, self.now_ms)
        for hold in holds:
            del self.rows[hold.entry_id]

    @rule(worker=WORKERS, delay_ms=st.sampled_from([0, 0, 50, 200]), mask=MASKS)
    def release(self, worker: str, delay_ms: int, mask: int) -> None:
        holds = self.held(worker, mask)
        until_ms = self.now_ms + delay_ms if delay_ms else 0
        self.holds.give_back(holds, self.now_ms, until_ms)
        for hold in holds:
            self.rows[hold.entry_id] = Row(NOBODY, self.rows[hold.entry_id].count, until_ms)

    @rule(worker=WORKERS, mask=MASKS)
    def renew(self, worker: str, mask: int) -> None:
        holds = self.held(worker, mask)
        if not holds:
            return
        lease = Lease(worker, self.now_ms + 500, 0)
        self.leases.append(lease)
        self.holds.renew(lease, holds, self.now_ms)
        for hold in holds:
            self.rows[hold.entry_id].until_ms = lease.until_ms

    @rule(ms=st.sampled_from([1, 30, 100, 400]))
    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        for lease in self.leases:
            if lease.until_ms <= self.now_ms and lease.ids:
                holds = [each for each in self.holds.held_by(lease.member_id) if each.lease is lease]
                self.holds.give_back(holds, self.now_ms)
        for entry_id, row in self.rows.items():
            if row.is_worker and row.until_ms <= self.now_ms:
                self.rows[entry_id] = Row(NOBODY, row.count, 0)

    @rule(worker=WORKERS)
    def go(self, worker: str) -> None:
        self.holds.give_back(self.holds.held_by(worker), self.now_ms)
        self.holds.drop_worker(worker, self.now_ms)
        for entry_id, row in self.rows.items():
            if row.owner == worker:
                self.rows[entry_id] = Row(NOBODY, row.count, 0)
        assert worker.encode() not in self.group.consumers

    # --- clients of Redis ---------------------------------------------------------------------------------------------

    def some(self, mask: int) -> list[int]:
        return [each for at, each in enumerate(sorted(self.rows)) if mask >> at & 1]

    def lose(self, ids: list[int]) -> None:
        self.expected_lost += [
            (owner, 100 + each) for each in ids if self.rows[each].is_worker and (owner := self.rows[each].owner)
        ]

    @rule(mask=MASKS)
    def xack(self, mask: int) -> None:
        ids = self.some(mask)
        self.lose(ids)
        self.mark(Released(GROUP, [id_bytes(each) for each in ids]))
        for each in ids:
            del self.rows[each]

    @rule(client=CLIENTS, mask=MASKS)
    def xclaim(self, client: bytes, mask: int) -> None:
        self.assign(client, self.some(mask), 1)

    @rule(back=st.integers(1, 4))
    def xgroup_setid(self, back: int) -> None:
        self.given = max(0, self.given - back)
        self.mark(GroupSet(GROUP, id_bytes(self.given), self.given))

    @rule(mask=MASKS)
    def xnack(self, mask: int) -> None:
        self.assign(None, self.some(mask), 0)

    def assign(self, client: bytes | None, ids: list[int], more: int) -> None:
        self.lose(ids)
        counts = [self.rows[each].count + more for each in ids]
        rows = [id_bytes(each) for each in ids]
        self.mark(Assigned(GROUP, client, self.now_ms, self.now_ms if client else 0, rows, counts))
        for each, count in zip(ids, counts, strict=True):
            self.rows[each] = Row(None if client is None else client.decode(), count, 0)

    @rule(client=CLIENTS)
    def delconsumer(self, client: bytes) -> None:
        self.mark(ConsumerDeleted(GROUP, client))
        self.rows = {each: row for each, row in self.rows.items() if row.owner != client.decode()}

    # --- the leader dies ----------------------------------------------------------------------------------------------

    @rule(from_snapshot=st.booleans())
    def another_leads(self, from_snapshot: bool) -> None:
        again = Stream(NodeLimits(bytes_max=4096, entries_max=3), lambda _: None)
        self.log += [each for each in self.stream.journal if isinstance(each, tuple)]
        marks = [value for _, _, value, headers in self.log if len(headers[0][1]) == 1]
        for _, _, _, headers in self.log:
            entry_id = records.entry_id_of(headers[0][1])
            if entry_id is not None:
                again.load_entry(entry_id, 100 + entry_id, begins=headers[0][1][:1] == records.NODE)
        for node in again.nodes:
            node.entries = {each: [b"n", b"v"] for each in range(node.first_id, node.last_id + 1)}
            node.names = [b"n"]
        if from_snapshot:
            marks = [records.mark(each, 0)[2] for each in records.snapshot(self.stream, 0)]
        for value in marks:
            again.apply_mark(records.decode_mark(value))
        self.stream = again
        self.open()
        self.holds.free(self.holds.learn(list(self.group.pending), self.now_ms), self.now_ms)
        for entry_id, row in self.rows.items():
            if row.is_worker:
                self.rows[entry_id] = Row(NOBODY, row.count, 0)
        self.lost, self.expected_lost = [], []

    # --- what always holds --------------------------------------------------------------------------------------------

    @invariant()
    def the_same_is_pending(self) -> None:
        found = {
            entry_id: (None if each.consumer is None else each.consumer.name.decode(), each.count)
            for entry_id, each in self.group.pending.items()
        }
        assert found == {entry_id: (row.owner, row.count) for entry_id, row in self.rows.items()}
        assert self.group.unowned_count == sum(row.owner is NOBODY for row in self.rows.values())

    @invariant()
    def workers_have_what_they_have(self) -> None:
        for worker in ("kafka", "nsq"):
            wanted = sorted(each for each, row in self.rows.items() if row.owner == worker)
            assert [hold.entry_id for hold in self.holds.held_by(worker)] == wanted
        assert sorted(self.lost) == sorted(self.expected_lost)

    @invariant()
    def leases_with_nothing_left_have_ended(self) -> None:
        assert {id(each) for each in self.leases if not each.ids} == {id(each) for each in self.ended}


HoldsAgreeWithTheModel.TestCase.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
TestHolds = HoldsAgreeWithTheModel.TestCase


# --- planted mistakes -------------------------------------------------------------------------------------------------


class RedisIsNotLookedAt(WorkerHolds):
    def _on_pending(self, entry_id: int) -> None:
        """An XACK or XCLAIM leaves the worker its entry."""


class DelaysAreForgotten(WorkerHolds):
    def give_back(self, holds: Any, now_ms: int, until_ms: int = 0) -> None:
        super().give_back(holds, now_ms, 0 * until_ms)


class CountsAreNotRaised(WorkerHolds):
    def take(self, lease: Lease, places: Any, now_ms: int) -> list[int]:
        return [max(1, count - 1) for count in super().take(lease, places, now_ms)]


class PastWorkersKeepWhatTheyHad(WorkerHolds):
    def learn(self, ids: Any, now_ms: int) -> list[int]:
        super().learn(ids, now_ms)
        return []


class FinishedIsNotJournaled(WorkerHolds):
    def finish(self, holds: Any, now_ms: int) -> None:
        self.set_aside(holds)


class RenewalsRenewNothing(WorkerHolds):
    def renew(self, lease: Lease, holds: Any, now_ms: int) -> None:
        """The first lease goes on."""


STEPS: list[Callable[[Any, Random], None]] = [
    lambda run, rng: run.add(rng.randint(1, 4)),
    lambda run, rng: run.give_new(_worker(rng), rng.randint(1, 4), rng.randint(1, 300)),
    lambda run, rng: run.give_again(_worker(rng), rng.randint(1, 4), rng.randint(1, 300)),
    lambda run, rng: run.finish(_worker(rng), rng.getrandbits(8)),
    lambda run, rng: run.release(_worker(rng), rng.choice([0, 50, 200]), rng.getrandbits(8)),
    lambda run, rng: run.renew(_worker(rng), rng.getrandbits(8)),
    lambda run, rng: run.pass_time(rng.choice([1, 30, 100, 400])),
    lambda run, rng: run.xack(rng.getrandbits(8)),
    lambda run, rng: run.xclaim(b"alice", rng.getrandbits(8)),
    lambda run, rng: run.xnack(rng.getrandbits(8)),
    lambda run, rng: run.another_leads(rng.random() < 0.5),
]


def _worker(rng: Random) -> str:
    return rng.choice(["kafka", "nsq"])


def _run(holds: type[WorkerHolds], seed: int) -> None:
    class Run(HoldsAgreeWithTheModel):
        new_holds = holds

    run, rng = Run(), Random(seed)
    for _ in range(60):
        rng.choice(STEPS)(run, rng)
        run.the_same_is_pending()
        run.workers_have_what_they_have()
        run.leases_with_nothing_left_have_ended()


@pytest.mark.parametrize(
    "mistaken",
    [
        RedisIsNotLookedAt,
        DelaysAreForgotten,
        CountsAreNotRaised,
        PastWorkersKeepWhatTheyHad,
        FinishedIsNotJournaled,
        RenewalsRenewNothing,
    ],
)
def test_a_planted_mistake_is_found(mistaken: type[WorkerHolds]) -> None:
    def is_found(seed: int) -> bool:
        try:
            _run(mistaken, seed)
        except (AssertionError, KeyError):
            return True
        return False

    assert any(is_found(seed) for seed in range(50))


def test_without_a_mistake_there_is_nothing_to_find() -> None:
    for seed in range(50):
        _run(WorkerHolds, seed)

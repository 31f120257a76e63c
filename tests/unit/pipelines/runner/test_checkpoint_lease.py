"""One driver at a time on a checkpoint: who is refused, who takes over, and who finds out that it was taken over."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from ottla.client.admin.admin import CreatedTopic, NewTopic
from ottla.client.consuming.offsets import ListedOffset, OffsetAt
from ottla.client.errors import BrokerError, ConnectionLostError
from ottla.model.error_code import ErrorCode
from ottla.native import decode_records
from ottla.pipelines.runner import checkpoint_lease
from ottla.pipelines.runner.checkpoint import CheckpointError
from ottla.pipelines.runner.checkpoint_lease import LEASE_MS, CheckpointLeases, Driver, FencedError
from ottla.pipelines.runner.lease_log import PARTITION, TOPIC, Entry, LeaseLog, Sign, Use, decoded, encoded, newer
from ottla.runtime.clock import ManualClock
from tests.unit.pyspark_ottla.model_log import ModelLog

CHECKPOINT = "c"
WANTED = {CHECKPOINT: "/shared/c"}


class Brokers(ModelLog):
    """A topic in memory; who waits for its news lets time pass, and whoever else has something to do does it then."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(1_000)
        self.meanwhile: list[Callable[[], None]] = []
        self.before_append: list[Callable[[], None]] = []
        self.after_append: list[Callable[[], None]] = []
        self.shows_end: int | None = None
        self.settings: dict[str, str] = {}
        self.closed = threading.Event()

    def create_topic(self, topic: NewTopic) -> CreatedTopic:
        if topic.name in self.partitions:
            raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, "it is there")
        self.create(topic.name)
        self.settings = dict(topic.configs)
        return CreatedTopic(topic.name, self.topic_id(topic.name), 1, 1)

    def fetch_raw(self, topic, partition, offset, *, max_bytes, max_wait_ms):
        if offset == self.partitions[topic][partition].end and max_wait_ms:
            if self.meanwhile:
                self.meanwhile.pop(0)()
            self.clock.advance(max_wait_ms)
        return super().fetch_raw(topic, partition, offset, max_bytes=max_bytes, max_wait_ms=max_wait_ms)

    def list_offsets(self, at):
        found = super().list_offsets(at)
        if self.shows_end is None or OffsetAt.LATEST not in at.values():
            return found
        return {PARTITION: ListedOffset(self.shows_end, -1, 0)}

    def produce_raw(self, topic, partition, batches):
        if self.before_append:
            self.before_append.pop(0)()
        produced = super().produce_raw(topic, partition, batches)
        if self.after_append:
            self.after_append.pop(0)()
        return produced

    def close(self) -> None:
        self.closed.set()

    def compact(self) -> None:
        """Keep the newest record of each key."""
        [log] = self.partitions[TOPIC]
        kept: dict[bytes, tuple] = {}
        for each in log.batches:
            for entry, record in self._records(each):
                kept.pop(entry, None)
                kept[entry] = record
        log.batches = []
        for offset, record in sorted(kept.values()):
            log.end = offset
            log.append(record)

    def _records(self, batch):
        for offset, at, key, value, headers in decode_records(batch[2], max_decompressed_bytes=1 << 20):
            yield key, (offset, (at, key, value, headers))


def leases(brokers: Brokers, name: str, machine: str | None = None) -> CheckpointLeases:
    driver = Driver(name, f"host-{name}", 7, machine or f"machine-{name}", brokers.clock.now_ms())
    return CheckpointLeases(LeaseLog(brokers, brokers.clock), driver, brokers.clock)


def silent(_line: str) -> None:
    """Nobody reads what is waited for."""


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


def test_what_nobody_has_is_taken_at_once_and_confirmed(brokers):
    one = leases(brokers, "a")
    told: list[str] = []
    one.take(WANTED, told.append)
    one.confirm(CHECKPOINT)
    assert told == []
    assert brokers.clock.now_ms() == 1_000
    assert brokers.settings["cleanup.policy"] == "compact"


def test_a_driver_that_lives_is_heard_and_the_second_one_refused(brokers):
    one, two = leases(brokers, "a"), leases(brokers, "b")
    one.take(WANTED, silent)
    brokers.meanwhile = [lambda: None, lambda: one.confirm(CHECKPOINT)]
    told: list[str] = []
    with pytest.raises(
        CheckpointError, match=r"/shared/c is in use by another driver \(process 7 on host-a, since 1970"
    ):
        two.take(WANTED, told.append)
    assert len(told) == 1
    assert "process 7 on host-a" in told[0]
    one.confirm(CHECKPOINT)


def test_a_driver_that_is_silent_is_taken_over_and_fenced_when_it_comes_back(brokers):
    paused, other = leases(brokers, "a"), leases(brokers, "b")
    paused.take(WANTED, silent)
    other.take(WANTED, silent)
    assert brokers.clock.now_ms() >= 1_000 + LEASE_MS
    for _ in range(2):
        with pytest.raises(FencedError, match=r"^fenced: another driver \(process 7 on host-b.*/shared/c"):
            paused.confirm(CHECKPOINT)
    other.confirm(CHECKPOINT)
    # What the fenced one leaves is not the other's to lose.
    paused.__exit__(None, None, None)
    other.confirm(CHECKPOINT)


def test_a_driver_that_left_is_followed_at_once(brokers):
    with leases(brokers, "a") as one:
        one.take(WANTED, silent)
    other = leases(brokers, "b")
    other.take(WANTED, silent)
    other.confirm(CHECKPOINT)
    assert brokers.clock.now_ms() == 1_000


def test_a_driver_of_this_machine_that_lost_its_lock_is_followed_at_once_but_no_other(brokers):
    leases(brokers, "a", "here").take(WANTED, silent)
    leases(brokers, "b", "here").take(WANTED, silent, frozenset(WANTED))
    assert brokers.clock.now_ms() == 1_000
    leases(brokers, "c", "there").take(WANTED, silent, frozenset(WANTED))
    assert brokers.clock.now_ms() >= 1_000 + LEASE_MS


def test_of_two_that_saw_nobody_the_first_in_the_log_goes_on(brokers):
    first, second = leases(brokers, "a"), leases(brokers, "b")
    brokers.before_append = [lambda: first.take(WANTED, silent)]
    with pytest.raises(CheckpointError, match="host-a"):
        second.take(WANTED, silent)
    first.confirm(CHECKPOINT)
    brokers.compact()
    first.confirm(CHECKPOINT)


def test_of_two_claims_that_stand_side_by_side_the_first_one_is_not_lost_to_the_second(brokers):
    first, second = leases(brokers, "a"), leases(brokers, "b")

    def claim_second() -> None:
        with pytest.raises(CheckpointError, match="host-a"):
            second.take(WANTED, silent)

    # The second one read the log while it was empty; it claims before the first one reads its own claim.
    brokers.create(TOPIC)
    brokers.shows_end = 0
    brokers.after_append = [claim_second]
    first.take(WANTED, silent)
    first.confirm(CHECKPOINT)


def test_several_checkpoints_are_taken_all_or_none_and_those_that_were_taken_are_left(brokers):
    one, two = leases(brokers, "a"), leases(brokers, "b")
    one.take({"y": "/y"}, silent)
    brokers.meanwhile = [lambda: one.confirm("y")]
    with pytest.raises(CheckpointError, match="/y is in use"):
        two.take({"x": "/x", "y": "/y"}, silent)
    before = brokers.clock.now_ms()
    leases(brokers, "c").take({"x": "/x"}, silent)
    assert brokers.clock.now_ms() == before


def test_only_the_checkpoint_that_was_taken_over_is_fenced(brokers):
    one, two = leases(brokers, "a"), leases(brokers, "b")
    one.take({"x": "/x", "y": "/y"}, silent)
    two.take({"y": "/y"}, silent)
    one.confirm("x")
    with pytest.raises(FencedError):
        one.confirm("y")
    two.confirm("y")


def test_a_driver_that_comes_back_after_others_have_come_and_gone_is_fenced_after_compaction_too(brokers):
    paused = leases(brokers, "a")
    paused.take(WANTED, silent)
    with leases(brokers, "b") as other:
        other.take(WANTED, silent)
    brokers.compact()
    with pytest.raises(FencedError):
        paused.confirm(CHECKPOINT)
    brokers.compact()
    # Its last sign does not hide that the generation after it has left.
    before = brokers.clock.now_ms()
    third = leases(brokers, "c")
    third.take(WANTED, silent)
    assert brokers.clock.now_ms() == before
    third.confirm(CHECKPOINT)


def test_a_topic_that_was_deleted_and_made_again_is_read_from_its_start(brokers):
    one = leases(brokers, "a")
    one.take(WANTED, silent)
    one.confirm(CHECKPOINT)
    brokers.create(TOPIC)
    one.confirm(CHECKPOINT)
    brokers.meanwhile = [lambda: one.confirm(CHECKPOINT)]
    with pytest.raises(CheckpointError):
        leases(brokers, "b").take(WANTED, silent)


def test_what_cannot_be_asked_is_not_taken_for_silence(brokers):
    one, two = leases(brokers, "a"), leases(brokers, "b")
    one.take(WANTED, silent)

    def away() -> None:
        raise ConnectionLostError("gone")

    brokers.meanwhile = [away]
    with pytest.raises(ConnectionLostError):
        two.take(WANTED, silent)
    began = brokers.clock.now_ms()
    two.take(WANTED, silent)
    assert brokers.clock.now_ms() - began >= LEASE_MS


def test_what_else_is_in_the_topic_is_passed_over(brokers):
    brokers.create(TOPIC)
    brokers.partitions[TOPIC][0].append((0, b"key", b"value", ()), (0, None, None, ()), (0, b'["c","d"]', b"{}", ()))
    one = leases(brokers, "a")
    one.take(WANTED, silent)
    one.confirm(CHECKPOINT)


def test_entries_come_back_as_they_were_written():
    sign = Sign(3, Use.USES, "h", 1, "m", 5, "/c")
    assert decoded(*encoded(Entry("c", "d", sign))) == Entry("c", "d", sign)
    assert decoded(*encoded(Entry("c", "d", None))) == Entry("c", "d", None)
    assert PARTITION.topic == TOPIC


def test_a_claim_to_a_generation_that_another_uses_is_nothing():
    def entry(driver: str, generation: int, use: Use) -> Entry:
        return Entry("c", driver, Sign(generation, use, "h", 1, "m", 0, "/c"))

    uses, late = entry("a", 2, Use.USES), entry("b", 2, Use.CLAIMS)
    assert newer(uses, late) is uses
    assert newer(late, uses) is uses
    assert newer(uses, entry("b", 1, Use.USES)) is uses
    assert newer(late, entry("a", 1, Use.USES)) is late
    assert newer(uses, Entry("c", "b", None)) is uses
    assert newer(uses, Entry("c", "a", None)) is None


def test_brokers_that_are_away_do_not_hold_up_a_driver_that_ends(monkeypatch):
    monkeypatch.setattr(checkpoint_lease, "LEAVE_SECONDS", 0.01)
    brokers = Brokers()
    with leases(brokers, "a") as held:
        held.take(WANTED, silent)

        def away() -> None:
            brokers.closed.wait()
            raise ConnectionLostError("closed")

        brokers.before_append.append(away)
    assert brokers.closed.is_set()
    assert not brokers.before_append

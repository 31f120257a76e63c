"""What one transaction of a delay topic delivers: partitions, letters, and the next times of schedules."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from ottla.model.topic_partition import TopicPartition
from ottla.native import TopicRules, decode_records
from ottla.server.delay_outbox import DelayOutbox, Target
from ottla.server.waiting_records import WaitingRecord

PLACE = TopicPartition("orders.later", 1)
NOW_MS = 1_800_000_000_000  # 2027-01-15 08:00 UTC
Headers = list[tuple[str, bytes | None]]
Sent = tuple[str, int, bytes | None, bytes | None, Headers]


class Producer:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.timestamps: list[int] = []

    async def send_encoded(self, topic: str, partition: int, batch: bytearray, count: int) -> object:
        for _, timestamp, key, value, headers in decode_records(bytes(batch), max_decompressed_bytes=1 << 20):
            self.timestamps.append(timestamp)
            self.sent.append((topic, partition, key, value, headers))
        return object()

    async def partitions(self, topic: str) -> int:
        return 1


def outbox(count: int = 2, retention_ms: int = -1) -> DelayOutbox:
    target = Target("orders", count, TopicRules(max_batch_bytes=10_000, max_decompressed_bytes=1 << 20), retention_ms)
    own = Target("orders.later", 2, TopicRules(max_batch_bytes=2_000, max_decompressed_bytes=1 << 20))
    return DelayOutbox(PLACE, own, target, 0, NOW_MS)


def letters(max_batch_bytes: int, retention_ms: int = -1) -> Target:
    rules = TopicRules(max_batch_bytes=max_batch_bytes, max_decompressed_bytes=1 << 20)
    return Target("dlq.orders.later", 1, rules, retention_ms)


def waiting(offset: int, key: bytes | None, *headers: tuple[str, bytes | None], value: bytes = b"v") -> WaitingRecord:
    return WaitingRecord(NOW_MS - 10, offset, NOW_MS - 100, key, value, list(headers), offset)


def sent_of(box: DelayOutbox, *records: WaitingRecord) -> list[Sent]:
    producer = Producer()
    box.sort(records)
    asyncio.run(box.send(cast("Any", producer)))
    return producer.sent


def test_records_go_to_the_partition_of_the_same_number_or_of_their_key() -> None:
    assert [each[1] for each in sent_of(outbox(), waiting(0, b"21"), waiting(1, b"foobar"))] == [1, 1]
    assert {each[1] for each in sent_of(outbox(10), waiting(0, b"21"), waiting(1, b"foobar"))} == {0, 6}


def test_a_record_that_the_target_refuses_becomes_a_letter_and_those_beside_it_are_delivered() -> None:
    large = waiting(1, None, value=b"x" * 20_000)
    sent = sent_of(outbox(), waiting(0, None, value=b"a"), large, waiting(2, None, value=b"b"))
    assert [(topic, value[:1]) for topic, _, _, value, _ in sent if value] == [
        ("orders", b"a"),
        ("orders", b"b"),
        ("dlq.orders.later", b"x"),
    ]
    assert b"does not take it" in (dict(sent[2][4])["__dlq.errors.message"] or b"")


def test_a_new_schedule_takes_the_place_of_the_one_before_and_is_no_delivery() -> None:
    sent = sent_of(outbox(), waiting(0, b"k", ("ottla-cron", b"5 8 * * *")))
    assert [(topic, partition, key, value) for topic, partition, key, value, _ in sent] == [
        ("orders.later", 1, b"k", None),
        ("orders.later", 1, b"k", b"v"),
    ]
    assert sent[0][4] == [("ottla-cancel", b""), ("ottla-scheduled", b"0")], (
        "it concerns what was written before the schedule"
    )
    assert dict(sent[1][4])["ottla-deliver-at"] == str(NOW_MS + 300_000).encode()


def test_a_scheduled_record_is_delivered_and_waits_for_the_next_time_before_new_schedules_are_written() -> None:
    due = waiting(0, b"k", ("kept", b"1"), ("ottla-cron", b"5 8 * * *"), ("ottla-scheduled", b""))
    sent = sent_of(outbox(), waiting(1, b"k", ("ottla-cron", b"0 9 * * *")), due)
    assert [each[0] for each in sent] == ["orders", "orders.later", "orders.later", "orders.later"]
    assert sent[0][4] == [("kept", b"1")]
    times = [dict(each[4]).get("ottla-deliver-at") for each in sent[1:]]
    assert times == [str(NOW_MS + 300_000).encode(), None, str(NOW_MS + 3_600_000).encode()]


def test_a_schedule_that_cannot_be_becomes_a_letter() -> None:
    [letter] = sent_of(outbox(), waiting(0, b"k", ("ottla-cron", b"every day")))
    assert letter[0] == "dlq.orders.later"
    assert b"five fields" in (dict(letter[4])["__dlq.errors.message"] or b"")


def test_a_cancellation_without_a_key_cancels_nothing_and_becomes_a_letter() -> None:
    ((topic, _, _, _, headers),) = sent_of(outbox(), waiting(0, None, ("ottla-cancel", b"")))
    assert topic == "dlq.orders.later"
    assert b"needs a key" in (dict(headers)["__dlq.errors.message"] or b"")


def test_a_letter_that_is_refused_is_cut_and_one_that_cannot_be_kept_is_told() -> None:
    large = waiting(5, None, ("ottla-delay", b"soon"), value=b"x" * 3_000)
    box = outbox()
    box.sort([large])
    assert box.fit_letters(letters(1_000)) == []
    ((_, _, value, headers),) = box.letters
    assert value is None
    assert dict(headers)["__dlq.errors.offset"] == b"5"
    assert b"3" in (dict(headers)["__ottla.errors.cut"] or b"")

    for topic in (letters(100), None):
        box = outbox()
        box.sort([large, waiting(6, None)])
        (lost,) = box.fit_letters(topic)
        assert "offset 5" in lost
        assert box.letters == []


def test_schedules_that_do_not_fit_in_one_batch_wait_in_several_and_one_too_large_is_a_letter() -> None:
    daily = ("ottla-cron", b"5 8 * * *")
    large = [waiting(at, b"k%d" % at, daily, value=b"x" * 1_500) for at in range(3)]
    box = outbox()
    sent = sent_of(box, *large, waiting(3, b"k3", daily, value=b"y" * 1_950))
    assert [key for topic, _, key, value, _ in sent if topic == "orders.later" and value] == [b"k0", b"k1", b"k2"]
    assert [(topic, key) for topic, _, key, _, _ in sent if topic.startswith("dlq.")] == [("dlq.orders.later", b"k3")]


def test_a_record_that_waited_for_longer_than_its_target_keeps_records_has_the_time_when_it_was_due() -> None:
    def timestamps(retention_ms: int) -> list[int]:
        box, producer = outbox(retention_ms=retention_ms), Producer()
        box.sort([waiting(0, None)])
        asyncio.run(box.send(cast("Any", producer)))
        return producer.timestamps

    assert timestamps(-1) == timestamps(91) == [NOW_MS - 100]
    assert timestamps(90) == timestamps(0) == [NOW_MS - 10]


def test_a_letter_that_its_topic_would_not_keep_has_the_time_when_it_is_written() -> None:
    for retention_ms, timestamp_ms in ((101, NOW_MS - 100), (100, NOW_MS)):
        box = outbox()
        box.sort([waiting(0, None, ("ottla-delay", b"soon"))])
        assert box.fit_letters(letters(1_000, retention_ms)) == []
        assert [each[0] for each in box.letters] == [timestamp_ms]

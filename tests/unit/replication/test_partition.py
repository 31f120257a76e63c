import os
from collections.abc import Callable

import pytest

from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.native import build_batch, decode_records
from ottla.replication.partition import ACKS_ALL, ACKS_LEADER, ACKS_NONE, Partition
from ottla.storage.log_config import LogConfig
from ottla.storage.log_io import WRITTEN
from ottla.storage.log_segments import LogEnd
from tests.unit.replication.conftest import Appended

New = Callable[..., object]


def batch(count: int = 3, **options: object) -> bytearray:
    return build_batch([(1_000, b"k", b"v%d" % n, ()) for n in range(count)], **options)  # type: ignore[arg-type]


def append(partition: Partition, records: bytearray, acks: int = ACKS_ALL) -> Appended:
    appended = Appended()
    partition.append(records, acks=acks, on_ack=appended.on_ack, on_buffer_free=appended.on_buffer_free)
    return appended


def contents(partition: Partition, offset: int = 0) -> list[tuple[int, bytes | None]]:
    result = partition.read(offset, 1 << 20, max_offset=partition.high_watermark, min_one_batch=True)
    data = b"".join(os.pread(piece.fd, piece.size, piece.position) for piece in result.slices)
    records = decode_records(data, max_decompressed_bytes=1 << 20, start_offset=offset)
    return [(offset, value) for offset, _, _, value, _ in records]


async def test_offsets_go_on_from_append_to_append_and_the_leader_epoch_is_in_the_batch(new_partition: New) -> None:
    partition = await new_partition()  # type: ignore[misc]
    first, second = append(partition, batch(3)), append(partition, batch(2))
    assert [(await each.ack).base_offset for each in (first, second)] == [0, 3]
    assert contents(partition) == [(0, b"v0"), (1, b"v1"), (2, b"v2"), (3, b"v0"), (4, b"v1")]
    assert partition.log.epoch_of_offset(4) == 3


@pytest.mark.parametrize("flush_before_ack", [True, False])
async def test_who_waits_for_this_replica_to_have_records_hears_of_it_before_their_producer(
    new_partition: New, flush_before_ack: bool
) -> None:
    partition = await new_partition(flush_before_ack=flush_before_ack)  # type: ignore[misc]
    appended = append(partition, batch(3))
    reached, not_yet = partition.local_end_reached(3), partition.local_end_reached(4)
    assert not reached.done()
    await appended.ack
    assert (reached.done(), not_yet.done()) == (True, False)
    await append(partition, batch(1)).ack
    assert not_yet.done()


@pytest.mark.parametrize("flush_before_ack", [True, False])
async def test_acks_all_is_answered_when_the_high_watermark_has_passed(
    new_partition: New, flush_before_ack: bool
) -> None:
    partition = await new_partition(flush_before_ack=flush_before_ack)  # type: ignore[misc]
    appended = append(partition, batch(3))
    assert not appended.ack.done()
    assert partition.high_watermark == 0
    assert (await appended.ack).error is ErrorCode.NONE
    assert partition.high_watermark == 3
    assert partition.unacknowledged_count == 0
    if flush_before_ack:
        assert partition.log.flushed_end_offset == 3


@pytest.mark.parametrize(("flush_before_ack", "high_watermark"), [(True, 0), (False, 3)])
async def test_what_is_written_and_not_on_disk_is_committed_only_when_nobody_asked_for_the_disk(
    new_partition: New, flush_before_ack: bool, high_watermark: int
) -> None:
    partition = await new_partition(flush_before_ack=flush_before_ack)  # type: ignore[misc]
    records = batch(3)
    appended = append(partition, records, ACKS_LEADER)
    partition.log.advance(WRITTEN, LogEnd(3, len(records)))
    partition.log.report_progress()
    assert partition.high_watermark == high_watermark
    await appended.ack


async def test_nobody_reads_above_the_high_watermark(new_partition: New) -> None:
    partition = await new_partition()  # type: ignore[misc]
    appended = append(partition, batch(3))
    assert partition.read(0, 1 << 20, max_offset=partition.high_watermark, min_one_batch=True).total_bytes == 0
    for offset in (1, 3):
        assert partition.read(offset, 1 << 20, max_offset=3, min_one_batch=True).total_bytes == 0
    with pytest.raises(ApiError) as caught:
        partition.read(4, 1 << 20, max_offset=partition.high_watermark, min_one_batch=True)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    await appended.ack


async def test_the_buffer_is_given_back_once_and_not_before_the_write(new_partition: New) -> None:
    partition = await new_partition()  # type: ignore[misc]
    for acks in (ACKS_LEADER, ACKS_ALL):
        appended = append(partition, batch(), acks)
        assert appended.freed == 0
        await appended.ack
        assert appended.freed == 1


async def test_acks_0_is_answered_before_the_write(new_partition: New) -> None:
    partition = await new_partition()  # type: ignore[misc]
    appended = append(partition, batch(), ACKS_NONE)
    assert appended.ack.done()
    await append(partition, batch()).ack
    assert len(contents(partition)) == 6


def corrupt(records: bytearray) -> bytearray:
    records[-1] ^= 1
    return records


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (corrupt(batch()), ErrorCode.CORRUPT_MESSAGE),
        (batch() + batch(), ErrorCode.INVALID_RECORD),
        (bytearray(), ErrorCode.INVALID_RECORD),
        (batch()[:-1], ErrorCode.CORRUPT_MESSAGE),
        (batch(1000), ErrorCode.MESSAGE_TOO_LARGE),
        (
            batch(producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        (batch(1, is_control=True), ErrorCode.INVALID_RECORD),
    ],
    ids=["flipped bit", "two batches", "nothing", "cut off", "too large", "transactional", "control"],
)
async def test_what_producers_may_not_send_is_refused_and_leaves_the_log_as_it_was(
    new_partition: New, records: bytearray, error: ErrorCode
) -> None:
    partition = await new_partition(config=LogConfig(max_message_bytes=1000))  # type: ignore[misc]
    appended = append(partition, bytearray(records))
    assert (await appended.ack).error is error
    assert appended.freed == 1
    assert partition.log.log_end_offset == 0
    assert (await append(partition, batch()).ack).base_offset == 0


async def test_a_repeated_batch_of_an_idempotent_producer_gets_the_first_answer_and_is_not_written_again(
    new_partition: New,
) -> None:
    partition = await new_partition()  # type: ignore[misc]
    ids = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    for acks in (ACKS_ALL, ACKS_ALL, ACKS_LEADER):
        appended = append(partition, batch(3, **ids), acks)
        assert (await appended.ack).base_offset == 0
        assert appended.freed == 1
    assert partition.log.log_end_offset == 3


async def test_acks_all_is_refused_below_min_insync_replicas_and_acks_1_is_not(new_partition: New) -> None:
    partition = await new_partition()  # type: ignore[misc]
    partition.min_insync_replicas, partition.replica_count = 2, 3
    assert (await append(partition, batch()).ack).error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await append(partition, batch(), ACKS_LEADER).ack).error is ErrorCode.NONE


async def test_acks_all_asks_for_no_more_replicas_than_there_are(new_partition: New) -> None:
    partition = await new_partition()  # type: ignore[misc]
    partition.min_insync_replicas = 2
    assert (await append(partition, batch()).ack).error is ErrorCode.NONE


async def test_who_waits_is_told_when_the_partition_stops(new_partition: New) -> None:
    partition = await new_partition()  # type: ignore[misc]
    appended = append(partition, batch())
    partition.stop()
    assert (await appended.ack).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await append(partition, batch()).ack).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(("epoch", "error"), [(2, ErrorCode.FENCED_LEADER_EPOCH), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)])
async def test_a_client_with_another_leader_epoch_is_told_which_way_it_errs(
    new_partition: New, epoch: int, error: ErrorCode
) -> None:
    partition = await new_partition()  # type: ignore[misc]
    partition.require_leader_epoch(-1)
    partition.require_leader_epoch(3)
    with pytest.raises(ApiError) as caught:
        partition.require_leader_epoch(epoch)
    assert caught.value.code is error


@pytest.mark.parametrize("from_followers", [True, False])
@pytest.mark.parametrize(("epoch", "error"), [(4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)])
async def test_a_follower_looks_at_the_epoch_before_it_says_that_it_does_not_lead(
    new_partition: New, epoch: int, error: ErrorCode, from_followers: bool
) -> None:
    partition = await new_partition()  # type: ignore[misc]
    partition.become_follower(5)
    with pytest.raises(ApiError) as caught:
        partition.require_leader_epoch(epoch, from_followers=from_followers)
    assert caught.value.code is error
    with pytest.raises(ApiError) as caught:
        partition.require_leader_epoch(5)
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_the_rest_of_the_broker_reads_committed_bytes_in_a_thread(new_partition: New) -> None:
    partition = await new_partition()  # type: ignore[misc]
    await append(partition, batch(2)).ack
    data = await partition.read_bytes(0, 1)
    assert len(decode_records(data, max_decompressed_bytes=1 << 20)) == 2


@pytest.mark.parametrize("leads", [True, False])
async def test_who_waits_to_read_from_any_replica_is_refused_when_the_partition_stops(
    new_partition: New, leads: bool
) -> None:
    partition = await new_partition()  # type: ignore[misc]
    if not leads:
        partition.become_follower(5)
    partition.leader_id = 3  # as the controller said in a cluster
    seen: list[ErrorCode] = []

    def look(changed: Partition) -> None:
        with pytest.raises(ApiError) as refused:
            changed.require_leader_epoch(-1, from_followers=True)
        seen.append(refused.value.code)

    partition.require_leader_epoch(-1, from_followers=True)
    partition.subscribe(look)
    partition.stop()
    assert seen == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_the_version_rises_with_whatever_a_reader_may_notice(new_partition: New) -> None:
    partition = await new_partition()  # type: ignore[misc]
    seen: list[int] = []
    partition.subscribe(lambda changed: seen.append(changed.version))
    await append(partition, batch(3)).ack
    partition.delete_records_before(1)
    partition.log.delete_records_before(2)  # as retention does
    partition.become_leader(4)
    partition.become_follower(5)
    partition.stop()
    assert seen == list(range(seen[0], seen[0] + 6))
    assert partition.version == seen[-1]


async def test_a_subscriber_that_fails_keeps_no_other_from_hearing(new_partition: New) -> None:
    partition = await new_partition()  # type: ignore[misc]
    heard: list[str] = []

    def fail(_: Partition) -> None:
        raise RuntimeError("a mistake")

    def first(_: Partition) -> None:
        heard.append("first")

    for each in (first, fail, lambda _: heard.append("last")):
        partition.subscribe(each)
    await append(partition, batch(3)).ack
    partition.unsubscribe(first)
    partition.delete_records_before(1)
    assert heard == ["first", "last", "last"]

"""Transactions in a partition: the last stable offset, markers, and what a first batch must have."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.model.error_code import ErrorCode
from ottla.model.transaction_marker import TransactionMarker
from ottla.native import build_batch
from ottla.replication.partition import ACKS_ALL, Partition
from ottla.replication.transaction_verification import (
    NO_VERIFICATIONS,
    OPEN,
    UNVERIFIED,
    Verification,
)
from tests.unit.replication.conftest import Appended

New = Callable[..., Any]
A, B = 100, 200


def data(producer_id: int = A, *, epoch: int = 0, sequence: int = 0, transactional: bool = True) -> bytearray:
    return build_batch(
        [(1_000, b"k", b"v", ())],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )


def append(partition: Partition, records: bytearray, guard: Verification | None = None) -> Appended:
    appended = Appended()
    partition.append(
        records, acks=ACKS_ALL, on_ack=appended.on_ack, on_buffer_free=appended.on_buffer_free, guard=guard
    )
    return appended


async def error_of(partition: Partition, records: bytearray, guard: Verification | None = None) -> ErrorCode:
    appended = append(partition, records, guard)
    error = (await appended.ack).error
    assert appended.freed == 1
    return error


async def end(
    partition: Partition,
    producer_id: int = A,
    *,
    commit: bool = True,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
) -> ErrorCode:
    appended = Appended()
    marker = TransactionMarker(producer_id, epoch, coordinator_epoch, commit, transaction_version)
    partition.append_marker(marker, appended.on_ack)
    return (await appended.ack).error


def verified(partition: Partition, producer_id: int = A, *, epoch: int = 0, sequence: int = 0) -> Verification:
    verification = partition.want_verification(producer_id, epoch, sequence, adds_partition=False)
    verification.is_verified = True
    return verification


async def begin(partition: Partition, producer_id: int = A, *, epoch: int = 0, sequence: int = 0) -> None:
    guard = verified(partition, producer_id, epoch=epoch, sequence=sequence)
    records = data(producer_id, epoch=epoch, sequence=sequence)
    assert await error_of(partition, records, guard) is ErrorCode.NONE


async def test_the_last_stable_offset_waits_for_the_oldest_open_transaction(new_partition: New) -> None:
    partition = await new_partition()
    assert await error_of(partition, data(transactional=False)) is ErrorCode.NONE
    await begin(partition, A, sequence=1)
    await begin(partition, B)
    assert (partition.last_stable_offset, partition.high_watermark) == (1, 3)
    assert await end(partition, B) is ErrorCode.NONE
    assert (partition.last_stable_offset, partition.high_watermark) == (1, 4)
    assert await end(partition, A, commit=False) is ErrorCode.NONE
    assert (partition.last_stable_offset, partition.high_watermark) == (5, 5)


async def test_it_moves_when_the_marker_is_committed_and_not_before(new_partition: New) -> None:
    partition = await new_partition()
    await begin(partition)
    appended = Appended()
    partition.append_marker(TransactionMarker(A, 0, 0, True, 0), appended.on_ack)
    assert partition.last_stable_offset == 0
    versions = [partition.version]
    partition.subscribe(lambda changed: versions.append(changed.last_stable_offset))
    await appended.ack
    assert versions[1:] == [2]


async def test_a_partition_that_is_loaded_again_has_its_last_stable_offset(new_partition: New) -> None:
    partition = await new_partition()
    await begin(partition)
    again = await new_partition()
    assert again.last_stable_offset == 0


async def test_a_transactional_batch_needs_a_guard(new_partition: New) -> None:
    partition = await new_partition()
    assert await error_of(partition, data()) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert await error_of(partition, data(), OPEN) is ErrorCode.INVALID_TXN_STATE
    unverified = partition.want_verification(A, 0, 0, adds_partition=False)
    assert await error_of(partition, data(), unverified) is ErrorCode.INVALID_TXN_STATE
    unverified.is_verified = True
    assert await error_of(partition, data(), unverified) is ErrorCode.NONE
    assert await error_of(partition, data(sequence=1), OPEN) is ErrorCode.NONE
    assert await error_of(partition, data(sequence=2)) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert partition.log.log_end_offset == 2


async def test_a_marker_ends_what_was_verified_before_it(new_partition: New) -> None:
    partition = await new_partition()
    late = verified(partition)
    assert await end(partition, commit=False) is ErrorCode.NONE
    assert await error_of(partition, data(), late) is ErrorCode.INVALID_TXN_STATE
    of_the_next = verified(partition)
    assert await error_of(partition, data(), late) is ErrorCode.INVALID_TXN_STATE
    assert await error_of(partition, data(), of_the_next) is ErrorCode.NONE


async def test_what_was_verified_of_another_epoch_opens_nothing(new_partition: New) -> None:
    partition = await new_partition()
    guard = verified(partition, epoch=1)
    assert await error_of(partition, data(epoch=0), guard) is ErrorCode.INVALID_TXN_STATE
    guard.note(2, 0, adds_partition=False)
    assert await error_of(partition, data(epoch=1), guard) is ErrorCode.INVALID_TXN_STATE
    assert not guard.is_verified


async def test_a_batch_does_not_overtake_one_that_is_to_be_sent_again(new_partition: New) -> None:
    partition = await new_partition()
    partition.want_verification(A, 0, 3, adds_partition=False)
    guard = verified(partition, sequence=4)
    assert await error_of(partition, data(sequence=4), guard) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await error_of(partition, data(sequence=3), guard) is ErrorCode.NONE
    assert await error_of(partition, data(sequence=4), OPEN) is ErrorCode.NONE


async def test_the_first_transaction_of_version_2_begins_with_sequence_number_0(new_partition: New) -> None:
    partition = await new_partition()
    guard = partition.want_verification(A, 0, 3, adds_partition=True)
    guard.is_verified = True
    assert await error_of(partition, data(sequence=3), guard) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await error_of(partition, data(sequence=0), guard) is ErrorCode.NONE


async def test_nobody_is_asked_when_that_is_switched_off(new_partition: New) -> None:
    partition = await new_partition()
    assert await error_of(partition, data(), UNVERIFIED) is ErrorCode.NONE
    assert partition.verifications is NO_VERIFICATIONS


async def test_markers_are_refused_by_epoch_and_leave_the_log_as_it_was(new_partition: New) -> None:
    partition = await new_partition()
    await begin(partition, epoch=4)
    assert await end(partition, epoch=3) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await end(partition, epoch=4, transaction_version=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await end(partition, epoch=5, transaction_version=2, coordinator_epoch=7) is ErrorCode.NONE
    assert await end(partition, epoch=5, coordinator_epoch=6) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    codes = [
        partition.check_marker(TransactionMarker(A, epoch, coordinator, True, 2))
        for epoch, coordinator in ((4, 7), (6, 6), (6, 7), (5, 7))
    ]
    assert codes == [
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.NONE,
        ErrorCode.NONE,
    ]
    assert partition.log.log_end_offset == 2


async def test_a_follower_takes_no_marker(new_partition: New) -> None:
    partition = await new_partition()
    partition.become_follower(4)
    assert await end(partition) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await error_of(partition, data(), UNVERIFIED) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("commit", [True, False])
async def test_a_follower_has_the_transactions_of_its_leader(new_partition: New, commit: bool) -> None:
    leader, follower = await new_partition(0), await new_partition(1)
    follower.become_follower(4)
    await begin(leader)
    assert await end(leader, commit=commit) is ErrorCode.NONE
    assert await error_of(leader, data(epoch=1), verified(leader, epoch=1)) is ErrorCode.NONE
    records = bytearray(await leader.read_bytes(0, 1 << 20))
    follower.role.append_from_leader(memoryview(records), 3)
    await follower.log.flush()
    follower.log.report_progress()
    assert (follower.high_watermark, follower.last_stable_offset) == (3, 2)
    assert follower.log.producers.has_open_transaction(A, 1)
    result = follower.log.read(0, 1 << 20, max_offset=2)
    assert follower.log.aborted_in(result, 0, 2) == ([] if commit else [(A, 0)])


async def test_another_role_forgets_what_was_verified(new_partition: New) -> None:
    partition = await new_partition()
    guard = verified(partition)
    partition.become_leader(5)
    assert await error_of(partition, data(), guard) is ErrorCode.INVALID_TXN_STATE

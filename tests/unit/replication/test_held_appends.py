"""Appends wait, in their order, while the files of their log change places."""

import pytest

from ottla.model.error_code import ErrorCode
from ottla.model.transaction_marker import TransactionMarker
from ottla.native import build_batch
from ottla.replication import held_appends
from ottla.replication.partition import ACKS_ALL, ACKS_LEADER, Partition
from ottla.storage.append_origin import AppendOrigin
from tests.unit.replication.conftest import Appended


def send(partition: Partition, value: bytes = b"v", acks: int = ACKS_ALL, **options: object) -> Appended:
    appended = Appended()
    partition.append(
        build_batch([(0, b"k", value, ())]),
        acks=acks,
        on_ack=appended.on_ack,
        on_buffer_free=appended.on_buffer_free,
        **options,  # type: ignore[arg-type]
    )
    return appended


async def test_what_is_held_is_appended_in_its_order_when_it_is_released(new_partition):
    partition = await new_partition()
    first = send(partition)
    release = partition.hold_appends()
    second, third = send(partition, acks=ACKS_LEADER), send(partition, origin=AppendOrigin.COORDINATOR)
    ended = Appended()
    partition.append_marker(TransactionMarker(7, 0, 0, committed=True, transaction_version=1), ended.on_ack)
    assert (await first.ack).base_offset == 0
    assert partition.log.log_end_offset == 1
    assert not second.ack.done()
    release()
    fourth = send(partition)
    assert [(await each.ack).base_offset for each in (second, third, ended, fourth)] == [1, 2, 3, 4]
    assert (second.freed, third.freed) == (1, 1)


async def test_who_waits_is_told_when_the_broker_leads_no_more_or_the_disk_is_gone(new_partition):
    for end, error in (
        (lambda partition: partition.become_follower(4), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (lambda partition: partition.fail("gone"), ErrorCode.KAFKA_STORAGE_ERROR),
        (lambda partition: partition.stop(), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ):
        partition = await new_partition()
        end_offset = partition.log.log_end_offset
        release = partition.hold_appends()
        waiting = send(partition)
        end(partition)
        assert ((await waiting.ack).error, waiting.freed) == (error, 1)
        release()
        assert partition.log.log_end_offset == end_offset


async def test_only_so_many_of_clients_wait(new_partition, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(held_appends, "HELD_MAX", 2)
    partition = await new_partition()
    await partition.log.close()  # as while its files change places
    release = partition.hold_appends()
    waiting = [send(partition), send(partition)]
    refused = send(partition)
    marker = send(partition, origin=AppendOrigin.COORDINATOR)
    assert ((await refused.ack).error, refused.freed) == (ErrorCode.KAFKA_STORAGE_ERROR, 1)
    assert not any(each.ack.done() for each in (*waiting, marker))
    release()
    assert [(await each.ack).error for each in (*waiting, marker)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 3

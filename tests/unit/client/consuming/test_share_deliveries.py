"""What a share consumer holds: each record is acknowledged once, in the session in which it was acquired."""

from uuid import UUID

import pytest

from ottla.client.consuming.share_deliveries import ShareDeliveries
from ottla.client.consuming.share_options import GAP, AcknowledgeType, ShareConsumerOptions
from ottla.client.consuming.share_record import ShareRecord, acknowledgement_runs, acquired_records
from ottla.client.consuming.share_session import FINAL_EPOCH, ShareSession
from ottla.client.errors import InvalidOptionError
from ottla.model.topic_partition import TopicPartition
from ottla.native import build_batch
from ottla.protocol.messages.share_fetch import AcquiredRecords

PLACE, OTHER = (UUID(int=1), 0), (UUID(int=1), 1)
WHERE = TopicPartition("t", 0)
OPTIONS = ShareConsumerOptions("g")


def record(offset: int) -> ShareRecord:
    return ShareRecord("t", 0, offset, 0, None, b"%d" % offset, [], 1)


def session() -> ShareSession:
    return ShareSession(1, OPTIONS, "member")


def delivered(*offsets: int) -> tuple[ShareDeliveries, ShareSession]:
    deliveries, one = ShareDeliveries(), session()
    deliveries.add(one, PLACE, map(record, offsets))
    assert [each.offset for each in deliveries.give(100)] == list(offsets)
    return deliveries, one


def test_a_record_is_acknowledged_once_with_the_last_type_given() -> None:
    deliveries, one = delivered(0, 1)
    deliveries.acknowledge(WHERE, 0, AcknowledgeType.REJECT)
    deliveries.acknowledge(WHERE, 0, AcknowledgeType.RELEASE)
    assert [each.offset for each in deliveries.unacknowledged] == [1]
    assert deliveries.take(one) == {PLACE: {0: AcknowledgeType.RELEASE}}
    assert deliveries.take(one) == {}
    with pytest.raises(InvalidOptionError, match="record 0 of t-0 cannot be acknowledged"):
        deliveries.acknowledge(WHERE, 0, AcknowledgeType.ACCEPT)
    with pytest.raises(InvalidOptionError, match="record 7 of t-0 cannot be acknowledged"):
        deliveries.acknowledge(WHERE, 7, AcknowledgeType.ACCEPT)


def test_accepting_all_leaves_what_was_acknowledged_and_what_was_not_returned() -> None:
    deliveries, one = delivered(0, 1)
    deliveries.add(one, PLACE, [record(2)])
    deliveries.acknowledge(WHERE, 0, AcknowledgeType.REJECT)
    deliveries.accept_all()
    assert deliveries.take(one) == {PLACE: {0: AcknowledgeType.REJECT, 1: AcknowledgeType.ACCEPT}}
    assert deliveries.buffered == 1


def test_an_acknowledgement_belongs_to_the_session_that_acquired_the_record() -> None:
    deliveries, one = delivered(0)
    other = session()
    deliveries.add(other, OTHER, [record(1)._replace(partition=1)])
    deliveries.give(1)
    deliveries.accept_all()
    assert deliveries.sessions() == {one, other}
    assert deliveries.take(other) == {OTHER: {1: AcknowledgeType.ACCEPT}}
    assert deliveries.sessions() == {one}


def test_a_renewed_record_comes_again_once_its_renewal_is_confirmed() -> None:
    deliveries, one = delivered(0, 1)
    deliveries.acknowledge(WHERE, 0, AcknowledgeType.RENEW)
    deliveries.acknowledge(WHERE, 1, AcknowledgeType.RENEW)
    assert deliveries.renews
    deliveries.take(one)
    assert not deliveries.renews
    assert deliveries.give_renewed() == []
    deliveries.confirm(one, PLACE, [0], succeeded=True)
    deliveries.confirm(one, PLACE, [1], succeeded=False)
    assert deliveries.give_renewed() == [record(0)]
    assert deliveries.unacknowledged == [record(0)]


def test_the_end_of_a_session_takes_what_was_not_returned_yet() -> None:
    deliveries, one = delivered(0)
    deliveries.add(one, PLACE, [record(1)])
    deliveries.settle(one, PLACE, [2])
    deliveries.forget(one)
    assert deliveries.give(100) == []
    assert deliveries.take(one) == {}


def test_records_of_partitions_that_went_to_others_are_released() -> None:
    deliveries, one = ShareDeliveries(), session()
    deliveries.add(one, PLACE, [record(0)])
    deliveries.add(one, OTHER, [record(5)])
    deliveries.release_all_but(frozenset({OTHER}))
    assert deliveries.take(one) == {PLACE: {0: AcknowledgeType.RELEASE}}
    assert [each.offset for each in deliveries.give(100)] == [5]


@pytest.mark.parametrize(
    ("types", "runs"),
    [
        ([], []),
        ([(7, 1)], [(7, 7, (1,))]),
        ([(7, 1), (5, 1), (6, 1)], [(5, 7, (1,))]),
        ([(5, 1), (6, 0), (9, 3)], [(5, 6, (1, 0)), (9, 9, (3,))]),
    ],
)
def test_runs_are_in_order_and_share_a_type_where_they_can(
    types: list[tuple[int, int]], runs: list[tuple[int, int, tuple[int, ...]]]
) -> None:
    assert list(acknowledgement_runs(types)) == runs


def batch(base: int, *values: bytes) -> bytes:
    data = build_batch(
        [(0, None, value, ()) for value in values],
        codec=0,
        level=None,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        is_transactional=False,
    )
    return base.to_bytes(8, "big") + bytes(data[8:])


def test_only_acquired_records_are_given_with_their_counts_and_gaps_are_found() -> None:
    data = memoryview(batch(10, b"a", b"b", b"c") + batch(15, b"d"))
    acquired = [AcquiredRecords(11, 12, 2), AcquiredRecords(13, 15, 1)]
    found = acquired_records(WHERE, data, acquired, decompressed_bytes_max=1 << 20)
    assert [(each.offset, each.value, each.delivery_count) for each in found.records] == [
        (11, b"b", 2),
        (12, b"c", 2),
        (15, b"d", 1),
    ]
    assert (found.gaps, found.broken) == ([13, 14], [])


def test_a_batch_that_cannot_be_decoded_costs_only_its_own_records() -> None:
    broken = bytearray(batch(0, b"aaaa", b"bbbb"))
    broken[61:] = b"\xff" * len(broken[61:])
    data = memoryview(bytes(broken) + batch(2, b"good"))
    found = acquired_records(WHERE, data, [AcquiredRecords(0, 2, 1)], decompressed_bytes_max=1 << 20)
    assert [each.value for each in found.records] == [b"good"]
    assert found.broken == [0, 1]
    assert found.reason


def test_a_session_names_partitions_once_and_counts_its_requests() -> None:
    one = session()
    first = one.fetch(frozenset({PLACE, OTHER}), {})
    assert (first.share_session_epoch, one.is_new) == (0, True)
    assert [each.partition_index for topic in first.topics for each in topic.partitions] == [0, 1]
    one.answered()
    second = one.fetch(frozenset({OTHER}), {PLACE: {3: AcknowledgeType.ACCEPT, 4: GAP}})
    assert second.share_session_epoch == 1
    assert [each.partition_index for topic in second.topics for each in topic.partitions] == [0]
    assert [topic.partitions for topic in second.forgotten_topics_data] == [(0,)]
    one.answered()
    third = one.acknowledge({OTHER: {9: AcknowledgeType.RENEW}})
    assert (third.share_session_epoch, third.is_renew_ack) == (2, True)
    one.answered()
    assert one.partitions == {OTHER}
    assert one.acknowledge({}, ends=True).share_session_epoch == FINAL_EPOCH


def test_a_request_without_an_answer_is_not_counted() -> None:
    one = session()
    one.fetch(frozenset({PLACE}), {})
    again = one.fetch(frozenset({PLACE}), {})
    assert again.share_session_epoch == 0
    assert again.topics

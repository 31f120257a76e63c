from collections.abc import Iterator

import pytest

from ottla.broker.fetch import PartitionRead
from ottla.gateways.kafka.fetch_session import (
    SESSION_PARTITIONS_MAX,
    FetchSession,
    FetchSessionCache,
    PartitionKey,
    SessionPartition,
)
from ottla.model.error_code import ErrorCode
from ottla.model.errors import ApiError
from ottla.model.principal import ANONYMOUS, USER, Principal
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.fetch import FetchPartition
from ottla.runtime.clock import ManualClock
from ottla.runtime.rng import SeededRng
from ottla.storage.log_read_result import LogReadResult

A, B = ("a", ZERO_UUID, 0), ("b", ZERO_UUID, 0)


def cache(slots_max: int = 2, clock: ManualClock | None = None, cost_max: int = 100) -> FetchSessionCache:
    return FetchSessionCache(
        clock or ManualClock(), SeededRng(7), slots_max=slots_max, eviction_ms=1000, cost_max=cost_max
    )


def partitions(count: int, topic: str = "t") -> Iterator[tuple[PartitionKey, FetchPartition]]:
    return (((topic, ZERO_UUID, index), FetchPartition(partition=index)) for index in range(count))


def new_session(sessions: FetchSessionCache, count: int = 1) -> FetchSession:
    session = sessions.create(partitions(count), ANONYMOUS, uses_topic_ids=False)
    assert session is not None
    return session


def refusal(sessions: FetchSessionCache, session_id: int, epoch: int, *, uses_topic_ids: bool = False) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        sessions.advance(session_id, epoch, ANONYMOUS, uses_topic_ids=uses_topic_ids)
    return caught.value.code


def test_each_incremental_request_must_carry_the_next_epoch():
    sessions = cache()
    session = new_session(sessions)
    sessions.advance(session.session_id, 1, ANONYMOUS, uses_topic_ids=False)
    sessions.advance(session.session_id, 2, ANONYMOUS, uses_topic_ids=False)
    assert refusal(sessions, session.session_id, 2) is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_the_epoch_wraps_to_one_after_the_largest_int32():
    session = FetchSession(1, ANONYMOUS, uses_topic_ids=False, now_ms=0)
    session.epoch = 2**31 - 1
    session.advance(2**31 - 1, 0)
    assert session.epoch == 1


def test_a_closed_or_unknown_session_is_said_to_be_unknown():
    sessions = cache()
    session = new_session(sessions)
    sessions.close(session.session_id)
    assert refusal(sessions, session.session_id, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_made_with_names_is_not_continued_with_ids():
    sessions = cache()
    session = new_session(sessions)
    assert refusal(sessions, session.session_id, 1, uses_topic_ids=True) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_full_cache_makes_room_only_by_a_session_that_was_idle_long_enough():
    clock = ManualClock()
    sessions = cache(slots_max=2, clock=clock)
    idle, busy = new_session(sessions), new_session(sessions)
    assert sessions.create(partitions(1), ANONYMOUS, uses_topic_ids=False) is None
    clock.advance(1000)
    sessions.advance(busy.session_id, 1, ANONYMOUS, uses_topic_ids=False)
    assert sessions.create(partitions(1), ANONYMOUS, uses_topic_ids=False) is not None
    assert refusal(sessions, idle.session_id, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 2


def test_all_sessions_together_hold_a_limited_number_of_partitions():
    sessions = cache(slots_max=10, cost_max=100)
    first = new_session(sessions, 60)
    assert sessions.create(partitions(41), ANONYMOUS, uses_topic_ids=False) is None
    second = new_session(sessions, 40)
    assert sessions.cost == 100
    sessions.close(first.session_id)
    assert sessions.cost == 40
    sessions.update(second, iter(()), iter([key for key, _ in partitions(30)]))
    assert sessions.cost == 10
    new_session(sessions, 90)


def test_sessions_that_were_idle_make_room_for_partitions():
    clock = ManualClock()
    sessions = cache(slots_max=10, clock=clock, cost_max=100)
    idle = [new_session(sessions, 30) for _ in range(3)]
    clock.advance(1000)
    new_session(sessions, 60)
    assert [session.session_id in sessions for session in idle] == [False, False, True]


def test_a_session_that_grows_beyond_the_limit_is_closed_and_its_client_begins_anew():
    sessions = cache(slots_max=10, cost_max=100)
    small, growing = new_session(sessions, 10), new_session(sessions, 10)
    with pytest.raises(ApiError) as caught:
        sessions.update(growing, partitions(91), iter(()))
    assert caught.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (small.session_id in sessions, growing.session_id in sessions, sessions.cost) == (True, False, 10)


def test_one_session_cannot_make_every_small_request_look_at_any_number_of_partitions():
    sessions = cache(cost_max=10**6)
    assert sessions.create(partitions(SESSION_PARTITIONS_MAX + 1), ANONYMOUS, uses_topic_ids=False) is None
    session = new_session(sessions, SESSION_PARTITIONS_MAX)
    with pytest.raises(ApiError) as caught:
        sessions.update(session, partitions(1, "other"), iter(()))
    assert caught.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions), sessions.cost) == (0, 0)


def test_a_follower_has_its_session_however_many_consumers_there_are_and_however_much_it_follows():
    clock = ManualClock()
    sessions = cache(slots_max=1, clock=clock, cost_max=100)
    consumer = new_session(sessions, 100)
    follower = sessions.create(partitions(SESSION_PARTITIONS_MAX + 1), ANONYMOUS, uses_topic_ids=True, is_replica=True)
    assert follower is not None
    assert sessions.cost == 100
    sessions.update(follower, partitions(1, "other"), iter(()))
    assert sessions.advance(follower.session_id, 1, ANONYMOUS, uses_topic_ids=True) is follower
    clock.advance(1000)
    sessions.create(partitions(1), ANONYMOUS, uses_topic_ids=True, is_replica=True)
    assert (consumer.session_id in sessions, follower.session_id in sessions) == (True, False)


def test_very_long_names_count_for_more_than_one_partition():
    sessions = cache(slots_max=10, cost_max=100)
    assert sessions.create(partitions(2, "x" * 32_000), ANONYMOUS, uses_topic_ids=False) is None
    assert sessions.create(partitions(2, "x" * 249), ANONYMOUS, uses_topic_ids=False) is not None


def test_an_incremental_request_adds_changes_and_forgets_partitions():
    session = FetchSession(1, ANONYMOUS, uses_topic_ids=False, now_ms=0)
    session.update(iter([(A, FetchPartition(fetch_offset=1)), (B, FetchPartition(fetch_offset=2))]), iter(()))
    session.update(iter([(A, FetchPartition(fetch_offset=9))]), iter([B]))
    assert {key: part.request.fetch_offset for key, part in session.partitions.items()} == {A: 9}


def test_a_partition_that_gave_records_is_served_last_next_time():
    session = FetchSession(1, ANONYMOUS, uses_topic_ids=False, now_ms=0)
    session.update(iter([(A, FetchPartition()), (B, FetchPartition())]), iter(()))
    session.served(A)
    assert list(session.partitions) == [B, A]


@pytest.mark.parametrize(
    "read",
    [
        PartitionRead(high_watermark=11, last_stable_offset=10, log_start_offset=0),
        PartitionRead(high_watermark=10, last_stable_offset=11, log_start_offset=0),
        PartitionRead(high_watermark=10, last_stable_offset=10, log_start_offset=1),
        PartitionRead(high_watermark=10, last_stable_offset=10, log_start_offset=0, total_bytes=1),
        PartitionRead(ErrorCode.NOT_LEADER_OR_FOLLOWER, 10, 10, 0),
    ],
)
def test_a_partition_has_news_when_anything_the_consumer_knows_of_it_changed(read: PartitionRead):
    partition = SessionPartition(FetchPartition())
    same = PartitionRead(high_watermark=10, last_stable_offset=10, log_start_offset=0)
    assert partition.has_news(same)
    assert not partition.has_news(same)
    assert partition.has_news(read)


def test_a_partition_speaks_again_after_its_error_is_over():
    partition = SessionPartition(FetchPartition())
    partition.has_news(PartitionRead(high_watermark=10, last_stable_offset=10, log_start_offset=0))
    partition.has_news(PartitionRead(ErrorCode.NOT_LEADER_OR_FOLLOWER, 10, 10, 0))
    assert partition.has_news(PartitionRead(high_watermark=10, last_stable_offset=10, log_start_offset=0))


def test_a_session_does_not_hold_the_files_of_records_it_gave():
    partition = SessionPartition(FetchPartition())
    records = LogReadResult((), 5)
    partition.has_news(PartitionRead(high_watermark=10, last_stable_offset=10, records=records, total_bytes=5))
    assert partition.told_offsets == (10, 10, -1)


def test_a_session_is_not_there_for_anybody_else() -> None:
    sessions = cache()
    owner, other = Principal(USER, "anna"), Principal(USER, "bert")
    session = sessions.create(partitions(1), owner, uses_topic_ids=False)
    assert session is not None
    with pytest.raises(ApiError) as caught:
        sessions.advance(session.session_id, 1, other, uses_topic_ids=False)
    assert caught.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    sessions.end(session.session_id, other)
    assert sessions.advance(session.session_id, 1, Principal(USER, "anna"), uses_topic_ids=False) is session
    sessions.end(session.session_id, owner)
    assert session.session_id not in sessions

"""What a follower says to a leader of its partitions: all of them once, then what changed."""

from uuid import UUID

from ottla.protocol.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic
from ottla.replication.replica_fetch_session import PartitionId, ReplicaFetchSession

A, B = UUID(int=1), UUID(int=2)


def at(index: int, offset: int) -> FetchPartition:
    return FetchPartition(partition=index, fetch_offset=offset)


def session(*keys: PartitionId) -> ReplicaFetchSession:
    made = ReplicaFetchSession()
    for topic_id, index in keys:
        made.fetch((topic_id, index), at(index, 0))
    return made


def topics(*some: tuple[UUID, tuple[FetchPartition, ...]]) -> tuple[FetchTopic, ...]:
    return tuple(FetchTopic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in some)


def test_the_first_request_names_everything_and_later_ones_what_changed() -> None:
    made = session((A, 0), (B, 1), (A, 2))
    assert made.next_request() == (0, 0, topics((A, (at(0, 0), at(2, 0))), (B, (at(1, 0),))), ())
    made.answered(77)
    assert made.next_request() == (77, 1, (), ())
    made.answered(77)
    made.fetch((A, 2), at(2, 9))
    made.forget((B, 1))
    made.forget((B, 5))
    assert made.next_request() == (77, 2, topics((A, (at(2, 9),))), (ForgottenTopic(topic_id=B, partitions=(1,)),))
    assert (made.offset((A, 2)), made.offset((B, 1)), len(made)) == (9, -1, 2)


def test_what_is_forgotten_and_fetched_again_before_the_next_request_is_only_changed() -> None:
    made = session((A, 0))
    made.next_request()
    made.answered(5)
    made.forget((A, 0))
    made.fetch((A, 0), at(0, 3))
    assert made.next_request() == (5, 1, topics((A, (at(0, 3),))), ())


def test_after_a_lost_answer_everything_is_named_again() -> None:
    made = session((A, 0), (A, 1))
    made.next_request()
    made.answered(5)
    made.forget((A, 1))
    made.lost()
    assert made.next_request() == (0, 0, topics((A, (at(0, 0),))), ())


def test_a_leader_without_room_for_a_session_is_told_everything_each_time() -> None:
    made = session((A, 0))
    for _ in range(2):
        assert made.next_request()[:2] == (0, 0)
        made.answered(0)

"""Where a consumer stands, and whose turn it is."""

from ottla.client.consuming.fetch import FetchedBatches
from ottla.client.consuming.positions import Positions
from ottla.model.topic_partition import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def answer(place: TopicPartition) -> FetchedBatches:
    return FetchedBatches(place, 0, memoryview(b""), 10, 10, 0)


def assigned(*places: TopicPartition, at: int | None = 5) -> Positions:
    positions = Positions()
    positions.assign(places)
    for position in positions:
        position.seek(at)
    return positions


def test_a_partition_is_fetched_until_enough_of_it_waits():
    positions = assigned(A)
    [position] = positions.fetchable(2, 0)
    position.waiting.extend([answer(A), answer(A)])
    assert positions.fetchable(2, 0) == []
    position.waiting.popleft()
    assert positions.fetchable(2, 0) == [position]


def test_what_is_paused_waits_or_has_no_position_is_not_fetched():
    positions = assigned(A, B)
    first, second = positions
    first.paused = True
    second.retry_at_ms = 100
    assert positions.fetchable(2, 99) == []
    assert positions.fetchable(2, 100) == [second]
    assert assigned(A, at=None).fetchable(2, 0) == []


def test_partitions_take_turns():
    positions = assigned(A, B)
    for position in positions:
        position.waiting.extend([answer(position.topic_partition)] * 2)
    polled = []
    while (next_one := positions.next_waiting()) is not None:
        polled.append(next_one.waiting.popleft().topic_partition)
    assert polled == [A, B, A, B]


def test_assigning_again_keeps_the_positions_of_what_stays():
    positions = assigned(A, B)
    positions.assign([B, TopicPartition("t", 2)])
    kept = positions.get(B)
    assert kept is not None
    assert kept.next_offset == 5
    assert positions.get(A) is None
    assert positions.without_position() == [("t", 2)]


def test_seeking_drops_what_was_fetched_for_the_old_position():
    [position] = assigned(A)
    position.waiting.append(answer(A))
    before = position.generation
    position.seek(9)
    assert not position.waiting
    assert position.generation != before
    assert (position.next_offset, position.fetch_offset) == (9, 9)


def test_lag_is_known_once_the_end_is():
    [position] = assigned(A, at=7)
    assert position.lag is None
    position.high_watermark = 10
    assert position.lag == 3
    position.seek(12)
    assert position.lag == 0

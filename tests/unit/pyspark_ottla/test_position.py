"""Where reading starts and ends."""

import pytest

from ottla.client.consuming.offsets import OffsetAt
from ottla.model.topic_partition import TopicPartition
from pyspark_ottla.options import OptionError, Options
from pyspark_ottla.position import ENDING_OPTIONS, STARTING_OPTIONS, ending_position, starting_position

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def parts(log):
    """Partition 0 has offsets 3 to 9, partition 1 has 0 to 19; record n is stamped with n seconds."""
    first, second = log.create("t", 2)
    for count, partition in ((10, first), (20, second)):
        for number in range(count):
            partition.append((number * 1000, None, b"", ()))
    first.start = 3
    return log


def start(log, *, streaming: bool = True, **given: str):
    position = starting_position(Options(given, STARTING_OPTIONS), default=OffsetAt.LATEST, streaming=streaming)
    return position.resolve(log, [P0, P1])


def end(log, **given: str):
    return ending_position(Options(given, ENDING_OPTIONS)).resolve(log, [P0, P1])


def test_the_edges_are_looked_up(parts):
    assert start(parts, startingOffsets="earliest") == {P0: 3, P1: 0}
    assert start(parts, startingOffsets="LATEST") == {P0: 10, P1: 20}
    assert start(parts) == {P0: 10, P1: 20}
    assert end(parts) == {P0: 10, P1: 20}


def test_given_offsets_are_taken_and_minus_two_and_minus_one_looked_up(parts):
    assert start(parts, startingOffsets='{"t": {"0": -2, "1": 7}}') == {P0: 3, P1: 7}
    assert end(parts, endingOffsets='{"t": {"0": 5, "1": -1}}') == {P0: 5, P1: 20}


def test_a_timestamp_finds_the_first_record_at_or_after_it(parts):
    assert start(parts, startingTimestamp="4500") == {P0: 5, P1: 5}
    assert start(parts, startingOffsetsByTimestamp='{"t": {"0": 4000, "1": 12000}}') == {P0: 4, P1: 12}


def test_a_start_after_the_last_record_is_an_error_or_the_end_as_the_strategy_says(parts):
    with pytest.raises(OptionError, match="startingTimestamp: t-0 has no record at or after 15000"):
        start(parts, startingTimestamp="15000")
    assert start(parts, startingTimestamp="15000", startingOffsetsByTimestampStrategy="latest") == {P0: 10, P1: 15}


def test_an_end_after_the_last_record_is_the_end(parts):
    assert end(parts, endingTimestamp="15000") == {P0: 10, P1: 15}


def test_a_timestamp_for_all_goes_before_timestamps_for_each_and_those_before_offsets(parts):
    by_time = '{"t": {"0": 4000, "1": 4000}}'
    assert (
        start(parts, startingTimestamp="6000", startingOffsetsByTimestamp=by_time, startingOffsets="earliest")[P1] == 6
    )
    assert start(parts, startingOffsetsByTimestamp=by_time, startingOffsets="earliest")[P1] == 4


def test_offsets_must_be_given_for_every_partition_that_is_read_and_for_no_other(parts):
    with pytest.raises(OptionError, match=r"missing: t-1 \(-2 stands for earliest"):
        start(parts, startingOffsets='{"t": {"0": 5}}')
    with pytest.raises(OptionError, match="partitions that are not read: x-0"):
        start(parts, startingOffsets='{"t": {"0": 5, "1": 5}, "x": {"0": 1}}')
    with pytest.raises(OptionError, match="startingOffsetsByTimestamp must name every partition"):
        start(parts, startingOffsetsByTimestamp='{"t": {"1": 5}}')


@pytest.mark.parametrize("text", ["latest", '{"t": {"0": -1, "1": 5}}'])
def test_a_batch_cannot_start_at_the_end(parts, text):
    with pytest.raises(OptionError, match="a batch cannot start at latest"):
        start(parts, streaming=False, startingOffsets=text)


@pytest.mark.parametrize("text", ["earliest", '{"t": {"0": -2, "1": 5}}'])
def test_a_batch_cannot_end_at_the_beginning(parts, text):
    with pytest.raises(OptionError, match="a read cannot end at earliest"):
        end(parts, endingOffsets=text)


@pytest.mark.parametrize("text", ["first", '{"t": 5}', '{"t": {"x": 5}}', '{"t": {"0": "5"}}', '{"t": {"0": -3}}', "{"])
def test_offsets_that_are_none_are_refused_with_the_name_of_the_option(text):
    with pytest.raises(OptionError, match="startingOffsets"):
        starting_position(Options({"startingOffsets": text}, STARTING_OPTIONS), default=OffsetAt.LATEST, streaming=True)

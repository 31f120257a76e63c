"""Options and records of the client are refused when they are made, or mean what they say."""

import pytest

from ottla.client.arguments import partitions_of
from ottla.client.consuming.consumer import Consumer
from ottla.client.consuming.consumer_options import ConsumerOptions, GroupProtocol, OffsetReset
from ottla.client.consuming.offsets import IsolationLevel
from ottla.client.errors import InvalidOptionError
from ottla.client.options import ClientOptions
from ottla.client.producing.produce import Acks
from ottla.client.producing.producer_batch import require_encodable
from ottla.client.producing.producer_options import ProducerOptions
from ottla.model.topic_partition import TopicPartition


def test_a_name_stands_for_the_member_of_an_enumeration() -> None:
    settings = {"auto_offset_reset": "earliest", "group_protocol": "consumer", "isolation": "read_committed"}
    options = ConsumerOptions(**settings)  # type: ignore[arg-type]
    assert options.auto_offset_reset is OffsetReset.EARLIEST
    assert options.group_protocol is GroupProtocol.CONSUMER
    assert options.isolation is IsolationLevel.READ_COMMITTED
    producer = ProducerOptions(acks="all")  # type: ignore[arg-type]
    assert producer.acks is Acks.ALL
    assert producer.is_idempotent
    assert ProducerOptions(acks=1).acks is Acks.LEADER  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "settings", "says"),
    [
        (ConsumerOptions, {"auto_offset_reset": "begin"}, "auto_offset_reset must be one of earliest, latest, none"),
        (ConsumerOptions, {"group_protocol": "streams"}, "group_protocol must be one of classic, consumer"),
        (ConsumerOptions, {"isolation": 7}, "isolation must be one of read_uncommitted, read_committed, not 7"),
        (ConsumerOptions, {"group_id": 5}, "group_id must be a string, not int"),
        (ProducerOptions, {"acks": "most"}, "acks must be one of none, leader, all, not 'most'"),
        (ProducerOptions, {"compression": "zip"}, r"compression must be one of 0 \(none\).*4 \(zstd\), not 'zip'"),
        (ProducerOptions, {"compression": 5}, "not 5"),
        (ProducerOptions, {"transactional_id": b"id"}, "transactional_id must be a string, not bytes"),
    ],
)
def test_a_wrong_option_is_refused_when_it_is_given(kind: type, settings: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidOptionError, match=says):
        kind(**settings)


@pytest.mark.parametrize("topics", ["orders", b"orders"])
async def test_one_name_is_not_taken_for_a_list_of_topics_of_one_letter(topics: object) -> None:
    consumer = Consumer(ClientOptions.of("127.0.0.1:1"), ConsumerOptions(group_id="group"))
    with pytest.raises(InvalidOptionError, match="topics must be a list of names, such as"):
        consumer.subscribe(topics)  # type: ignore[arg-type]


def test_pairs_are_partitions_and_anything_else_is_refused() -> None:
    partition = TopicPartition("orders", 3)
    assert [type(each) for each in partitions_of([("orders", 3), partition])] == [TopicPartition] * 2
    assert partitions_of([("orders", 3)]) == [partition]
    for wrong in ("orders", ("orders", "3"), ("orders",), None):
        with pytest.raises(InvalidOptionError, match="a partition must be a TopicPartition"):
            partitions_of([wrong])


async def test_a_wrong_partition_is_refused_before_anything_is_read() -> None:
    consumer = Consumer(ClientOptions.of("127.0.0.1:1"), ConsumerOptions())
    with pytest.raises(InvalidOptionError, match="a partition must be"):
        consumer.assign(["orders"])  # type: ignore[list-item]
    assert consumer.assignment() == []


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"topic": None}, "topic must be a string, not NoneType"),
        ({"value": "v"}, "value must be bytes or None, not str"),
        ({"key": 1}, "key must be bytes or None, not int"),
        ({"partition": "0"}, "partition must be a whole number or None, not str"),
        ({"timestamp_ms": 1.5}, "timestamp_ms must be a whole number or None, not float"),
        ({"headers": {"name": b"value"}}, "headers must be a list of pairs of name and value, not dict"),
        ({"headers": ["ab"]}, "a header must be a pair of name and value"),
        ({"headers": [("name", "value")]}, "the value of header 'name' must be bytes or None, not str"),
    ],
)
def test_a_record_that_cannot_be_encoded_names_what_is_wrong(changed: dict[str, object], says: str) -> None:
    good = {"topic": "t", "value": b"v", "key": None, "partition": 0, "timestamp_ms": 1, "headers": [("name", b"v")]}
    require_encodable(**good)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=says):
        require_encodable(**{**good, **changed})  # type: ignore[arg-type]

"""What readers and a running broker make of transactions and consumer groups; confluent-kafka is on the other side."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pyspark_ottla.batch_reader import OttlaReader
from pyspark_ottla.data_loss import DataLossError
from pyspark_ottla.options import OptionError
from pyspark_ottla.read_options import ReadOptions
from pyspark_ottla.stream_reader import OttlaStreamReader
from tests.broker_process import BrokerProcess
from tests.unit.pyspark_ottla.test_stream_reader import Query

_names = count()


class Topic:
    def __init__(self, broker: BrokerProcess) -> None:
        self.bootstrap = broker.bootstrap
        self.name = f"readers-{next(_names)}"
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})
        for creation in self.admin.create_topics([NewTopic(self.name, 1, 1)]).values():
            creation.result(60)

    def producer(self, **settings: Any) -> Producer:
        return Producer({"bootstrap.servers": self.bootstrap, "log_level": 2, **settings})

    def append(self, producer: Producer, numbers: range) -> None:
        for number in numbers:
            producer.produce(self.name, b"%d" % number, partition=0)
        assert producer.flush(60) == 0

    def options(self, *, streaming: bool, **given: str) -> ReadOptions:
        connection = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": self.name, "startingOffsets": "earliest"}
        return ReadOptions.of({**connection, **given}, streaming=streaming)

    def values(self, isolation: str) -> list[int]:
        batch = OttlaReader(self.options(streaming=False, **{"kafka.isolation.level": isolation}))
        rows = [row for task in batch.partitions() for part in batch.read(task) for row in part.to_pylist()]
        return [int(row["value"]) for row in rows]

    def committed(self, group: str) -> int:
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(self.name, 0)])
        [answer] = self.admin.list_consumer_group_offsets([wanted]).values()
        return answer.result(60).topic_partitions[0].offset


@pytest.fixture
def topic(broker: BrokerProcess) -> Topic:
    return Topic(broker)


def test_read_committed_gives_committed_records_alone_up_to_the_first_open_transaction(topic):
    plain = topic.producer()
    topic.append(plain, range(10))
    transactional = topic.producer(**{"transactional.id": f"{topic.name}-a"})
    transactional.init_transactions(60)
    for first, ends in ((10, transactional.commit_transaction), (20, transactional.abort_transaction)):
        transactional.begin_transaction()
        topic.append(transactional, range(first, first + 10))
        ends(60)
    topic.append(plain, range(30, 35))
    transactional.begin_transaction()
    topic.append(transactional, range(40, 45))
    topic.append(plain, range(50, 55))
    visible = [*range(20), *range(30, 35)]
    assert topic.values("read_committed") == visible
    assert topic.values("read_uncommitted") == [*range(35), *range(40, 45), *range(50, 55)]

    options = topic.options(streaming=True, **{"kafka.isolation.level": "read_committed", "maxOffsetsPerTrigger": "7"})
    query = Query(OttlaStreamReader(options))
    rows: list[int] = []
    while (batch := query.batch()) is not None:
        rows += [offset for _, _, offset in batch]
    # Markers and what was aborted take offsets and give no rows: at 20 the first marker, then ten records and a marker.
    assert rows == [*range(20), *range(32, 37)]
    transactional.commit_transaction(60)
    assert [offset for _, _, offset in query.batch() or ()] == [*range(37, 44)]


def test_tools_see_the_progress_of_a_query_in_its_group_and_another_query_begins_there(topic):
    topic.append(topic.producer(), range(50))
    group = f"{topic.name}-group"
    query = Query(OttlaStreamReader(topic.options(streaming=True, groupId=group, maxOffsetsPerTrigger="30")))
    query.batch()
    query.batch()
    assert topic.committed(group) == 30
    assert query.batch() is None
    assert topic.committed(group) == 50
    topic.append(topic.producer(), range(50, 53))
    other = Query(OttlaStreamReader(topic.options(streaming=True, groupId=group, startingOffsets="group")))
    assert [offset for _, _, offset in other.batch() or ()] == [50, 51, 52]


def test_a_group_whose_members_consume_is_refused(topic):
    group = f"{topic.name}-group"
    topic.append(topic.producer(), range(5))
    consumer = Consumer(
        {"bootstrap.servers": topic.bootstrap, "group.id": group, "auto.offset.reset": "earliest", "log_level": 2}
    )
    consumer.subscribe([topic.name])
    try:
        assert consumer.consume(1, timeout=60)
        with pytest.raises(OptionError, match=f"group '{group}' has members that consume with it; stop them"):
            Query(OttlaStreamReader(topic.options(streaming=True, groupId=group))).batch()
    finally:
        consumer.close()


def test_records_deleted_and_a_topic_made_again_before_they_were_read_are_data_that_was_lost(topic):
    topic.append(topic.producer(), range(20))
    query = Query(OttlaStreamReader(topic.options(streaming=True, maxOffsetsPerTrigger="5")))
    query.batch()
    for deletion in topic.admin.delete_records([TopicPartition(topic.name, 0, 12)]).values():
        deletion.result(60)
    with pytest.raises(DataLossError, match=rf"{topic.name}-0: offsets 5 to 11 were deleted before they were read"):
        query.batch()
    going_on = topic.options(streaming=True, failOnDataLoss="false")
    after = Query(OttlaStreamReader(going_on), query.position)
    assert [offset for _, _, offset in after.batch() or ()] == [*range(12, 20)]
    for deleted in topic.admin.delete_topics([topic.name]).values():
        deleted.result(60)
    with pytest.raises(
        DataLossError, match=f"{topic.name}-0 does not exist any more; it had been read up to offset 20"
    ):
        Query(OttlaStreamReader(topic.options(streaming=True)), after.position).batch()
    for made in topic.admin.create_topics([NewTopic(topic.name, 1, 1)]).values():
        made.result(60)
    topic.append(topic.producer(), range(30))
    with pytest.raises(DataLossError, match="was deleted and created again"):
        Query(OttlaStreamReader(topic.options(streaming=True)), after.position).batch()
    assert len(Query(OttlaStreamReader(going_on), after.position).batch() or ()) == 30

"""Copies a topic in transactions, for ever: bootstrap, source, target, name, partitions. To be killed at any time.

It ends by itself when anything is refused, as what it knows then may be wrong; the next one asks for what is committed.
"""

import os
import signal
import sys
from itertools import count

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from workload.worker import PATIENCE_S

RECORDS_MAX = 100
"""Records of a transaction."""
ABORT_EVERY = 7
"""One in so many transactions is aborted, and done again."""
POLL_S = 0.1
STEP_S = 10.0
"""How long it waits for one step of a transaction."""
TRANSACTION_S = 20


def main(bootstrap: str, source: str, target: str, name: str, partition_count: int) -> None:
    """Each transaction has the records of one call of `consume`, and where the next one begins."""
    brokers = {
        "bootstrap.servers": bootstrap,
        "log_level": 0,
        "reconnect.backoff.max.ms": 100,
        # Else librdkafka forgets all brokers when it has lost them, and the offsets of a transaction wait for ever for
        # a coordinator that it knew before.
        "metadata.recovery.strategy": "none",
    }
    producer = Producer({**brokers, "transactional.id": name, "transaction.timeout.ms": 1_000 * TRANSACTION_S})
    producer.init_transactions(PATIENCE_S)
    consumer = Consumer({**brokers, "group.id": name, "isolation.level": "read_committed", "enable.auto.commit": False})
    # Whoever had the name before is fenced off by now: what is committed stays as it is until we change it.
    committed = consumer.committed([TopicPartition(source, number) for number in range(partition_count)], PATIENCE_S)
    consumer.assign([TopicPartition(source, each.partition, max(0, each.offset)) for each in committed])
    for number in count():
        records = [each for each in consumer.consume(RECORDS_MAX, POLL_S) if each.error() is None]
        if records:
            signal.alarm(TRANSACTION_S)  # nobody handles it: a call that does not come back ends the process
            _copy(producer, consumer, records, target, is_void=number % ABORT_EVERY == ABORT_EVERY - 1)
            signal.alarm(0)


def _copy(producer: Producer, consumer: Consumer, records: list[Message], target: str, *, is_void: bool) -> None:
    begin: dict[int, TopicPartition] = {}
    end: dict[int, TopicPartition] = {}
    producer.begin_transaction()
    for record in records:
        topic, partition, offset = record.topic(), record.partition(), record.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        begin.setdefault(partition, TopicPartition(topic, partition, offset))
        end[partition] = TopicPartition(topic, partition, offset + 1)
        producer.produce(target, record.value(), partition=partition)
    if is_void:
        producer.flush(STEP_S)
        producer.abort_transaction(STEP_S)
        for each in begin.values():
            consumer.seek(each)
        return
    producer.send_offsets_to_transaction(list(end.values()), consumer.consumer_group_metadata(), STEP_S)
    producer.commit_transaction(STEP_S)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:5], partition_count=int(sys.argv[5]))
    except KafkaException as error:
        print(f"{sys.argv[4]} ends: {error}", file=sys.stderr, flush=True)
        os._exit(1)  # to give the clients back may take as long as what is refused would have

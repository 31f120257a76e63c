"""Copies a topic in transactions, for ever: bootstrap, source, target. To be killed at any time, and started again."""

import sys

from confluent_kafka import Consumer, Producer

ID = "copier"
PATIENCE_S = 10.0


def main(bootstrap: str, source: str, target: str) -> None:
    """Each transaction has the records of one call of `consume`, and where the group goes on."""
    brokers = {"bootstrap.servers": bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 100}
    producer = Producer({**brokers, "transactional.id": ID, "transaction.timeout.ms": 5_000})
    producer.init_transactions(60.0)
    consumer = Consumer(
        {
            **brokers,
            "group.id": ID,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 1_500,
            "heartbeat.interval.ms": 300,
        }
    )
    consumer.subscribe([source])
    while True:
        messages = [message for message in consumer.consume(7, 0.3) if message.error() is None]
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            producer.produce(target, message.value(), partition=message.partition())
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), PATIENCE_S)
        producer.commit_transaction(PATIENCE_S)


if __name__ == "__main__":
    main(*sys.argv[1:4])

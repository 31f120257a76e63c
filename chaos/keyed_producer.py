"""A topic that is compacted while its broker dies: each key has its newest acknowledged value, or a newer one."""

from collections.abc import Iterator, Sequence

from confluent_kafka import KafkaError, Message, Producer

from chaos.history import Send
from chaos.producers import ConfluentProducer
from chaos.read_back import ReadRecord
from ottla.simulation.anomaly import Anomaly, Violation
from ottla.simulation.history import Outcome
from workload.payload import read_value

TOPIC = "load-compacted"
KEYS = 40
CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0"}


class KeyedProducer(ConfluentProducer):
    """librdkafka; the number of a record says its key."""

    records_per_tick = 2

    def _produce(self, producer: Producer) -> None:
        send, value = self.next_record()

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.recorder.sent(send, message.offset())

        producer.produce(TOPIC, value=value, key=key_of(send.payload.number), partition=0, on_delivery=delivered)


def key_of(number: int) -> bytes:
    """The key of the record of this number."""
    return b"%d" % (number % KEYS)


def check_compacted(sends: Sequence[Send], records: Sequence[ReadRecord]) -> Iterator[Violation]:
    """What is wrong with what is left: bytes, order, keys, or the newest value of a key. Pure."""
    newest: dict[bytes, int] = {}
    before = -1
    for record in records:
        payload = read_value(record.value)
        where = f"{TOPIC}-0 offset {record.offset}"
        if payload is None or record.key != key_of(payload.number):
            yield Violation(Anomaly.CHANGED, where)
            continue
        if payload.number <= before:
            yield Violation(Anomaly.REORDERED, f"{where}: number {payload.number} after {before}")
        before = max(before, payload.number)
        newest[record.key] = payload.number
    acknowledged: dict[bytes, int] = {}
    for send in sends:
        if send.outcome is Outcome.OK:
            key = key_of(send.payload.number)
            acknowledged[key] = max(acknowledged.get(key, -1), send.payload.number)
    for key, number in acknowledged.items():
        if newest.get(key, -1) < number:
            yield Violation(
                Anomaly.LOST, f"{TOPIC}-0: key {key.decode()} has {newest.get(key)}, {number} was acknowledged"
            )

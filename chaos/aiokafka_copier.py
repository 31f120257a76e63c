"""What `chaos.copier` does, by aiokafka: the same arguments, the same transactions, the same end."""

import asyncio
import os
import signal
import sys
from itertools import count

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from chaos.copier import ABORT_EVERY, POLL_S, RECORDS_MAX, TRANSACTION_S
from workload.worker import PATIENCE_S


async def main(bootstrap: str, source: str, target: str, name: str, partition_count: int) -> None:
    """Each transaction has the records of one call of `getmany`, and where the next one begins."""
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=name, transaction_timeout_ms=1_000 * TRANSACTION_S
    )
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id=name, isolation_level="read_committed", enable_auto_commit=False
    )
    partitions = [TopicPartition(source, number) for number in range(partition_count)]
    consumer.assign(partitions)
    async with asyncio.timeout(PATIENCE_S):
        await producer.start()
        await consumer.start()
        # Whoever had the name before is fenced off by now: what is committed stays as it is until we change it.
        for partition in partitions:
            consumer.seek(partition, await consumer.committed(partition) or 0)
    for number in count():
        found = await consumer.getmany(timeout_ms=int(1_000 * POLL_S), max_records=RECORDS_MAX)
        records = {partition: some for partition, some in found.items() if some}
        if records:
            signal.alarm(TRANSACTION_S)  # nobody handles it: a call that does not come back ends the process
            is_void = number % ABORT_EVERY == ABORT_EVERY - 1
            await _copy(producer, consumer, records, target, name, is_void=is_void)
            signal.alarm(0)


async def _copy(
    producer: AIOKafkaProducer,
    consumer: AIOKafkaConsumer,
    records: dict[TopicPartition, list[ConsumerRecord]],
    target: str,
    group: str,
    *,
    is_void: bool,
) -> None:
    await producer.begin_transaction()
    sent = [
        await producer.send(target, record.value, partition=partition.partition)
        for partition, some in records.items()
        for record in some
    ]
    await asyncio.gather(*sent)
    if is_void:
        await producer.abort_transaction()
        for partition, some in records.items():
            consumer.seek(partition, some[0].offset)
        return
    ends = {partition: some[-1].offset + 1 for partition, some in records.items()}
    await producer.send_offsets_to_transaction(ends, group)
    await producer.commit_transaction()


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:5], partition_count=int(sys.argv[5])))
    except (KafkaError, TimeoutError) as error:
        print(f"{sys.argv[4]} ends: {error!r}", file=sys.stderr, flush=True)
        os._exit(1)  # to give the clients back may take as long as what is refused would have

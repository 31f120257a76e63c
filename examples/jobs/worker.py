"""A worker: `python -m examples.jobs.worker ADDRESS LIBRARY LOG REPAIRED`, until it is killed.

It can do bad jobs once there is a file REPAIRED. With pynsq it is a client of the channel of the group's name, and
ADDRESS is that of NSQ clients. It writes a line when it begins a job, and one when the broker has said that the job is
settled (NSQ clients are not told: when they have said so):

    {"job": 17, "event": "begun", "attempt": 1, "at_ms": ...}     events: begun, done, failed, refused
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import nsq

from examples.jobs.jobs import INVALID, POISONED, Job
from ottla.client import AcknowledgementMode, AcknowledgeType, ShareConsumerOptions, SyncShareConsumer

TOPIC = GROUP = "jobs"
PYNSQ = "pynsq"
NSQ_TIMEOUT_S = 3
"""So long after a worker of NSQ is gone its jobs go to others."""
AGAIN_S = 1
"""After so long it puts back a job that it cannot do, as the group does for share consumers."""
EVENTS = {
    AcknowledgeType.ACCEPT: "done",
    AcknowledgeType.RELEASE: "failed",
    AcknowledgeType.REJECT: "refused",
}


class Worker:
    """Does jobs and says so in its log."""

    def __init__(self, log: Path, repaired: Path) -> None:
        self._log = log.open("a")
        self._repaired = repaired

    def work(self, value: bytes, attempt: int) -> AcknowledgeType:
        """Do a job; returns how its record is to be acknowledged."""
        job = Job.decode(value)
        self._say(job.number, "begun", attempt)
        time.sleep(job.work_ms / 1_000)
        is_repaired = self._repaired.exists()
        if job.kind == INVALID and not is_repaired:
            return AcknowledgeType.REJECT
        return AcknowledgeType.RELEASE if job.kind == POISONED and not is_repaired else AcknowledgeType.ACCEPT

    def settled(self, value: bytes, verdict: AcknowledgeType, attempt: int) -> None:
        """The broker has it."""
        self._say(Job.decode(value).number, EVENTS[verdict], attempt)

    def _say(self, number: int, event: str, attempt: int) -> None:
        line = {"job": number, "event": event, "attempt": attempt, "at_ms": time.time_ns() // 1_000_000}
        self._log.write(json.dumps(line) + "\n")
        self._log.flush()


def with_ottla(bootstrap: str, worker: Worker) -> Iterator[None]:
    """A member by Ottla's own client."""
    options = ShareConsumerOptions(GROUP, acknowledgement_mode=AcknowledgementMode.EXPLICIT, max_poll_records=4)
    with SyncShareConsumer(bootstrap, options) as consumer:
        consumer.subscribe([TOPIC])
        while True:
            for record in consumer.poll(timeout_ms=500):
                value = record.value or b""
                verdict = worker.work(value, record.delivery_count)
                consumer.acknowledge(record, verdict)
                if not any(consumer.commit().values()):
                    worker.settled(value, verdict, record.delivery_count)
            yield


def with_librdkafka(bootstrap: str, worker: Worker) -> Iterator[None]:
    """A member by confluent-kafka."""
    consumer = confluent_kafka.ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": 4,
        }
    )
    consumer.subscribe([TOPIC])
    while True:
        for record in consumer.poll(0.5):
            if record.error() is not None:
                continue
            attempt = record.delivery_count()
            verdict = worker.work(record.value(), attempt)
            consumer.acknowledge(record, getattr(confluent_kafka.AcknowledgeType, verdict.name))
            if not any(consumer.commit_sync(10.0).values()):
                worker.settled(record.value(), verdict, attempt)
        yield


def with_pynsq(address: str, worker: Worker) -> Iterator[None]:
    """A client of a channel by pynsq. NSQ has no word for a job that nobody can do: it is put back, until the group's
    limit of deliveries or a member that refuses it makes it a letter.
    """

    def handle(message: Any) -> None:
        message.enable_async()
        verdict = worker.work(message.body, message.attempts)
        if verdict is AcknowledgeType.ACCEPT:
            message.finish()
        else:
            verdict = AcknowledgeType.RELEASE
            message.requeue(backoff=False, delay=AGAIN_S)
        worker.settled(message.body, verdict, message.attempts)

    nsq.Reader(
        message_handler=handle,
        nsqd_tcp_addresses=[address],
        topic=TOPIC,
        channel=GROUP,
        msg_timeout=NSQ_TIMEOUT_S,
        max_tries=0,
    )
    nsq.run()
    yield


LIBRARIES = {"ottla": with_ottla, "librdkafka": with_librdkafka, PYNSQ: with_pynsq}

if __name__ == "__main__":
    for _ in LIBRARIES[sys.argv[2]](sys.argv[1], Worker(Path(sys.argv[3]), Path(sys.argv[4]))):
        pass

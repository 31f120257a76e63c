"""A disk that cannot be read in places: who hears of it, who does not, and what comes when it can be read again."""

import errno
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from chaos.chapter import PARTITIONS
from chaos.faulty_disk import FaultyDisk
from chaos.final_state import read_final_state
from chaos.stage import TroubleOutcome, stage

DAMAGED = ("load-confluent", 0)


def unreadable_disk(root: Path) -> TroubleOutcome:
    """Reads of one partition end with EIO for a while: the others go on, and nothing is wrong afterwards."""
    outcome = TroubleOutcome("EIO from read")
    disk = FaultyDisk(root)
    with stage(outcome, root / "unreadable-disk", root, disk.environment) as at_work:
        disk.fail("/load-confluent-0/", errno.EIO, "read", "send")
        seconds = at_work.wait_for_writes()
        outcome.facts["seconds to the next write meanwhile"] = round(seconds, 2)
        others = [partition for partition in PARTITIONS if partition != DAMAGED]
        found = read_final_state(at_work.broker.bootstrap, others).records
        outcome.facts["records read of the others"] = sum(map(len, found.values()))
        outcome.expect(all(found.values()), "another partition could not be read")
        outcome.facts["records read of it"] = _read_for_a_while(at_work.broker.bootstrap)
        outcome.expect(outcome.facts["records read of it"] == 0, "records came from a file that cannot be read")
        at_work.wait_for_line("Input/output error")
        said = at_work.log_lines("Input/output error")
        outcome.facts["lines"] = len(said)
        outcome.expect(0 < len(said) < 30, f"the broker said {len(said)} times that a file cannot be read")
        disk.heal()
        at_work.settle()
    return outcome


def _read_for_a_while(bootstrap: str) -> int:
    """How many records of the damaged partition a consumer is given in a second."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "log_level": 0})
    try:
        consumer.assign([TopicPartition(*DAMAGED, 0)])
        return sum(message.error() is None for message in consumer.consume(1, 1.0))
    finally:
        consumer.close()

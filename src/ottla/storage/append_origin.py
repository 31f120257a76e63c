"""Who appends records to a log, which decides what is checked and who gives the offsets."""

from enum import Enum


class AppendOrigin(Enum):
    """The origins of Apache Kafka's log, but for those of its metadata log."""

    CLIENT = "client"
    """A producer: offsets are given here; idempotent batches have to come in the order of their sequence numbers."""
    COORDINATOR = "coordinator"
    """A coordinator of this broker: offsets are given here, control batches are fine, nothing is deduplicated."""
    REPLICATION = "replication"
    """The leader of the partition: batches are appended as they are, at the offsets and epochs they have there."""

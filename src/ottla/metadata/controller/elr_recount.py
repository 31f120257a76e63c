"""Decides what a changed `min.insync.replicas` means for the replicas that are out of sync and eligible (KIP-966).

A leader commits without them as soon as its ISR is as large as the new value: from then on they miss something.
"""

from collections.abc import Mapping, Sequence

from ottla.metadata.controller.partition_changes import PartitionChanges
from ottla.metadata.controller.partition_leadership import recount
from ottla.metadata.controller.topic_replication import ReplicationRules, changes_replication
from ottla.metadata.image.delta import apply_records
from ottla.metadata.image.image import MetadataImage
from ottla.metadata.records import MetadataRecord


def decide_recount(
    image: MetadataImage, records: Sequence[MetadataRecord], broker_settings: Mapping[str, str]
) -> PartitionChanges:
    """What changes in partitions together with `records`, which change settings."""
    if not changes_replication(records):
        return PartitionChanges(image, ReplicationRules(image, broker_settings), frozenset())
    after, _ = apply_records(image, records)
    changes = PartitionChanges(image, ReplicationRules(after, broker_settings), image.active_brokers())
    changes.each(
        "min.insync.replicas was changed",
        lambda partition: bool(partition.elr),
        lambda state, rule, live: recount(state, live, min_isr=rule.min_isr),
    )
    return changes

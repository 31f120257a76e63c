"""Decides when the topics of coordinators get more replicas: as brokers join, until they have what their setting asks.

A cluster begins with one broker, and its internal topics with one replica. They are raised by a reassignment that the
controller begins by itself, and never lowered.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ottla.metadata.controller.reassignment import Reassignment
from ottla.metadata.image.image import MetadataImage, PartitionImage
from ottla.model.topic_name import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC

REPLICATION_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        CONSUMER_OFFSETS_TOPIC: "offsets.topic.replication.factor",
        TRANSACTION_STATE_TOPIC: "transaction.state.log.replication.factor",
    }
)
"""The setting that says how many replicas an internal topic has, by the topic."""


def missing_replicas(image: MetadataImage, factors: Mapping[str, int]) -> list[Reassignment]:
    """What is to be reassigned so that internal topics have the replicas they should, as far as there are brokers.

    `factors` are the values of their settings, by the topic. New replicas go to the brokers that hold the fewest of the
    topic, in racks without one before others, and each partition prefers another leader. What is on its way already is
    left alone.
    """
    active = sorted(image.active_brokers())
    requests: list[Reassignment] = []
    for name, factor in factors.items():
        topic = image.topic(name)
        wanted = min(factor, len(active))
        if topic is None or all(len(each.replicas) >= wanted or each.is_reassigned for each in topic.partitions):
            continue
        held = dict.fromkeys(active, 0)
        for partition in topic.partitions:
            for broker in partition.replicas:
                held[broker] = held.get(broker, 0) + 1
        requests.extend(
            Reassignment(name, partition.index, _raised(image, partition, wanted, active, held))
            for partition in topic.partitions
            if not partition.is_reassigned and len(partition.replicas) < wanted
        )
    return requests


def _raised(
    image: MetadataImage, partition: PartitionImage, wanted: int, active: list[int], held: dict[int, int]
) -> tuple[int, ...]:
    replicas = list(partition.replicas)
    while len(replicas) < wanted:
        racks = {image.brokers[each].rack for each in replicas if each in image.brokers}
        candidates = [broker for broker in active if broker not in replicas]
        if not candidates:
            break
        best = min(candidates, key=lambda broker: (image.brokers[broker].rack in racks, held[broker], broker))
        held[best] += 1
        replicas.append(best)
    turn = partition.index % len(replicas)
    return (*replicas[turn:], *replicas[:turn])

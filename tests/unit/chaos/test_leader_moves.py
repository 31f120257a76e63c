"""Which replicas a planned move of leaders asks for."""

from random import Random
from uuid import UUID

from chaos.leader_moves import places_to_move
from ottla.client.io.cluster_metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from ottla.model.topic_partition import TopicPartition


def test_what_a_broker_leads_gets_another_preferred_leader_and_nothing_else_does() -> None:
    metadata = ClusterMetadata()
    partitions = (
        PartitionMetadata(0, 1, 0, (1, 2, 3), (1, 2, 3)),
        PartitionMetadata(1, 2, 0, (2, 3, 1), (1, 2, 3)),
        PartitionMetadata(2, 1, 0, (1, 2, 3), (1,)),
    )
    metadata.topics["jobs"] = TopicMetadata("jobs", UUID(int=1), is_internal=False, partitions=partitions)
    wanted = places_to_move(metadata, {1}, Random(1))
    assert list(wanted) == [TopicPartition("jobs", 0)]
    (replicas,) = wanted.values()
    assert replicas[0] != 1
    assert sorted(replicas) == [1, 2, 3]
    both = places_to_move(metadata, {1, 2}, Random(1))
    assert [replicas[0] for place, replicas in both.items() if place.partition < 2] == [3, 3], (
        "neither of them leads then"
    )
    assert [replicas[-1] for replicas in both.values()] == [1, 2], "who led is the last"

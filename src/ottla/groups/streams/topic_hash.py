"""A number that changes when the topics change that an assignment rests on."""

from hashlib import blake2b

from ottla.groups.streams.topology import Topology, required_topics
from ottla.metadata.image.image import MetadataImage


def topic_hash(topology: Topology, image: MetadataImage) -> int:
    """The topics a topology needs that are there, with their ids and numbers of partitions, as an int64.

    Apache Kafka's is another one: a group that moves from one to the other is assigned once more.
    """
    digest = blake2b(digest_size=8)
    for name in sorted(required_topics(topology)):
        topic = image.topic(name)
        if topic is not None:
            digest.update(f"{name}\0{topic.topic_id}\0{len(topic.partitions)}\0".encode())
    return int.from_bytes(digest.digest(), "big", signed=True)

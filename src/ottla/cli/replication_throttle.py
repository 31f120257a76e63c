"""How much of the network a reassignment may take (KIP-73), set before it begins and taken back when it is done.

broker  leader.replication.throttled.rate, follower.replication.throttled.rate           bytes a second
topic   leader.replication.throttled.replicas, follower.replication.throttled.replicas   0:1,0:2 (partition:broker)
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.reassignment_plan import Assignment
    from ottla.model.topic_partition import TopicPartition

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


async def set_throttle(
    cluster: "Cluster", present: "Mapping[TopicPartition, Sequence[int]]", plan: "Assignment", bytes_a_second: int
) -> None:
    """Have what a plan copies take no more than this from and to each broker. Raises BrokerError."""
    from ottla.client.admin import Admin
    from ottla.client.configs import ConfigResource

    admin = Admin(cluster)
    sources: dict[str, list[str]] = {}
    targets: dict[str, list[str]] = {}
    brokers: set[int] = set()
    for place, replicas in sorted(plan.items()):
        had = present[place]
        added = [each for each in replicas if each not in had]
        if added:
            sources.setdefault(place.topic, []).extend(f"{place.partition}:{each}" for each in had)
            targets.setdefault(place.topic, []).extend(f"{place.partition}:{each}" for each in added)
            brokers |= {*had, *added}
    for topic in targets:
        replicas_of = dict(zip(REPLICAS, (",".join(sources[topic]), ",".join(targets[topic])), strict=True))
        await admin.alter_configs(ConfigResource.topic(topic), replicas_of)
    for broker_id in sorted(brokers):
        await admin.alter_configs(ConfigResource.broker(broker_id), dict.fromkeys(RATES, str(bytes_a_second)))


async def remove_throttle(cluster: "Cluster", topics: Collection[str]) -> bool:
    """Take back what was set for these topics, and on every broker; whether there was anything. Raises BrokerError."""
    from ottla.client.admin import Admin
    from ottla.client.brokers import describe_cluster
    from ottla.client.configs import ConfigResource, ConfigSource
    from ottla.client.errors import TopicNotFoundError

    admin = Admin(cluster)
    known = [each.broker_id for each in (await describe_cluster(cluster)).brokers if not each.is_fenced]
    resources = [(ConfigResource.topic(topic), REPLICAS, ConfigSource.TOPIC) for topic in sorted(topics)]
    resources += [(ConfigResource.broker(each), RATES, ConfigSource.DYNAMIC_BROKER) for each in known]
    was_set = False
    for resource, names, source in resources:
        try:
            found = [each.name for each in await admin.describe_configs(resource, names) if each.source is source]
        except TopicNotFoundError:  # deleted meanwhile
            continue
        if found:
            await admin.alter_configs(resource, dict.fromkeys(found))
            was_set = True
    return was_set

"""How much of the network a reassignment may take (KIP-73): who sets a throttle, and who removes it.

broker  leader.replication.throttled.rate, follower.replication.throttled.rate           bytes a second
topic   leader.replication.throttled.replicas, follower.replication.throttled.replicas   0:1,0:2 (partition:broker)

A move owns the entries of its partitions in the lists of its topics. They are added to what is there, and removed when
the move has ended; no others are. The rates of a broker belong to all moves: they are removed when nothing moves any
more, or set back to what they were when no move had set them. `*` and other entries are somebody else's.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from ottla.cli.exit_codes import ExitCode
from ottla.cli.failure import CommandError
from ottla.client.admin.admin import Admin
from ottla.client.admin.configs import (
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    alter_config_list,
    alter_configs,
    describe_configs,
)
from ottla.client.admin.reassignments import list_reassignments
from ottla.client.errors import ClientError, TopicNotFoundError
from ottla.client.io.brokers import describe_cluster

if TYPE_CHECKING:
    from ottla.client.admin.reassignment_plan import Assignment
    from ottla.client.io.cluster import Cluster
    from ottla.model.topic_partition import TopicPartition

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
ALL = "*"


class ReplicationThrottle:
    """The throttle of one plan: it knows what was there before it, so it removes no more than it has set."""

    def __init__(
        self,
        cluster: "Cluster",
        present: "Mapping[TopicPartition, Sequence[int]]",
        plan: "Assignment",
        say: Callable[[str], None] = click.echo,
    ) -> None:
        self._cluster = cluster
        self._say = say
        self._places = frozenset(plan)
        self._wanted: dict[str, tuple[list[str], list[str]]] = {}
        """For each topic the entries of the replicas that are copied from, and of those that are copied to."""
        self._sources: set[int] = set()
        self._targets: set[int] = set()
        self._rates_before: dict[int, dict[str, str]] = {}
        self._entries: list[tuple[str, str, list[str]]] = []
        """Topic, setting and items, as they were added."""
        self._moved_before = False
        """Whether the rates that were set before are those of another move."""
        for place, replicas in sorted(plan.items()):
            had = present[place]
            added = [each for each in replicas if each not in had]
            if added:
                sources, targets = self._wanted.setdefault(place.topic, ([], []))
                sources.extend(f"{place.partition}:{each}" for each in had)
                targets.extend(f"{place.partition}:{each}" for each in added)
                self._sources.update(had)
                self._targets.update(added)

    async def set(self, bytes_a_second: int, *, is_left: bool) -> None:
        """Have what the plan copies take no more than this from and to each broker; all of it is set, or nothing.

        `is_left` says that nobody is going to call `remove`: a rate that is not of a move is then kept, by a refusal.
        Raises ClientError and CommandError.
        """
        self._moved_before = await _is_throttled_move_under_way(self._cluster)
        try:
            await self._set_rates(str(bytes_a_second), is_left=is_left)
            await self._add_entries()
        except BaseException:
            await self.remove()
            raise

    async def _set_rates(self, rate: str, *, is_left: bool) -> None:
        running = await _running(self._cluster)
        for broker_id in sorted(self._sources | self._targets):
            resource = ConfigResource.broker(broker_id)
            try:
                if broker_id not in running:
                    raise CommandError(f"broker {broker_id} is not running", ExitCode.UNREACHABLE)
                before = await _set_on(self._cluster, resource, RATES)
                others = {name: value for name, value in before.items() if value != rate}
                if others and is_left and not self._moved_before:
                    name, value = next(iter(others.items()))
                    raise _RateTakenError(
                        f"{name}={value} is already set on broker {broker_id}, not by a move: leave out --throttle to "
                        "use that rate, or leave out --no-wait, so that it is restored after the move"
                    )
                self._rates_before[broker_id] = before
                await alter_configs(self._cluster, resource, dict.fromkeys(RATES, rate))
            except (ClientError, CommandError) as error:
                # A broker that is lost sends nothing. One that is copied to must keep to the rate.
                if isinstance(error, _RateTakenError) or broker_id in self._targets:
                    raise
                click.echo(f"ottla: broker {broker_id} is not throttled: {error}", err=True)

    async def _add_entries(self) -> None:
        for topic, wanted in self._wanted.items():
            resource = ConfigResource.topic(topic)
            before = await _set_on(self._cluster, resource, REPLICAS)
            for name, items in zip(REPLICAS, wanted, strict=True):
                there = _items(before.get(name, ""))
                new = [item for item in items if item not in there]
                if new and ALL not in there:
                    await alter_config_list(self._cluster, resource, ConfigOperation.APPEND, name, new)
                    self._entries.append((topic, name, new))

    async def remove(self, still_moving: "Collection[TopicPartition]" = ()) -> None:
        """The plan has ended, but for some of its partitions: remove what was set for it. Raises ClientError."""
        moving = (set(await list_reassignments(self._cluster)) - self._places) | set(still_moving)
        for topic, name, items in self._entries:
            await _subtract(self._cluster, topic, {name: _not_of(items, topic, moving)})
        if moving:
            if self._rates_before:
                self._say("other partitions are still moving: the brokers' throttled rates stay until they have moved")
            return
        for broker_id, before in self._rates_before.items():
            kept = {} if self._moved_before else before
            changes = {name: kept.get(name) for name in RATES}
            try:
                await alter_configs(self._cluster, ConfigResource.broker(broker_id), changes)
            except ClientError as error:
                click.echo(f"ottla: the throttled rates of broker {broker_id} were not removed: {error}", err=True)


class _RateTakenError(CommandError):
    """Somebody has set another rate."""


async def remove_throttle(cluster: "Cluster", ended: "Iterable[TopicPartition]") -> bool:
    """Remove the throttle of partitions that do not move any more; whether there was any. Raises ClientError.

    The rates of the brokers go with the last one: when nothing moves and no topic names throttled replicas.
    """
    indexes: dict[str, set[int]] = {}
    for place in ended:
        indexes.setdefault(place.topic, set()).add(place.partition)
    was_set = False
    for topic, own in sorted(indexes.items()):
        before = await _set_on(cluster, ConfigResource.topic(topic), REPLICAS)
        items = {name: [each for each in _items(value) if _index(each) in own] for name, value in before.items()}
        was_set = await _subtract(cluster, topic, items) or was_set
    if not was_set or await list_reassignments(cluster) or await throttled_topics(cluster, without=ended):
        return was_set
    for broker_id in sorted(await _running(cluster)):
        resource = ConfigResource.broker(broker_id)
        if found := await _set_on(cluster, resource, RATES):
            await alter_configs(cluster, resource, dict.fromkeys(found))
    return True


async def throttled_topics(cluster: "Cluster", *, without: "Iterable[TopicPartition]" = ()) -> list[str]:
    """The topics that name throttled replicas, other than those of some partitions. Raises BrokerError."""
    ended = set(without)
    found = []
    for topic in sorted(each.name for each in await Admin(cluster).list_topics()):
        lists = await _set_on(cluster, ConfigResource.topic(topic), REPLICAS)
        own = {place.partition for place in ended if place.topic == topic}
        if any(_index(item) not in own for value in lists.values() for item in _items(value)):
            found.append(topic)
    return found


async def _is_throttled_move_under_way(cluster: "Cluster") -> bool:
    indexes: dict[str, set[int]] = {}
    for place in await list_reassignments(cluster):
        indexes.setdefault(place.topic, set()).add(place.partition)
    for topic, moving in sorted(indexes.items()):
        lists = await _set_on(cluster, ConfigResource.topic(topic), REPLICAS)
        if any(_index(item) in moving for value in lists.values() for item in _items(value)):
            return True
    return False


async def _running(cluster: "Cluster") -> set[int]:
    return {each.broker_id for each in (await describe_cluster(cluster)).brokers if not each.is_fenced}


async def _set_on(cluster: "Cluster", resource: "ConfigResource", names: Sequence[str]) -> dict[str, str]:
    """What is set on a topic or broker itself; nothing for a topic that was deleted."""
    try:
        entries = await describe_configs(cluster, resource, names)
    except TopicNotFoundError:
        return {}
    own = (ConfigSource.TOPIC, ConfigSource.DYNAMIC_BROKER)
    return {each.name: each.value or "" for each in entries if each.source in own}


async def _subtract(cluster: "Cluster", topic: str, lists: Mapping[str, Collection[str]]) -> bool:
    """Take items out of the lists of a topic; whether any was there. A list of nothing else is not set any more."""
    resource = ConfigResource.topic(topic)
    before = await _set_on(cluster, resource, REPLICAS)
    was_there = False
    for name, items in lists.items():
        there = _items(before.get(name, ""))
        gone = [item for item in there if item in items]
        if not gone:
            continue
        was_there = True
        try:
            if len(gone) == len(there):
                await alter_configs(cluster, resource, {name: None})
            else:
                await alter_config_list(cluster, resource, ConfigOperation.SUBTRACT, name, gone)
        except TopicNotFoundError:  # deleted meanwhile
            return was_there
    return was_there


def _items(value: str) -> list[str]:
    return [item.strip() for item in value.split(",") if item.strip()]


def _index(item: str) -> int:
    """The partition of an entry, -1 for those of all."""
    return -1 if item == ALL else int(item.partition(":")[0])


def _not_of(items: Iterable[str], topic: str, moving: "Collection[TopicPartition]") -> list[str]:
    indexes = {place.partition for place in moving if place.topic == topic}
    return [item for item in items if _index(item) not in indexes]
